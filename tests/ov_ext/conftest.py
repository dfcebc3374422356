"""Fixtures for tests of both kinds of operators."""

from __future__ import annotations

from functools import cache

import openvino as ov
import pytest
from openvino_backends import NATIVE, PYTHON, THERE, WHY_NOT_NATIVE, using

import ov_ext


@pytest.fixture(params=[PYTHON, NATIVE])
def kind(request: pytest.FixtureRequest) -> str:
    """Run a test with each kind of our operators, and return the kind."""
    name: str = request.param
    if name not in THERE:
        pytest.skip(WHY_NOT_NATIVE or f"SLICEPORT_BACKEND rules out {name}")
    request.getfixturevalue("monkeypatch").setenv("SLICEPORT_BACKEND", name)
    return name


@pytest.fixture
def core(kind: str) -> ov.Core:
    """Return a Core with operators of that kind."""
    return registered(kind)


@cache
def registered(kind: str) -> ov.Core:
    with using(kind):
        new_core = ov.Core()
        ov_ext.register(new_core)
    return new_core
