"""Slices of constants and of known shapes become constants."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from onnx_ops.inference import infer_shapes
from onnx_ops.nodes import MARK, SLICING, constant, has_its_values, is_operator, is_standard
from onnx_ops.passes.base import Left, NotApplied, SlicingPass, name_of, nodes_of
from onnx_ops.passes.builders import drop_unread, empty_node, is_used, mark_new, tensor_node
from onnx_ops.passes.matchers import attribute
from onnx_ops.passes.value_info import bodies, paired, probe_of
from onnx_ops.propagate import LARGE_BYTES
from onnx_ops.resolve_shapes import detach_large_initializers, name_left_out_outputs
from sliceport.hardening import Change
from sliceport.slicing import INT64_MAX, resolve_axis

_OPS = (*SLICING, "Gather")
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


class FoldSlicesPass(SlicingPass):
    """Make a constant of what a Slice, a Split or a Gather selects, where it is the same for all inputs.

    1. The data are a constant of at most 8 KiB.
    2. The data are integers that are computed, without rounding in question, from constants and known shapes, or
       anything that is only moved.
    3. The data are a Shape, and the sizes that are selected are known; others may be open.
    4. The bounds, part sizes or indices are computed as in 2: they become constants.
    5. Nothing is selected, of a known shape.
    6. A Shape reads a slice whose sizes are all known: it becomes a constant, and the slice goes with its last reader.

    Given: y = Reshape(x, Concat(Gather(Shape(x[n, 4]), [1]), [-1], axis=0))
    Result: y = Reshape(x, Concat([4], [-1], axis=0))

    Not rewritten: strings; floats that are computed, which engines round differently.
    """

    def apply(self, model: ir.Model) -> None:
        """See the class."""
        for node, _ in list(nodes_of(model, *_OPS)):
            if node.graph is None or not has_its_values(node):
                continue
            for output in node.outputs:
                self._fold_shapes_of(output)
                self._fold_empty(output)
        folded = _folded(model)
        for function, body in bodies(model, self.known):
            inside = _folded(body)
            pairs = paired(function, body.graph)
            folded.update({value: inside[twin] for value, twin in pairs if twin in inside})
        for node, _ in list(nodes_of(model, *_OPS)):
            if node.graph is None or not has_its_values(node):
                continue
            used = [output for output in node.outputs if is_used(output)]
            tensors = [tensor for output in used if (tensor := folded.get(output)) is not None]
            if used and len(tensors) == len(used) and _may_fold(node, tensors):
                self._replace(node, tensors)
            else:
                self._fold_parameters(node, folded)

    def _fold_parameters(self, node: ir.Node, folded: Mapping[ir.Value, ir.TensorProtocol]) -> None:
        """Make constants of the inputs behind the data that are known."""
        disagreement = node.meta.get(MARK)
        if disagreement is not None:
            self.left.append(Left(name_of(node), node.op_type, disagreement.reason))
            return
        found = False
        for i, value in enumerate(node.inputs[1:], 1):
            tensor = None if value is None or constant(value) is not None else folded.get(value)
            producer = None if value is None else value.producer()
            if tensor is None or producer is None or tensor.nbytes > LARGE_BYTES or not _is_exact(producer):
                continue
            made = tensor_node(tensor)
            mark_new(made.outputs[0])
            assert node.graph is not None
            node.graph.insert_before(node, made)
            node.replace_input_with(i, made.outputs[0])
            drop_unread(value)
            found = True
        if found:
            self.changes.append(Change(name_of(node), node.op_type, f"{node.op_type} by constants", ()))
        computed = [value for value in node.inputs[1:] if value is not None and constant(value) is None]
        if computed and node.op_type in SLICING:
            where = ", ".join(repr(value.name) for value in computed)
            self.left.append(
                Left(name_of(node), node.op_type, f"it reads {where}, which is not the same for all inputs")
            )

    def _fold_shapes_of(self, output: ir.Value) -> None:
        """Make constants of the Shapes that read an output of known sizes."""
        sizes = self.sizes(output)
        known = [size for size in sizes or () if size is not None]
        if sizes is None or len(known) < len(sizes):
            return
        for reader in output.consumers():
            if is_operator(reader, "Shape") and is_used(reader.outputs[0]):
                try:
                    kept = _kept_sizes(reader, len(known))
                except NotApplied as reason:
                    self.left.append(Left(name_of(reader), reader.op_type, str(reason)))
                    continue
                self._replace(reader, [ir.tensor([known[axis] for axis in kept], dtype=ir.DataType.INT64)])

    def _fold_empty(self, output: ir.Value) -> None:
        """Make a constant of an output without elements."""
        sizes, node = self.sizes(output), output.producer()
        known = [size for size in sizes or () if size is not None]
        if node is None or sizes is None or len(known) < len(sizes) or 0 not in known or not is_used(output):
            return
        dtype = self.known.dtype(output)
        if dtype is None or dtype == ir.DataType.STRING:
            return
        name, op_type = name_of(node), node.op_type
        made = empty_node(known, dtype)
        self.known.inherit(made.outputs[0], output)
        graph = node.graph
        assert graph is not None
        ir.convenience.replace_nodes_and_values(graph, node, [], [made], [output], made.outputs)
        mark_new(output)
        if not any(map(is_used, node.outputs)):
            self.take_away(node)
        self.changes.append(Change(name, op_type, "Constant", ()))

    def _replace(self, node: ir.Node, tensors: Sequence[ir.TensorProtocol]) -> None:
        used = [output for output in node.outputs if is_used(output)]
        new = [tensor_node(tensor) for tensor in tensors]
        for constant_node, output in zip(new, used, strict=True):
            constant_node.name = f"{name_of(node)}_{output.name}" if len(used) > 1 else node.name
        self.put_in_place([node], new, {old: made.outputs[0] for old, made in zip(used, new, strict=True)})
        self.changes.append(Change(name_of(node), node.op_type, "Constant", ()))


def _kept_sizes(shape: ir.Node, rank: int) -> range:
    """The axes whose sizes a Shape gives.

    Raises:
        NotApplied: Each call of a function says it for itself.
    """
    end = attribute(shape, "end", INT64_MAX)
    return resolve_axis(attribute(shape, "start", 0), end, 1, rank)


def _folded(model: ir.Model) -> dict[ir.Value, ir.TensorProtocol]:
    """What slicing nodes give, and read besides their data, where it is the same for all inputs, in graphs."""
    if not any(is_operator(node, *_OPS) for node in model.graph.all_nodes()):
        return {}
    probe = probe_of(model)
    twins = list(zip(model.graph.all_nodes(), probe.graph.all_nodes(), strict=True))
    made: dict[ir.Value, ir.Value] = {}
    for node, twin in twins:
        made.update(zip(node.outputs, twin.outputs, strict=True))
    slicing = [node for node, _ in twins if is_operator(node, *_OPS)]
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


def _may_fold(node: ir.Node, tensors: Sequence[ir.TensorProtocol]) -> bool:
    """Whether the values are the same on every engine, and small."""
    if any(tensor.nbytes > LARGE_BYTES or tensor.dtype == ir.DataType.STRING for tensor in tensors):
        return False
    return _is_exact(node, _EXACT if all(tensor.dtype in _INTEGERS for tensor in tensors) else _MOVING)


def _is_exact(node: ir.Node, data: Collection[str] = _EXACT) -> bool:
    """Whether only operators that every engine computes alike lead from constants and shapes to a node.

    Args:
        node: The node.
        data: The operators that its data may come through; parameters are integers.
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
