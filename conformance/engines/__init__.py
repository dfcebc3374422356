"""The engines, one a file; `conformance/engine.py` says what a file states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Inputs = dict[str, Any]
"""Arrays by the names of inputs, in the model's order."""
Run = Callable[[Path, Inputs, list[str]], list[Any]]
"""Runs a model's file on inputs, and returns the outputs of these names, in this order."""
