"""DirectML's library in process: the verdicts of DirectML.dll, and one sentence where it cannot be had."""

from __future__ import annotations

import ctypes
import os
import platform
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from amounts import amount
from command_line import Invoke
from descriptors import good, spoilt
from onnx_node_cases import CASES as NODE_TESTS
from onnx_node_cases import with_constants
from onnxruntime_cases import GOOD, STRINGS, vector_model
from platforms import POSIX

import sliceport
from sliceport import device
from sliceport.device import CallFailed, DeviceError, install, libraries, status, validator
from sliceport.directml.operators import Operator
from sliceport.engines import directml_validate
from sliceport.engines.diagnosis import Diagnosis
from sliceport.sandbox import supervisor
from sliceport.sandbox.child_process import ChildKilled

ROOT = Path(__file__).parents[3]
MODEL = str(ROOT / "models" / "rule_siblings.onnx")
E_INVALIDARG = 0x80070057
TITLE = f"DirectML at feature level {'6.4' if sys.platform == 'win32' else '6.2'}"


def lowered_operators() -> Iterator[Operator]:
    """Yield the operators of every model, of ONNX's node tests and of onnxruntime's, for a new and an old level."""
    models: list[Any] = sorted((ROOT / "models").glob("*.onnx"))
    models += [with_constants(model, inputs) for model, inputs, _ in NODE_TESTS.values()]
    models += [vector_model(case)[0] for case in GOOD if case not in STRINGS]
    for model in models:
        for level in ("6.4", "2.0"):
            yield from (call.operator for call in sliceport.lower(model, feature_level=level).calls)


def test_every_operator_of_ours_is_accepted_in_process_and_by_directml(
    directml: device.Device, validator_folder: Path
) -> None:
    operators = list(dict.fromkeys(lowered_operators()))
    assert len(operators) > 300
    for operator in operators:
        assert validator.create_operator(validator_folder, operator) == 0, operator
        assert directml.create_operator(operator) == 0, operator


@pytest.mark.parametrize("seed", range(amount(8)))
def test_wrong_descriptors_are_refused_in_process_and_by_directml(
    directml: device.Device, validator_folder: Path, seed: int
) -> None:
    pick = random.Random(1000 + seed)
    refused = 0
    for _ in range(500):
        operator = spoilt(pick, good(pick))[1]
        verdict = validator.create_operator(validator_folder, operator)
        assert verdict == directml.create_operator(operator), operator
        refused += verdict == E_INVALIDARG
    assert refused > 200


def end_by_a_wild_pointer(folder: Path) -> int:
    return validator._operator_factory(folder).try_operator(16)


def test_crash_of_the_library_ends_a_child_alone(validator_folder: Path) -> None:
    # ctypes makes an exception of an access violation on Windows.
    end = "access violation" if sys.platform == "win32" else r"the process of DirectML's library was ended by SIGSEGV\."
    with pytest.raises(DeviceError, match=end):
        validator._call_in_child(end_by_a_wild_pointer, validator_folder)
    assert validator.title(validator_folder) == TITLE


def load_where_code_is_read_only(folder: Path) -> int:
    """Load the library after PR_SET_MDWE, which makes the kernel refuse code that can be written."""
    pr_set_mdwe, refuse_exec_gain = 65, 1
    if ctypes.CDLL(None).prctl(pr_set_mdwe, refuse_exec_gain, 0, 0, 0):
        raise NotImplementedError
    return validator.Validator(folder).feature_level()


@POSIX
def test_system_that_refuses_mprotect_is_one_sentence(validator_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = supervisor.call
    monkeypatch.setattr(supervisor, "call", lambda *words: original(*words, forks=True))  # a child for this call alone
    with pytest.raises((DeviceError, NotImplementedError)) as caught:
        validator._call_in_child(load_where_code_is_read_only, validator_folder)
    if caught.type is NotImplementedError:
        pytest.skip("this kernel is older than PR_SET_MDWE")
    assert str(caught.value) == (
        "DirectML's library cannot be used in a process of this machine ([Errno 13] mprotect: Permission denied)."
    )


def fail_to_create_a_device(_: Path) -> int:
    raise CallFailed("DMLCreateDevice1", 0x887A0004, "")


def test_library_that_creates_no_device_is_a_device_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validator, "_feature_level", fail_to_create_a_device)
    with pytest.raises(CallFailed, match="^DMLCreateDevice1 failed with 0x887a0004\\.$"):
        validator.title(Path())


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    directml_validate._validator_title.cache_clear()
    return tmp_path / "sliceport"


@POSIX
def test_machines_that_cannot_have_it_say_why(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.setattr(os, "confstr_names", {})
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        assert validator.missing_requirement() == "the C library is not glibc, which the library needs"
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    reason = f"this machine is {sys.platform} on aarch64, and the library is for x86-64 Linux"
    assert validator.missing_requirement() == reason
    printed = invoke("directml", "install", "--validator", code=2)
    assert printed.err == f"sliceport: DirectML's validator cannot be installed here: {reason}.\n"
    invoke("directml", "install", "--validator", "--if-possible")
    assert not empty_cache.exists()
    report = sliceport.compare(MODEL, executors=["directml-validate"])
    assert {each.status for each in report.comparisons} == {"error"}
    assert f"DirectML's validator is unavailable: {reason}." in report.comparisons[0].detail
    (diagnosis,) = directml_validate.DirectMLValidate().diagnose()
    assert diagnosis == Diagnosis("DirectML's validator", "missing", f"cannot be installed here: {reason}")


def test_detail_of_missing_validator_does_not_repeat_the_advice(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validator, "missing_requirement", lambda: None)
    (diagnosis,) = directml_validate.DirectMLValidate().diagnose()
    advice = "run: sliceport directml install --validator"
    assert diagnosis == Diagnosis("DirectML's validator", "missing", "not installed", advice)


def test_lost_child_is_diagnosed(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(_: Path) -> str:
        raise ChildKilled("was ended by SIGKILL")

    monkeypatch.setattr(install, "is_validator_installed", lambda: True)
    monkeypatch.setattr(directml_validate.DirectMLValidate, "is_ready", lambda _: True)
    monkeypatch.setattr(validator, "title", lose)
    (diagnosis,) = directml_validate.DirectMLValidate().diagnose()
    assert (diagnosis.status, diagnosis.detail) == ("broken", "was ended by SIGKILL")
    assert status.status()["validator"] == "failed: was ended by SIGKILL"


def test_without_an_installation_compare_names_the_command(empty_cache: Path) -> None:
    if validator.missing_requirement() is None:
        report = sliceport.compare(MODEL, executors=["directml-validate"])
        advice = "DirectML's validator is not installed; run: sliceport directml install --validator."
        assert advice in report.comparisons[0].detail
    assert {each.executor for each in sliceport.compare(MODEL).comparisons} == {"dml-emulator"}


def test_installed_validator_is_compared_by_default(validator_folder: Path, invoke: Invoke) -> None:
    assert invoke("compare", MODEL).out.endswith(f": 3 equal, 3 accepted by {TITLE}\n")
    assert "accepted" not in invoke("compare", ROOT / "models" / "rule_identity.onnx").out  # an alias has no operator


def test_refusal_is_a_finding(validator_folder: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    monkeypatch.setattr(validator, "create_operator", lambda *_: E_INVALIDARG)
    printed = invoke("compare", MODEL, "--executors", "directml-validate", code=1)
    assert "directml-validate failed: CreateOperator failed with 0x80070057" in printed.out


@POSIX
def test_library_with_wrong_verdicts_is_removed(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validator, "missing_requirement", lambda: None)
    monkeypatch.setattr(libraries.Wheel, "install", lambda *_: None)
    monkeypatch.setattr(validator, "create_operator", lambda *_: 0)
    with pytest.raises(DeviceError, match="gives wrong verdicts in the self-test"):
        install.install_validator(lambda _: None)
    assert not install.is_validator_installed()
