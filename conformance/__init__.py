"""A conformance suite of slicing for engines. It runs the cases of `sliceport cases`, and reports verdicts by rule."""
