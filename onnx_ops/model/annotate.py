"""An ONNX model with the verdict on each slicing node in the node's `metadata_props`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from onnx_ops.model.nodes import is_slicing
from onnx_ops.model.proto_reader import read_view
from onnx_ops.model.proto_walk import all_nodes
from onnx_ops.model.read import serialize, to_bytes
from onnx_ops.model.walk import scoped_nodes
from sliceport.directml.lowered import LoweredNode
from sliceport.directml.operators import to_json

if TYPE_CHECKING:
    import onnx_ir as ir

PREFIX = "io.sliceport."
"""The prefix of the keys of annotations."""


@dataclass(frozen=True)
class OnnxSource:
    """A model that was lowered, as a `sliceport.directml.program.Source`.

    Attributes:
        model: The model, which is not changed; tensors in external data files stay there.
    """

    model: onnx.ModelProto | ir.Model

    @property
    def file_name(self) -> str:
        """The name of the annotated model."""
        return "model.onnx"

    def write_annotated(self, folder: Path, nodes: Sequence[LoweredNode], files: Mapping[int, str]) -> None:
        """Write `model.onnx`, whose slicing nodes carry their verdicts; see `Source`.

        A node of a function represents all calls of the function. If the verdicts differ, it gets "differs by call".

        Raises:
            ModelError: onnx-ir cannot serialize the model, its weights cannot be read, or it is too large for a file.
            OSError: The file cannot be written.
        """
        lowered_by_key: dict[str, list[LoweredNode]] = defaultdict(list)
        for lowered in nodes:
            key = lowered.node.origin or _node_key(lowered.node.scope, lowered.node.outputs)
            lowered_by_key[key].append(lowered)
        annotated = onnx.ModelProto()
        failure = "the annotated model cannot be written"  # onnx-ir reads tensors only now, which may fail
        annotated.CopyFrom(self.model if isinstance(self.model, onnx.ModelProto) else serialize(self.model, failure))
        for key, node in _slicing_nodes(annotated):
            if key in lowered_by_key:  # functions that are never called have no lowered nodes
                _annotate(node, lowered_by_key[key], files)
        (folder / self.file_name).write_bytes(to_bytes(annotated, "the annotated model"))


def _annotate(node: onnx.NodeProto, lowered: Sequence[LoweredNode], files: Mapping[int, str]) -> None:
    """Replace a node's annotations. `lowered` has one entry, or one for each place that calls the node's function."""
    verdicts = {n.verdict for n in lowered}
    annotations: dict[str, str] = {"verdict": verdicts.pop() if len(verdicts) == 1 else "differs by call"}
    reason = next((n.reason for n in lowered if n.reason is not None), None)  # of the first call that is refused
    if reason is not None:
        annotations |= {"reason": reason.code, "message": reason.message}
    directml_calls = {call.id: call for n in lowered for call in n.calls}.values()
    if directml_calls:
        annotations["operators"] = json.dumps([to_json(call.operator) for call in directml_calls])
        annotations["dxdispatch"] = json.dumps([files[call.id] for call in directml_calls])
    other_entries = [entry for entry in node.metadata_props if not entry.key.startswith(PREFIX)]
    del node.metadata_props[:]
    node.metadata_props.extend(other_entries)
    for name, value in annotations.items():
        node.metadata_props.add(key=PREFIX + name, value=value)


def _slicing_nodes(proto: onnx.ModelProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    """Yield each slicing node with a key: `_node_key` in graphs, and `NodeInModel.origin` in functions."""
    for scope, node in scoped_nodes(read_view(proto, inlines=False).graph):
        if is_slicing(node):
            yield _node_key(scope, node.proto.output), node.proto
    for function in proto.functions:
        for i, node in enumerate(filter(is_slicing, all_nodes(function))):  # counted as in `proto_reader`
            yield f"{function.domain}:{function.name}:{function.overload}#{i}", node


def _node_key(scope: Sequence[str], outputs: Sequence[str]) -> str:
    """Return the key of a node of a graph. The key has the scope, because several branches may use the same names."""
    return "\0".join((*scope, *outputs))
