"""A lowered program: all slicing nodes of a model, lowered to DirectML operators, and its files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.lowered import VERDICTS, Call, LoweredNode, list_calls
from sliceport.directml.operators import tensor_to_json, to_json
from sliceport.errors import InvalidSlice, UnsupportedSlice
from sliceport.sandbox.place import fill_folder, write_json
from sliceport.wording import count_by_kind

if TYPE_CHECKING:
    import os
    from pathlib import Path

SCHEMA_VERSION = 1


class Source(Protocol):
    """The model that a program was lowered from, in its state at that time."""

    @property
    def file_name(self) -> str:
        """The name of the annotated model's file: `model` with the suffix of its format."""

    def write_annotated(self, folder: Path, nodes: Sequence[LoweredNode], files: Mapping[int, str]) -> None:
        """Write the model with the verdict and the operators of each slicing node.

        Args:
            folder: The folder to write into.
            nodes: The nodes of the program.
            files: The DxDispatch file of each call, relative to `folder`, by the call's number.

        Raises:
            ModelError: The model cannot be serialized, its weights cannot be read, or it is too large for a file.
            OSError: The file cannot be written.
        """


@dataclass(frozen=True)
class Program:
    """The slicing nodes of a model, lowered.

    Attributes:
        feature_level: The DirectML feature level that the nodes were lowered for.
        nodes: The nodes, in the model's order.
        source: The model; None if models of its format cannot be annotated.
        notes: Sentences about layouts that have no effect.
    """

    feature_level: FeatureLevel
    nodes: tuple[LoweredNode, ...]
    source: Source | None = field(default=None, compare=False, repr=False)
    notes: tuple[str, ...] = ()

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The calls of operators, each once, in execution order."""
        return list_calls(self.nodes)

    @property
    def summary(self) -> dict[str, int]:
        """The number of nodes, in total and by verdict."""
        counts = Counter(node.verdict for node in self.nodes)
        return {"total": len(self.nodes)} | {verdict: counts[verdict] for verdict in VERDICTS}

    def __repr__(self) -> str:
        return f"<Program: {self._describe_counts()}>"

    def _repr_html_(self) -> str:
        from sliceport.wording.html_table import html_table  # only notebooks need the table

        rows = []
        for lowered in self.nodes:
            result = lowered.reason.message if lowered.reason else ", ".join(sorted(lowered.operators))
            rows.append((lowered.node.name, lowered.node.op_type, lowered.verdict, result))
        columns = ("node", "operator", "verdict", "DirectML operators, or reason")
        return html_table(self._describe_counts(), columns, rows)

    def _describe_counts(self) -> str:
        """Return the numbers of nodes, in total and by verdict, in words."""
        return count_by_kind({verdict: self.summary[verdict] for verdict in VERDICTS}, "slicing node")

    def raise_refused(self) -> None:
        """Raise an error for the first refused node, if any node is refused.

        Raises:
            InvalidSlice: The node breaks its specification, or an output may overlap itself in the requested layout.
            UnsupportedSlice: The node is refused for another reason.
        """
        for node in self.nodes:
            if node.reason is not None:
                error = InvalidSlice if node.reason.code == "invalid" else UnsupportedSlice
                raise error(node.reason.message)

    def to_json(self) -> dict[str, Any]:
        """Return the content of `program.json`, which `program_schema.json` of this package describes."""
        return {
            "schema_version": SCHEMA_VERSION,
            "feature_level": str(self.feature_level),
            "summary": self.summary,
            "nodes": [_node_to_json(node) for node in self.nodes],
            "notes": list(self.notes),
        }

    def write(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write `program.json`, `program.hpp`, and DxDispatch files for each call into a new folder.

        The annotated model is written, too, unless `source` is None. The folder is written under another name and then
        renamed, so that it is never seen incomplete. With `overwrite`, the folder of an earlier `write` is replaced.

        Raises:
            UsageError: The folder cannot be written, or it exists and must not be replaced.
            ModelError: The annotated model cannot be written.
        """
        # `overwrite` replaces a folder only if it holds no files but those listed here. `model.onnx` is always among
        # them, because the earlier program may be of an ONNX model.
        models = {"model.onnx"} if self.source is None else {"model.onnx", self.source.file_name}
        files = [f"dxdispatch/[0-9]*.{suffix}" for suffix in ("json", "input.npy", "output_[0-9]*.npy")]
        others = ("program.hpp", *sorted(models), *files)
        fill_folder(directory, self._fill, mark="program.json", others=others, overwrite=overwrite)

    def _fill(self, folder: Path) -> None:
        """Write all files into an empty folder."""
        from sliceport.directml import cpp, dxdispatch  # NumPy, which dxdispatch needs, is slow to load

        write_json(folder / "program.json", self.to_json())
        (folder / "program.hpp").write_text(cpp.to_header(self.nodes, self.feature_level), encoding="ascii")
        names = self._file_names()
        if self.calls:
            (folder / "dxdispatch").mkdir()
        for call in self.calls:
            dxdispatch.write_model(call.operator, names[call.id], folder / "dxdispatch")
        if self.source is not None:
            files = {number: f"dxdispatch/{name}.json" for number, name in names.items()}
            self.source.write_annotated(folder, self.nodes, files)

    def _file_names(self) -> dict[int, str]:
        """Return a file name for each call: the call's number and the name of its first node (`0007_node_name`)."""
        names: dict[int, str] = {}
        for node in self.nodes:
            # The number identifies the file, so the name may be cut to fit the limits of file systems.
            safe_name = re.sub(r"[^A-Za-z0-9_.-]+", "_", node.node.name).strip("_.")[:60]
            for call in node.calls:
                names.setdefault(call.id, f"{call.id:04d}_{safe_name}" if safe_name else f"{call.id:04d}")
        return names


def _node_to_json(lowered: LoweredNode) -> dict[str, Any]:
    node, reason = lowered.node, lowered.reason
    return {
        "name": node.name,
        "op_type": node.op_type,
        "domain": node.domain,
        "opset": node.opset,
        "scope": list(node.scope),
        "input": node.input,
        "outputs": list(node.outputs),
        "verdict": lowered.verdict,
        "reason": None if reason is None else asdict(reason),
        "operators": [_call_to_json(call) for call in lowered.calls],
        "aliases": [
            asdict(alias) | {"tensor": None if alias.tensor is None else tensor_to_json(alias.tensor)}
            for alias in lowered.aliases
        ],
    }


def _call_to_json(call: Call) -> dict[str, Any]:
    name = "OutputTensors" if call.operator.schema.type == "DML_OPERATOR_SPLIT" else "OutputTensor"
    return {
        "id": call.id,
        **to_json(call.operator),
        "bindings": {"InputTensor": [asdict(call.input)], name: list(map(asdict, call.outputs))},
    }
