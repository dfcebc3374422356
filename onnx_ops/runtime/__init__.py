"""Whole models on onnxruntime's CPU provider, in worker processes, for the verification and the passes."""
