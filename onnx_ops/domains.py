"""ONNX models: reading, preparing, and what their slicing nodes select."""

STRIDED_SLICE_DOMAIN = "ov_ext"
