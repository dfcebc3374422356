"""Shared by all tests: where the models are, and how a lowered program is run on the emulator."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import fork_server
import pytest
import sandbox_child
from command_line import Invoke, Printed
from hypothesis import HealthCheck, settings
from processes import SMALL_HEAPS

from sliceport import device
from sliceport.cli.main import main
from sliceport.device import install, validator
from sliceport.engines import directml as shared
from sliceport.engines import directml_validate
from sliceport.sandbox import child_process

# No deadline: machines are noisy. The same examples every time, so that a run says something about the code alone;
# `--hypothesis-profile=new` tries new ones.
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("new"), derandomize=True)
settings.load_profile("same")

# To OpenVINO this is a CI job, so that it reports nothing: else each import of it, and each conversion eight times,
# forks a process that connects to a server, out of one with threads.
os.environ.setdefault("JENKINS_URL", "none")

# Every process that a test starts would start threads for products of matrices, though it computes none.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell's background jobs ignore Ctrl-C, and so would what the tests start and then interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The garbage collector looks again and again through what is imported and collected, which stays.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


ROOT = Path(__file__).parent.parent
MODELS = ROOT / "models"
SHARED = ROOT.parent / "shared"
_IS_READY = directml_validate.DirectMLValidate.is_ready


@pytest.fixture(scope="session")
def models() -> Path:
    return MODELS


@pytest.fixture(scope="session")
def zoo() -> Path:
    """Return the folder of exports that are not part of the project."""
    folder = SHARED / "zoo"
    if not folder.is_dir():
        pytest.skip("no zoo beside the project")
    return folder


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that has what a clone has."""
    from pages import make_clone

    return make_clone(tmp_path_factory.mktemp("clone"))


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Invoke:
    """Return a function that runs a command line in this process, checks its exit code and returns what it printed."""

    def run(*words: object, code: object = 0) -> Printed:
        capsys.readouterr()
        try:
            ended_with: object = main([str(word) for word in words])
        except SystemExit as exit_:  # of the parser
            ended_with = exit_.code
        printed = Printed(*capsys.readouterr())
        assert ended_with == code, printed.err
        return printed

    return run


class Renewed(device.Device):
    """A device whose host ends after 24 sessions on Windows, because Wine's Direct3D keeps 150 MB of each of them."""

    sessions = count(1)

    def _ask_once(self, request: dict[str, Any], *payload: Any) -> tuple[dict[str, Any], bytes]:
        if sys.platform == "win32" and request["do"] == "onnx" and next(self.sessions) % 24 == 0:
            device.Device.close(self)
        return super()._ask_once(request, *payload)


@pytest.fixture(scope="session")
def directml() -> Iterator[device.Device]:
    """Open the real DirectML. CI fails if it could be installed and is not."""
    if not install.is_installed():
        is_left_out = os.environ.get("DIRECTML") == "no"  # as `make test DIRECTML=no` says
        if os.environ.get("CI") == "true" and not is_left_out and install.missing_requirement() is None:
            pytest.fail("DirectML is not installed, and this machine could have it: run sliceport directml install")
        pytest.skip("DirectML is not installed: run sliceport directml install")
    with Renewed(install.host_command(), environment=SMALL_HEAPS) as opened, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "shared_device", lambda: opened)
        yield opened


@pytest.fixture(scope="session")
def _installed_validator() -> Path | None:
    return install.validator_folder() if install.is_validator_installed() else None


@pytest.fixture
def validator_folder(_installed_validator: Path | None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of DirectML's validator, and let it take part. CI fails if it could be installed and is not."""
    if _installed_validator is None:
        is_left_out = os.environ.get("DIRECTML") == "no"
        if os.environ.get("CI") == "true" and not is_left_out and validator.missing_requirement() is None:
            pytest.fail("DirectML's validator is not installed: run sliceport directml install --validator")
        pytest.skip("DirectML's validator is not installed: run sliceport directml install --validator")
    monkeypatch.setattr(directml_validate.DirectMLValidate, "is_ready", _IS_READY)
    return _installed_validator


@pytest.fixture(scope="session", autouse=True)
def _compare_the_same_everywhere() -> Iterator[None]:
    """Leave the validator out of the default executors; `validator_folder` puts it back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(directml_validate.DirectMLValidate, "is_ready", lambda _: False)
        yield


class Kept(Renewed):
    """A device that goes on when it is closed, for the next one who opens it."""

    def __enter__(self) -> Kept:
        self.transient = []
        return self

    def close(self) -> None:
        pass


@pytest.fixture(scope="session")
def _kept_provider() -> Iterator[Callable[..., Kept]]:
    from onnx_ops.running import directml_provider

    opened: list[Kept] = []

    def open_it(_adapter: str | None = None) -> Kept:
        if not opened:
            opened.append(Kept(install.host_command(), directml_provider.TIMEOUT, retries=True))
        return opened[0]

    yield open_it
    for one in opened:
        device.Device.close(one)


@pytest.fixture
def provider_kept(monkeypatch: pytest.MonkeyPatch, _kept_provider: Callable[..., Kept]) -> None:
    """Share one host program between tests of whole models, which do not test its start."""
    from onnx_ops.running import directml_provider

    monkeypatch.setattr(directml_provider, "_shared_device", _kept_provider)


@pytest.fixture
def inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache onnx's inference as `inferred_once.py` describes."""
    from inferred_once import propagate

    from onnx_ops.infer import inference

    monkeypatch.setattr(inference, "_propagate", propagate)


@pytest.fixture(scope="session", autouse=True)
def _children_are_forked() -> Iterator[None]:
    """Fork the sandbox's children from a server; a new interpreter takes 0.6 s to import what most of them need."""
    with pytest.MonkeyPatch.context() as patch:
        if fork_server.IS_SUPPORTED:
            patch.setattr(child_process, "_start", sandbox_child.fork)
        yield


@pytest.fixture(scope="session", autouse=True)
def _quiet_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("NO_COLOR", "COLUMNS"):
            patch.delenv(name, raising=False)
        yield
