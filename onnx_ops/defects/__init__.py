"""Defects of engines on ONNX nodes: the conditions that find them, and `check`."""
