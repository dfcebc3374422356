"""Reading ONNX models: what is written in them, made known as far as it can be before they run."""
