"""The kinds of our operators, in Python and in C++; `tests/ov_ext/conftest.py` runs tests with each that there is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import openvino as ov
import pytest

from ov_ext.operators.backends import VARIABLE, backend

PYTHON, NATIVE = "python", "native"


@contextmanager
def using(name: str) -> Iterator[None]:
    """Make operators of one kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, name)
        yield


def _find_reason() -> str | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        found = backend()
    return None if found.name == NATIVE else found.reason


WHY_NOT_NATIVE = _find_reason()
"""The reason why operators in C++ are missing, or None."""


def _list_kinds() -> tuple[str, ...]:
    asked = os.environ.get(VARIABLE)
    if asked:
        return (asked,)
    return (PYTHON,) if WHY_NOT_NATIVE else (PYTHON, NATIVE)


THERE = _list_kinds()
"""The kinds that are available, and that SLICEPORT_BACKEND does not rule out."""


def is_native(node: ov.Node) -> bool:
    """Whether a node of ours is one in C++."""
    return type(node) is ov.Node
