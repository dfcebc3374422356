"""The passes of `rewrite --simplify`."""
