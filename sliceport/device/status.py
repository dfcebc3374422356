"""The state of the real DirectML on this machine, with a self-test."""

from __future__ import annotations

from typing import Any, Literal

from sliceport import device
from sliceport.device import install, validator
from sliceport.device.libraries import read_package_spec
from sliceport.sandbox.child_process import ChildLost


def status() -> dict[str, Any]:
    """Return facts about the installation. `self_test` is "not run" unless DirectML is installed."""
    backend, folder = install.backend(), install.folder()
    state, text = check_validator()
    report: dict[str, Any] = {
        "schema_version": 1,
        "installed": install.is_installed(),
        "missing": install.missing_requirement(),
        "folder": str(folder),
        "other_folders": list(map(str, install.other_folders())),
        "backend": backend.text,
        "packages": read_package_spec(backend.program_folder(folder)),
        "self_test": "not run",
        "validator": f"failed: {text}" if state == "broken" else text,
    }
    if not report["installed"]:
        return report
    report |= backend.describe_isolation(folder)
    try:
        with device.open() as opened:
            report |= opened.facts()
            report["self_test"] = "passed" if install.passes_self_test(opened) else "failed: wrong values"
    except device.DeviceError as error:
        report["self_test"] = f"failed: {error}"
    return report


def check_validator() -> tuple[Literal["ok", "missing", "broken"], str]:
    """Return the state of the validator, with its title if it works, or else a reason."""
    if not install.is_validator_installed():
        lacking = validator.missing_requirement()
        return "missing", "not installed" if lacking is None else f"cannot be installed here: {lacking}"
    try:
        return "ok", validator.title(install.validator_folder())
    except (device.DeviceError, ChildLost) as error:
        return "broken", str(error)


def status_text(report: dict[str, Any]) -> str:
    """Format a result of `status` with one fact per line."""
    others = [f"{'validator':14} {report['validator']}"]
    others += [f"{'other version':14} {folder}" for folder in report["other_folders"]]
    if not report["installed"]:
        missing = report["missing"]
        hint = "run: sliceport directml install" if missing is None else f"it cannot be installed here: {missing}"
        return "\n".join([f"DirectML is not installed; {hint}", *others])
    # `WineRoot.describe_isolation` adds a key "no NAME" for each failed way to run programs.
    names = ("backend", "folder", "way", *(name for name in report if name.startswith("no ")), "packages")
    names += ("adapter", "shader_model", "feature_level", "onnxruntime", "self_test")
    labels = {name: name.replace("_", " ") for name in names} | {"self_test": "self-test"}
    facts = [f"{labels[name]:14} {report[name]}" for name in names if name in report]
    return "\n".join([*facts, *others])
