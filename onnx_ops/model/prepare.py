"""Making a model's shapes and slicing parameters known.

Functions are inlined, input shapes bound, shapes inferred, constants folded. The model that is prepared is changed; its
weights are never read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_ops.errors import DynamicSlice, InvalidSlice, ModelError, UsageError
from onnx_ops.model.inference import (
    all_values,
    infer_shapes,
    open_negative_sizes,
    refresh_constant_shapes,
    slices_by_our_rule,
)
from onnx_ops.model.nodes import MISSING, STRIDED_SLICE_DOMAIN, Known, constant, is_known, is_slicing, resolve
from onnx_ops.slicing import as_slice

LARGE_BYTES = 8192
"""Constants of more bytes are weights: their shape counts, their values are not looked at."""

logger = logging.getLogger(__name__)


def inline_functions(model: ir.Model) -> None:
    """Put the bodies of the model's functions where they are called.

    Raises:
        ModelError: A function cannot be inlined (it calls itself, or imports another operator set version).
    """
    model.functions.pop((STRIDED_SLICE_DOMAIN, "StridedSlice", ""), None)  # known by what it means
    if not model.functions:
        return
    try:
        InlinePass()(model)
    except Exception as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise ModelError(f"a function of the model cannot be inlined ({reason}).") from error


def name_left_out_outputs(model: ir.Model) -> None:
    """Give names to the outputs that a Split leaves out.

    They count as parts; onnx-ir does not write trailing ones, and onnxruntime's CPU provider crashes on any.
    """
    names = {value.name for value in all_values(model)} | {name for g in model.graphs() for name in g.initializers}
    holders: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    nodes = [node for holder in holders for node in holder.all_nodes()]
    names |= {value.name for node in nodes for value in (*node.inputs, *node.outputs) if value is not None}
    numbers = count()
    for node in nodes:
        if is_slicing(node):
            for output in node.outputs:
                if not output.name:
                    output.name = next(name for n in numbers if (name := f"left_out_{n}") not in names)


def bind_shapes(model: ir.Model, input_shapes: Mapping[str, Sequence[int]]) -> None:
    """Give graph inputs their shapes, and their symbolic dimensions that value everywhere in the model.

    A name may also be that of any other value of the main graph whose shape cannot be inferred.

    Raises:
        UsageError: No value has that name, the rank differs, or a dimension that the model fixes gets another size.
    """
    if not input_shapes:
        return
    values = {value.name: value for value in model.graph.inputs}
    values |= {output.name: output for node in model.graph for output in node.outputs if output.name in input_shapes}
    sizes: dict[str, int] = {}
    for name, shape in input_shapes.items():
        if name not in values:
            known = ", ".join(repr(v.name) for v in model.graph.inputs if not v.is_initializer())
            raise UsageError(f"the model has no input {name!r} to give a shape to; its inputs are {known}.")
        if any(size < 0 for size in shape):
            raise UsageError(f"the shape of input {name!r} must not have negative sizes, got {list(shape)}.")
        declared = values[name].shape
        if declared is not None:
            _match(name, declared, shape, sizes)
        values[name].shape = ir.Shape(shape)
    _substitute(model, sizes)


def _match(name: str, declared: ir.Shape, shape: Sequence[int], sizes: dict[str, int]) -> None:
    """Check a given shape against the declared one and collect what its symbols stand for."""
    if len(declared) != len(shape):
        raise UsageError(
            f"input {name!r} has rank {len(declared)}, but its given shape {list(shape)} has {len(shape)}."
        )
    for axis, (dim, size) in enumerate(zip(declared, shape, strict=True)):
        known = dim if isinstance(dim, int) else sizes.setdefault(dim.value, size) if dim.value else size
        if known != size:
            raise UsageError(f"input {name!r} has {known} elements on axis {axis}, but its given shape says {size}.")


def _substitute(model: ir.Model, sizes: Mapping[str, int]) -> None:
    if not sizes:
        return
    evaluated: dict[str, int | ir.SymbolicDim] = {}
    for value in all_values(model):
        if value.shape is None or value.shape.is_static():
            continue
        for dim in value.shape:
            if isinstance(dim, ir.SymbolicDim) and dim.value is not None and dim.value not in evaluated:
                evaluated[dim.value] = _evaluate(dim, dim.value, sizes)
        value.shape = ir.Shape(
            [dim if isinstance(dim, int) or dim.value is None else evaluated[dim.value] for dim in value.shape]
        )


def _evaluate(dim: ir.SymbolicDim, name: str, sizes: Mapping[str, int]) -> int | ir.SymbolicDim:
    if name in sizes:
        return sizes[name]
    try:
        size = dim.evaluate(sizes)
    except Exception:  # a name that is no expression stays a name
        return dim
    return dim if isinstance(size, int) and size < 0 else size


@dataclass(slots=True)
class Settled:
    """What came out of settling a model, by the `id` of the slicing node.

    Attributes:
        known: What each node selects, as far as it could be resolved.
        constants: The bytes of each output of the nodes that were folded.
    """

    known: dict[int, Known] = field(default_factory=dict)
    constants: dict[int, tuple[bytes, ...]] = field(default_factory=dict)


def settle(model: ir.Model, slicing: Sequence[ir.Node]) -> Settled:
    """Infer shapes and fold constants as far as the slicing nodes need it.

    Nodes that turn out to be constant leave their graph (`node.graph` is None); all others stay the same objects.
    """
    settled = Settled()
    if _is_settled(model, slicing, settled.known):
        return settled
    set_weights_aside(model)
    name_left_out_outputs(model)
    infer_shapes(model)
    if _is_settled(model, slicing, settled.known):
        return settled
    settled.constants = fold(model, slicing)
    settled.known.clear()  # folding knows more
    return settled


def fold(model: ir.Model, slicing: Sequence[ir.Node]) -> dict[int, tuple[bytes, ...]]:
    """Fold constants, the slicing nodes by this package's rules; the bytes of each output of those, by their `id`."""
    constants: dict[int, tuple[bytes, ...]] = {}
    before, now = None, (len(slicing), sum(map(is_known, slicing)))
    while now != before:
        _fold_constants(model)
        if refresh_constant_shapes(model):
            infer_shapes(model)
        for node in slicing:
            parts = _fold_slicing(node, model.opset_imports)
            if parts is not None:
                constants[id(node)] = parts
        slicing = [node for node in slicing if node.graph is not None]
        before, now = now, (len(slicing), sum(map(is_known, slicing)))
    return constants


def _is_settled(model: ir.Model, slicing: Sequence[ir.Node], known: dict[int, Known]) -> bool:
    """Whether nothing is left to find out about the slicing nodes; their outputs get the shapes that follow."""
    settled = True
    for node in slicing:
        if id(node) in known:
            continue
        if not is_known(node):
            settled = False
            continue
        try:
            known[id(node)] = found = resolve(node, model.opset_imports.get(node.domain, 1))
        except (InvalidSlice, DynamicSlice):
            continue  # the node says so when it is read
        for output, region in zip(node.outputs, found[1], strict=False):
            output.shape = ir.Shape(region.output_shape)
            output.type = output.type or (None if node.inputs[0] is None else node.inputs[0].type)
    if all(node.inputs and node.inputs[0] is not None and node.inputs[0].is_graph_input() for node in slicing):
        return settled
    return settled and not any_constant(model, slicing)


def any_constant(model: ir.Model, slicing: Sequence[ir.Node]) -> bool:
    """Whether some slicing node cuts a constant, or what is computed from constants and known shapes alone."""
    static: set[int] = set()
    wanted = {id(node) for node in slicing}
    for node in model.graph.all_nodes():
        inputs = [value for value in node.inputs if value is not None]
        if node.op_type in ("Shape", "Size"):
            known = all(value.shape is not None and value.shape.is_static() for value in inputs)
        else:
            known = bool(inputs) and all(id(value) in static or _is_small_constant(value) for value in inputs)
        if known:
            if id(node) in wanted:
                return True
            static.update(map(id, node.outputs))
    return False


def _is_small_constant(value: ir.Value) -> bool:
    tensor = constant(value)
    return tensor is not None and tensor.nbytes <= LARGE_BYTES


def set_weights_aside(model: ir.Model) -> None:
    """Make inputs of the main graph's large or missing constants: only their shapes matter from here on."""
    for name, value in list(model.graph.initializers.items()):
        tensor = value.const_value
        if tensor is None:
            continue
        if tensor.nbytes <= LARGE_BYTES:
            reason = _why_missing(tensor)
            if reason is None:
                continue
            value.meta[MISSING] = reason
        value.shape, value.dtype = tensor.shape, tensor.dtype  # type: ignore[assignment]
        del model.graph.initializers[name]
        value.const_value = None
        if not value.is_graph_input():
            model.graph.inputs.append(value)


def _why_missing(tensor: ir.TensorProtocol) -> str | None:
    if not isinstance(tensor, ir.ExternalTensor):
        return None
    try:
        tensor.numpy()
    except Exception as error:
        return str(error)
    return None


def _fold_constants(model: ir.Model) -> None:
    """Fold what onnxscript's optimizer folds, but for slicing nodes: those follow this package's rules."""
    from onnxscript.optimizer import fold_constants

    def should_fold(node: ir.Node) -> bool | None:
        if is_slicing(node):
            return False
        if node.op_type == "ConstantOfShape" and not node.domain:
            shape = constant(node.inputs[0]) if node.inputs and node.inputs[0] is not None else None
            return shape is not None and prod(shape.numpy().tolist()) * 8 <= LARGE_BYTES
        return None

    try:
        with slices_by_our_rule(model):
            fold_constants(model, onnx_shape_inference=True, should_fold=should_fold)
    except Exception as error:  # a node that the reference evaluator cannot run; what was folded so far stands
        logger.debug("constant folding stopped: %s", error.__cause__ or error)
    open_negative_sizes(model)


def _fold_slicing(node: ir.Node, opsets: Mapping[str, int]) -> tuple[bytes, ...] | None:
    """Replace a slicing node of a small constant by what it selects; the bytes of that, or None where it stays."""
    data = node.inputs[0] if node.inputs else None
    tensor = None if data is None else constant(data)
    if tensor is None or tensor.nbytes > LARGE_BYTES or tensor.dtype == ir.DataType.STRING or not is_known(node):
        return None
    graph = node.graph
    if not isinstance(graph, ir.Graph) or any(output.is_graph_output() for output in node.outputs):
        return None
    try:
        _, parts = resolve(node, opsets.get(node.domain, 1))
        array = tensor.numpy()
    except Exception:  # a parameter that breaks the rules or cannot be read: the node says so when it is read
        return None
    constants = []
    for output, region in zip(node.outputs, parts, strict=True):
        selected = array[tuple(map(as_slice, region.ranges))].reshape(region.output_shape)
        folded = ir.Value(
            name=output.name,
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(region.output_shape),
            const_value=ir.tensor(selected, dtype=tensor.dtype, name=output.name),
        )
        constants.append(selected.tobytes())
        output.type = folded.type
        graph.register_initializer(folded)
        output.replace_all_uses_with(folded)
    graph.remove(node, safe=True)
    return tuple(constants)


def unknown_inputs(model: ir.Model) -> Iterable[tuple[ir.Value, list[int]]]:
    """The graph inputs that lack sizes, each with the axes that do; no axes where not even the rank is known."""
    for value in model.graph.inputs:
        if value.shape is None:
            yield value, []
        elif not value.shape.is_static():
            yield value, [axis for axis, dim in enumerate(value.shape) if not isinstance(dim, int)]
