"""Shared by all tests: where the models are, and how a lowered program is run on the emulator."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from sliceport.directml import device
from sliceport.directml.device import install
from sliceport.engines import directml as shared

# No deadline: machines are noisy. The same examples every time, so that a run says something about the code alone;
# `--hypothesis-profile=new` tries new ones, and the fuzzers do.
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("new"), derandomize=True)
settings.load_profile("same")

# A shell's background jobs ignore Ctrl-C, and so would what the tests start and then interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
SMALL_HEAPS = {"VKD3D_CONFIG": "virtual_heaps"}
"""Without it, vkd3d gives every session of onnxruntime two descriptor heaps of 256 MB that lavapipe fills: 0.25 s, not
0.006. Single nodes run with it; some whole models end the host program, so it is not the product's default."""
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


@pytest.fixture(scope="session")
def directml() -> Iterator[device.Device]:
    """The real DirectML. Where it could be installed, CI does not do without it."""
    if not install.is_installed():
        is_left_out = os.environ.get("DIRECTML") == "no"  # as `make test DIRECTML=no` says
        if os.environ.get("CI") == "true" and not is_left_out and install.missing() is None:
            pytest.fail("DirectML is not installed, and this machine could have it: run sliceport directml install")
        pytest.skip("DirectML is not installed: run sliceport directml install")
    with device.open(environment=SMALL_HEAPS) as opened, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "shared_device", lambda: opened)
        yield opened


@pytest.fixture
def full_edition() -> None:
    """DirectML with every operator."""
    if not install.is_installed(full=True):
        pytest.skip("the full edition is not installed: run sliceport directml install --full")


@pytest.fixture
def inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """See `inferred_once.py`."""
    from inferred_once import propagate

    from onnx_ops import inference

    monkeypatch.setattr(inference, "_propagate", propagate)


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLUMNS"):
        if name in os.environ:
            monkeypatch.delenv(name)
