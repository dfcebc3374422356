"""The domains of operators: ONNX's own domain, which has two names, and the domain of StridedSlice."""

from __future__ import annotations

from collections.abc import Mapping

STANDARD_DOMAINS = ("", "ai.onnx")
"""The names of ONNX's own domain; the first is the usual one."""
STRIDED_SLICE_DOMAIN = "ov_ext"


def usual_name(domain: str) -> str:
    """Return the usual name of a domain, which is an empty string for ONNX's own domain."""
    return "" if domain in STANDARD_DOMAINS else domain


def standard_opset(imports: Mapping[str, int], default: int = 1) -> int:
    """Return the version in which ONNX's own domain is imported, under either of its names, or else the default."""
    return imports.get("", imports.get("ai.onnx", default))
