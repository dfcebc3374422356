"""Engines, which run operators, slicing nodes or whole models, and the comparison of slicing nodes."""
