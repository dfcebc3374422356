"""A folder with the outputs of a run, and the smallest model that fails with a script and the draft of an issue."""

from __future__ import annotations

import json
import os
import platform
import re
from pathlib import Path

import numpy as np

from sliceport.engines.engine import Array, Value, WritesScript
from sliceport.engines.failure import Failure
from sliceport.engines.side import Result
from sliceport.sandbox.place import fill_folder, write_json
from sliceport.search.case import select_arrays
from sliceport.search.report import DiffReport, Part
from sliceport.wording import format_issue

_MARK, _ISSUE = "report.json", "issue.md"
_FILES = tuple(
    f"{folder}{name}"
    for folder in ("", "[0-9]*/")  # the folders of further models are numbers
    for name in ("run.py", _ISSUE, "model.*", "*.npy", "test_data_set_0/*.pb")
)
_COMPARING = """\
for (name, b), a in zip(expected.items(), map(np.asarray, got)):
    same = a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    print(name, "equal" if same else f"differs: expected {b.ravel()[:8]}, got {a.ravel()[:8]}")
"""
"""The last lines of `run.py`. Lines of `Graph.write` set `expected`, and lines of the engine set `got`."""
_MAX_SHOWN = 8


def save(report: DiffReport, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write `report.json` and the outputs of the tested model into a new folder.

    If the report has a part, also write the smallest model that fails, its data, `run.py` and `issue.md`. Further
    models that fail are written into folders `2`, `3`, ... inside that folder.

    Args:
        report: The report.
        directory: The folder.
        overwrite: Whether to replace a folder that this function wrote.

    Raises:
        UsageError: The folder cannot be written, holds other files, or exists although `overwrite` is false.
    """

    def fill(folder: Path) -> None:
        data = report.to_json()
        for i, output in enumerate(data["outputs"]):
            # Names in a model may be too long for a file, or contain characters that file systems refuse.
            safe_name = re.sub(r"[^A-Za-z0-9_.-]+", "_", output["name"]).strip("_.")[:60]
            arrays = _list_arrays(report.values.get(output["name"]), f"{i:02d}_{safe_name}")
            output["files"] = list(arrays)
            for file, array in arrays.items():
                np.save(folder / file, array)
        write_json(folder / _MARK, data)
        for number, part in enumerate(report.parts, 1):
            part_folder = folder if number == 1 else folder / str(number)
            part_folder.mkdir(exist_ok=True)
            # Without expected values, the script only shows how the engine fails.
            expected = {} if isinstance(part.expected, Failure) else part.expected
            loading_lines = part.case.graph.write(part.case.model, part.case.inputs, expected, part_folder)
            engine = part.bad.engine
            running_lines = f"got = ...  # run {engine.name} on path with inputs\n"  # the user has to replace the dots
            if isinstance(engine, WritesScript):
                running_lines = engine.script(part.bad.options)
            (part_folder / "run.py").write_text(f"{loading_lines}{running_lines}{_COMPARING}", encoding="utf-8")
            (part_folder / _ISSUE).write_text(_draft_issue(part), encoding="utf-8")

    fill_folder(directory, fill, mark=_MARK, others=_FILES, overwrite=overwrite, is_mark=_is_report)


def _list_arrays(value: Value, name: str) -> dict[str, Array]:
    """Return the arrays in a value, in types that NumPy can save, by the names of their files."""
    if value is None or isinstance(value, tuple):
        parts = [_list_arrays(each, f"{name}.{i}") for i, each in enumerate(value or ())]
        return {file: array for part in parts for file, array in part.items()}
    if value.dtype.isbuiltin == 2:  # a type of another package, such as bfloat16; float32 has all of its values
        value = value.astype(np.float32)
    return {f"{name}.npy": value.astype(str) if value.dtype == object else value}


def _is_report(file: Path) -> bool:
    """Return whether a file is the `report.json` of a run."""
    try:
        data = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.keys() >= {"schema_version", "on", "against", "outputs"}


def _draft_issue(part: Part) -> str:
    """Return, in Markdown, the draft of an issue to report to the developers of the engine at fault."""
    case = part.case
    nodes = ", ".join(dict.fromkeys(node.op_type for node in case.nodes))
    is_of_run = case.failure.is_of_run
    symptom = "does not run" if is_of_run else f"wrong {case.failure.kind}"
    inputs = [f"`{name}`: {array.dtype}{list(array.shape)}" for name, array in case.inputs.items()]
    observed = case.failure.message if is_of_run else f"output `{case.failure.output}`: {case.failure.message}"
    steps = [
        f"Run `python run.py` in the folder of the attached model, which was cut from a larger one. Its nodes: "
        f"{', '.join(map(str, case.nodes))}. Its inputs: {', '.join(inputs) or 'none'}.",
        *([f"It was cut out of {'; '.join(case.scope)}."] if case.scope else []),
        *([f"The expected values are those of the original model: {part.counterpart}."] if part.counterpart else []),
    ]
    seen = [
        *(_list_elements(part.actual) if not is_of_run else []),
        f"{observed}.",
        *(f"{line[0].upper()}{line[1:]}." for line in (part.fusion, part.cause) if line),
        *(f"This looks like a known defect: {defect.id} ({defect.reason})." for defect in part.defects),
    ]
    return format_issue(
        f"{nodes}: {symptom} {'after a conversion' if part.counterpart else f'on {part.bad.engine.name}'}",
        f"Versions: {part.bad.title}; expected values by {part.good.title}; {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}.",
        {"Steps": steps, "Expected": _list_elements(part.expected) or ["The model runs."], "Seen": seen},
    )


def _list_elements(result: Result) -> list[str]:
    """Return a line about the first elements of each output that is an array; for a failure, no lines."""
    arrays = {} if isinstance(result, Failure) else select_arrays(result)
    shown = {name: array.reshape(-1)[:_MAX_SHOWN].tolist() for name, array in arrays.items()}
    return [f"- `{name}`: {array.dtype}{list(array.shape)} {shown[name]}" for name, array in arrays.items()]
