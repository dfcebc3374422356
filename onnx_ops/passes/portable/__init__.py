"""The passes of `harden --target portable`."""
