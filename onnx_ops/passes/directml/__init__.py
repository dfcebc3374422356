"""The passes of `harden` for DirectML."""
