"""Executors side by side: what each computes for the slicing nodes of a model, compared bit for bit."""

from onnx_ops.compare.run import DEFAULT_EXECUTORS, EXECUTORS, Comparison, Report, compare

__all__ = ["DEFAULT_EXECUTORS", "EXECUTORS", "Comparison", "Report", "compare"]
