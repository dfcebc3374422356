"""Child processes for code that may crash, and output files that are written whole or not at all."""
