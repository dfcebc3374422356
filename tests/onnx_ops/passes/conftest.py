"""Passes ask again and again about the same models."""

import pytest


@pytest.fixture(autouse=True)
def _inferred_once(inferred_once: None) -> None:
    pass
