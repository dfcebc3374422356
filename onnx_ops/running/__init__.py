"""Models run on engines: slicing nodes compared, and changed models verified."""
