"""The results of running a whole model on onnxruntime's DirectML provider: the provider of each node, and outputs."""

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

from sliceport.device import NodeRun
from sliceport.sandbox.place import fill_folder, write_json
from sliceport.wording import count_of

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Finding:
    """A node or model that the provider refuses or computes differently.

    Attributes:
        kind: `refused`, `different` from the CPU provider, or a known `defect` that the refusal of another node hides.
        node: Name of the node; empty if the search found no node.
        op_type: Operator of the node; empty if the search found no node.
        message: One sentence.
        defects: The ids of the known defects that explain it.
    """

    kind: Literal["refused", "different", "defect"]
    node: str
    op_type: str
    message: str
    defects: tuple[str, ...] = ()


@dataclass(frozen=True)
class OutputRun:
    """An output of the model.

    Attributes:
        name: Its name.
        element: The ONNX name of its element type, such as `FLOAT`.
        shape: Its sizes.
        status: `equal`, `close` (within the tolerance), `different`, or `ran` if there were no expected values.
        difference: The largest difference, divided by the largest expected magnitude or 1, whichever is larger; None
            if there were no expected values.
        tolerance: The largest difference that is `close`; 0 if the output must be equal; None if `difference` is None.
        detail: The first difference, as the end of a sentence, or an empty string.
    """

    name: str
    element: str
    shape: tuple[int, ...]
    status: Literal["equal", "close", "different", "ran"]
    difference: float | None = None
    tolerance: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class ModelRun:
    """A run of a whole model on onnxruntime's DirectML provider.

    Attributes:
        facts: The adapter, its shader model and feature level, and the version of onnxruntime; see `Device.facts`.
        nodes: The nodes with their providers, as `trace_onnx` returns them; empty if the model did not run.
        outputs: The outputs and how far they differ.
        findings: The refusals and differences, with the node if the search found it.
        arrays: The values of the outputs, by name.
        transient: The messages of failures that did not occur again on a new host process.
    """

    facts: Mapping[str, Any]
    nodes: tuple[NodeRun, ...]
    outputs: tuple[OutputRun, ...]
    findings: tuple[Finding, ...]
    arrays: Mapping[str, Array]
    transient: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether the model ran and no output differs."""
        return not self.findings

    @property
    def summary(self) -> str:
        """The version of onnxruntime, the adapter, and the numbers of nodes and of outputs by status, on one line."""
        counts = Counter(output.status for output in self.outputs)
        counts_text = ", ".join(f"{count} {status}" for status, count in counts.items())
        outputs = f"outputs: {counts_text}" if counts else "the model did not run"
        nodes = f", {count_of(len(self.nodes), 'node')}" if self.nodes else ""
        return f"onnxruntime {self.facts['onnxruntime']} on {self.facts['adapter']}{nodes}; {outputs}"

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON values, without the arrays."""
        return {
            "schema_version": 1,
            "facts": dict(self.facts),
            "outputs": [asdict(output) | {"shape": list(output.shape)} for output in self.outputs],
            "nodes": [asdict(node) for node in self.nodes],
            "findings": [asdict(finding) | {"defects": list(finding.defects)} for finding in self.findings],
            "transient_failures": list(self.transient),
        }

    def write(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write `report.json` and a `.npy` file for each output into a new folder. The report names the files.

        Raises:
            UsageError: The folder cannot be written, or it exists and must not be replaced; see `fill_folder`.
        """

        def fill(folder: Path) -> None:
            report = self.to_json()
            for i, output in enumerate(report["outputs"]):
                # Names in a model may be too long for a file, or contain characters that file systems refuse.
                safe_name = re.sub(r"[^A-Za-z0-9_.-]+", "_", output["name"]).strip("_.")[:60]
                output["file"] = f"{i:02d}_{safe_name}.npy"
                np.save(folder / output["file"], self.arrays[output["name"]])
            write_json(folder / "report.json", report)

        fill_folder(directory, fill, mark="report.json", others=("[0-9]*_*.npy",), overwrite=overwrite)


def describe_transient(failure: str) -> str:
    """Return the sentence about a request to DirectML that failed once and then succeeded."""
    return f"transient: a request to DirectML failed once, but succeeded on a fresh host ({failure.rstrip('.')})"
