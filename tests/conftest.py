"""Shared by all tests: where the models are, and how a lowered program is run on the emulator."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODELS = ROOT / "models"
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def models() -> Path:
    return MODELS


@pytest.fixture(scope="session")
def zoo() -> Path:
    """Exports that are not part of the project."""
    folder = SHARED / "zoo"
    if not folder.is_dir():
        pytest.skip("no zoo beside the project")
    return folder


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLUMNS"):
        if name in os.environ:
            monkeypatch.delenv(name)
