"""A conformance suite of slicing for engines: runs the cases of `sliceport cases` and reports the verdicts by rule."""
