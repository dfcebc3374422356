"""The engines, one in each file; `conformance/engine.py` describes the names that a file defines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Inputs = dict[str, Any]
"""Arrays by the names of inputs, in the model's order."""
Run = Callable[[Path, Inputs, list[str]], list[Any]]
"""Runs a model's file on inputs, and returns the outputs in the order of the given names. An exception means that the
engine refuses the model."""
