"""sliceport converts slicing operators between ONNX, OpenVINO and DirectML exactly, and verifies it bit for bit."""

__version__ = "0.1.0"
