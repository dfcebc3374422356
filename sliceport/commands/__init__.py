"""The commands that work on one model, for the command line and for batches."""
