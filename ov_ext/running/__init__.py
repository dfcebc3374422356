"""Running OpenVINO models: whole, cut, and node by node."""

OUR_ENGINE = "ov_ext"
"""The engine that runs the operators of ov_ext."""
