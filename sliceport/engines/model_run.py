"""A run of a whole model on the real DirectML provider: which nodes ran where, and how far its outputs differ."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sliceport.directml.device import NodeRun
from sliceport.sandbox.place import fill_folder, write_json

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Finding:
    """What the provider refuses or computes differently.

    Attributes:
        kind: `refused`, or `different` from the CPU provider.
        node: The node; empty where it was not found.
        op_type: Its operator.
        message: One sentence.
        defects: The ids of the known defects that explain it.
    """

    kind: Literal["refused", "different"]
    node: str
    op_type: str
    message: str
    defects: tuple[str, ...] = ()


@dataclass(frozen=True)
class OutputRun:
    """An output of the model.

    Attributes:
        name: Its name.
        element: Its element type.
        shape: Its sizes.
        status: `equal`, `close` (within the tolerance), `different`, or `ran` where nothing was to compare with.
        difference: The largest difference, over the largest absolute value that is expected or 1.
        tolerance: How large it may be; 0 where only data was moved.
    """

    name: str
    element: str
    shape: tuple[int, ...]
    status: Literal["equal", "close", "different", "ran"]
    difference: float | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class ModelRun:
    """A run of a whole model on onnxruntime's DirectML provider.

    Attributes:
        facts: What it ran on: adapter, versions.
        nodes: The nodes that ran, each by itself, and the provider that each was given to.
        outputs: What came out, compared.
        findings: What the provider refuses or computes differently, by node where that was found.
        arrays: The outputs themselves, by name.
        transient: What failed on DirectML once and then, on a fresh host, did not.
    """

    facts: Mapping[str, Any]
    nodes: tuple[NodeRun, ...]
    outputs: tuple[OutputRun, ...]
    findings: tuple[Finding, ...]
    arrays: Mapping[str, Array]
    transient: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether it ran and no output differs."""
        return not self.findings

    @property
    def summary(self) -> str:
        """What the model ran on, and the counts of its outputs, in one line."""
        counts = Counter(output.status for output in self.outputs)
        listed = ", ".join(f"{count} {status}" for status, count in counts.items()) or "it did not run"
        nodes = f", {len(self.nodes)} node{'s' * (len(self.nodes) != 1)}" if self.nodes else ""
        return f"onnxruntime {self.facts['onnxruntime']} on {self.facts['adapter']}{nodes}; outputs: {listed}"

    def to_json(self) -> dict[str, Any]:
        """The run as JSON values, without the arrays."""
        return {
            "schema_version": 1,
            "facts": dict(self.facts),
            "outputs": [asdict(output) | {"shape": list(output.shape)} for output in self.outputs],
            "nodes": [asdict(node) for node in self.nodes],
            "findings": [asdict(finding) | {"defects": list(finding.defects)} for finding in self.findings],
            "transient_failures": list(self.transient),
        }

    def write(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write `report.json` and each output as `.npy`, named in the report, into a new folder.

        Raises:
            UsageError: The folder exists and must be kept, is not one that this wrote, or cannot be made.
        """

        def fill(folder: Path) -> None:
            report = self.to_json()
            for i, output in enumerate(report["outputs"]):
                safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", output["name"]).strip("_.")[:60]
                output["file"] = f"{i:02d}_{safe}.npy"
                np.save(folder / output["file"], self.arrays[output["name"]])
            write_json(folder / "report.json", report)

        fill_folder(directory, fill, mark="report.json", others=("[0-9]*_*.npy",), overwrite=overwrite)


def describe_transient(failure: str) -> str:
    """What to say of a request to DirectML that failed once and then did not."""
    return f"transient: a request to DirectML failed once and on a fresh host did not ({failure.rstrip('.')})"
