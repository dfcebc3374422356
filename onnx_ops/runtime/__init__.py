"""Whole models on onnxruntime's CPU provider, in worker processes; the passes and the verification use it."""
