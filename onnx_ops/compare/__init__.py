"""Executors side by side: what each computes for the slicing nodes of a model, compared bit for bit."""
