"""Values that are the same for all inputs of a model and on every engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as ir

from onnx_ops.facts import LARGE_BYTES
from onnx_ops.inference import infer_shapes
from onnx_ops.nodes import SLICING, is_operator, is_standard
from onnx_ops.passes.probe import build_probe
from onnx_ops.resolve_shapes import detach_large_initializers, name_left_out_outputs

FOLDED = (*SLICING, "Gather")
"""The operators whose values are asked for."""
_INTEGERS = frozenset((ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL))
_MOVE = """
    Constant Identity Gather GatherElements GatherND Concat Slice Split Squeeze Unsqueeze Reshape Flatten Transpose
    Expand Tile
"""
_COMPUTE = """
    Shape Size ConstantOfShape Cast Range Where Equal Less Greater LessOrEqual GreaterOrEqual And Or Not Add Sub Mul Div
    Mod Neg Abs Min Max Floor Ceil
"""
_MOVING = frozenset(_MOVE.split())
_EXACT = _MOVING | frozenset(_COMPUTE.split())
"""Operators that every engine computes alike, bit for bit."""


def fold_values(model: ir.Model) -> dict[ir.Value, ir.TensorProtocol]:
    """What slicing nodes write, and read after their data, where it is the same for all inputs of a model."""
    if not any(is_operator(node, *FOLDED) for node in model.graph.all_nodes()):
        return {}
    probe = build_probe(model)
    twins = list(zip(model.graph.all_nodes(), probe.graph.all_nodes(), strict=True))
    made: dict[ir.Value, ir.Value] = {}
    for node, twin in twins:
        made.update(zip(node.outputs, twin.outputs, strict=True))
    slicing = [node for node, _ in twins if is_operator(node, *FOLDED)]
    read = [value for node in slicing for value in (*node.outputs, *node.inputs[1:]) if value is not None]
    wanted = [value for value in dict.fromkeys(read) if value in made]
    name_left_out_outputs(probe)
    detach_large_initializers(probe)
    found = infer_shapes(probe)
    tensors: dict[ir.Value, ir.TensorProtocol] = {}
    for value in wanted:
        facts = found.get(made[value])
        if facts is not None and facts.data is not None:
            tensors[value] = ir.Tensor(facts.data, dtype=ir.DataType(facts.element))
    return tensors


def may_fold(node: ir.Node, tensors: Sequence[ir.TensorProtocol]) -> bool:
    """Whether every engine computes the values of a node alike, and they are small."""
    if any(tensor.nbytes > LARGE_BYTES or tensor.dtype == ir.DataType.STRING for tensor in tensors):
        return False
    return is_exact(node, _EXACT if all(tensor.dtype in _INTEGERS for tensor in tensors) else _MOVING)


def is_exact(node: ir.Node, data: Collection[str] = _EXACT) -> bool:
    """Whether every engine computes a node alike, by operators that lead to it from constants and shapes.

    Args:
        node: The node.
        data: The operators allowed on the way of its data; parameters are integers.
    """
    waiting: list[tuple[ir.Node, Collection[str]]] = [(node, data)]
    seen: set[tuple[ir.Node, bool]] = set()
    while waiting:
        here, allowed = waiting.pop()
        if (here, allowed is data) in seen:
            continue
        seen.add((here, allowed is data))
        if not is_standard(here, *allowed):
            return False
        if here.op_type not in ("Shape", "Size"):
            joins = here.op_type == "Concat"
            for i, value in enumerate(here.inputs):
                producer = None if value is None else value.producer()
                if producer is not None:
                    waiting.append((producer, allowed if i == 0 or joins else _EXACT))
    return True
