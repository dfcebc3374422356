"""The one door for what is not trusted: a supervisor, children that may die, and files put into place by renaming."""
