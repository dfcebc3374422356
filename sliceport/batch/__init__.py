"""Many models in one run, one result each."""
