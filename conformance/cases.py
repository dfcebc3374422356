"""The cases in a folder that `sliceport cases --export` wrote, and their portable forms."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conformance.tensors import Array, read_tensors


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        name: Its name.
        rule: The rule that it shows.
        format: `onnx` or `openvino`.
        folder: The folder with its data.
        model: The file of its model.
        is_refused: Whether the standard forbids the model.
        is_disputed: Whether the standard can also be read in another way.
        tolerance: The difference that rounding may cause in floats; 0 if all bits must be equal.
        form: `written`, or `portable` for a model that `sliceport harden --target portable` wrote.
    """

    name: str
    rule: str
    format: str
    folder: Path
    model: Path
    is_refused: bool
    is_disputed: bool
    tolerance: float = 0
    form: str = "written"

    @property
    def inputs(self) -> dict[str, Array]:
        """The inputs by name, in the model's order."""
        return read_tensors(self.folder / "test_data_set_0", "input")

    @property
    def outputs(self) -> list[Array]:
        """The outputs by the standard."""
        return list(read_tensors(self.folder / "test_data_set_0", "output").values())

    @property
    def other_outputs(self) -> list[Array]:
        """The outputs by the other reading; empty if the rule is not disputed, or if that reading refuses the model."""
        return list(read_tensors(self.folder / "other_reading", "output").values())

    @property
    def digest(self) -> str:
        """A hash of the form and of the files of the case, without files that engines leave in the folder."""
        content = hashlib.sha256(self.form.encode())
        for file in sorted(self.folder.rglob("*")):
            if file.name in ("model.onnx", "model.xml", "model.bin") or file.suffix == ".pb":
                content.update(file.relative_to(self.folder).as_posix().encode() + file.read_bytes())
        return content.hexdigest()[:16]


def read_cases(directory: Path) -> list[Case]:
    """Return the cases of a folder, in the order of its `cases.json`.

    Raises:
        SystemExit: The folder has no `cases.json`.
    """
    try:
        listing = json.loads((directory / "cases.json").read_text(encoding="utf-8"))["cases"]
    except FileNotFoundError:
        raise SystemExit(f"'{directory}' has no cases; write them by: sliceport cases --export {directory}") from None
    return [_read_case(entry, directory / entry["name"]) for entry in listing]


def _read_case(entry: dict[str, Any], folder: Path) -> Case:
    model = folder / ("model.xml" if entry["format"] == "openvino" else "model.onnx")
    is_refused, is_disputed = entry["expected"] == "refused", "disputed" in entry
    head = (entry["name"], entry["rule"], entry["format"], folder.absolute(), model)
    return Case(*head, is_refused, is_disputed, entry.get("tolerance", 0))


def make_portable(case: Case, directory: Path) -> Case:
    """Return an ONNX case with its model in the portable form, or as it is written if sliceport refuses it.

    The model is written into `directory`. A model of an earlier run is used again, even if sliceport has changed.
    """
    import sliceport

    file = directory / f"{case.name}-{case.digest}.onnx"
    if not file.exists():
        try:
            sliceport.harden(case.model, file, target="portable", read_as="standard")
        except sliceport.SliceportError:
            file = case.model
    return replace(case, model=file.absolute(), form="portable")
