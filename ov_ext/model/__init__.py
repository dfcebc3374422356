"""OpenVINO models: reading, writing, and replacing nodes."""
