"""The passes of `rewrite`."""
