"""What the tests of the operators share."""

from __future__ import annotations

from functools import cache

import openvino as ov
import pytest
from openvino_backends import NATIVE, PYTHON, THERE, WHY_NOT_NATIVE, using

import ov_ext


@pytest.fixture(params=[PYTHON, NATIVE])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of our operators, which a test that asks for it runs with: both, where there are both."""
    name: str = request.param
    if name not in THERE:
        pytest.skip(WHY_NOT_NATIVE or f"SLICEPORT_BACKEND rules out {name}")
    request.getfixturevalue("monkeypatch").setenv("SLICEPORT_BACKEND", name)
    return name


@pytest.fixture
def core(kind: str) -> ov.Core:
    """A Core that knows operators of that kind."""
    return registered(kind)


@cache
def registered(kind: str) -> ov.Core:
    with using(kind):
        made = ov.Core()
        ov_ext.register(made)
    return made
