"""Conformance cases of slicing: models of one node with the outputs that their standard requires."""
