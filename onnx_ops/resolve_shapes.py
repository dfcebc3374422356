"""Making a model's shapes and slicing parameters known.

Functions are inlined, input shapes bound, shapes inferred, constants folded. The model that is prepared is changed; its
weights are never read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_ops.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.facts import LARGE_BYTES, Found
from onnx_ops.inference import all_values, infer_shapes
from onnx_ops.nodes import MISSING, Known, constant, is_known, is_slicing, is_standard, read_elements, resolve
from sliceport.errors import DynamicSlice, InvalidSlice, ModelError, UsageError

_MAX_INLINED = 10**6

logger = logging.getLogger(__name__)


def inline_functions(model: ir.Model) -> None:
    """Put the bodies of the model's functions where they are called.

    Raises:
        ModelError: A function cannot be inlined (it calls itself, or imports another operator set version).
    """
    model.functions.pop((STRIDED_SLICE_DOMAIN, "StridedSlice", ""), None)  # known by what it means
    if not model.functions:
        return
    if _count_inlined(model) > _MAX_INLINED:
        raise ModelError(f"its functions call each other so often that it would have more than {_MAX_INLINED} nodes.")
    try:
        InlinePass()(model)
    except Exception as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise ModelError(f"a function of the model cannot be inlined ({reason}).") from error


def _count_inlined(model: ir.Model) -> int:
    """How many nodes there would be without functions; nodes of functions that call themselves count once."""
    counts: dict[ir.OperatorIdentifier, int] = {}

    def count_of(nodes: Iterable[ir.Node]) -> int:
        return sum(count_function(node.op_identifier()) for node in nodes)

    def count_function(key: ir.OperatorIdentifier) -> int:
        if key not in model.functions:
            return 1
        if key not in counts:
            counts[key] = 1
            counts[key] = count_of(model.functions[key].all_nodes())
        return counts[key]

    return count_of(model.graph.all_nodes())


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
class ResolvedShapes:
    """What is known of the slicing nodes of a model, by their `id`.

    Attributes:
        known: What each node selects, as far as it could be resolved.
        constants: The bytes of each output of the nodes that were folded.
        dead: The nodes in branches that are never taken.
    """

    known: dict[int, Known] = field(default_factory=dict)
    constants: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)


def resolve_shapes(model: ir.Model, slicing: Sequence[ir.Node]) -> ResolvedShapes:
    """Infer shapes and fold constants as far as the slicing nodes need it.

    Nodes that turn out to be constant leave their graph (`node.graph` is None); all others stay the same objects.
    """
    resolved = ResolvedShapes()
    unresolved = _resolve_nodes(model, slicing, resolved.known)
    if _is_resolved(model, slicing, unresolved):
        return resolved
    detach_large_initializers(model)
    name_left_out_outputs(model)
    found = infer_shapes(model)
    resolved.dead = _find_dead(model, found)
    unresolved = _resolve_nodes(model, slicing, resolved.known)
    if _is_resolved(model, slicing, unresolved):
        return resolved
    read = [value.producer() for node in slicing for value in node.inputs if value is not None]
    nodes = dict.fromkeys([*(node for node in read if node is not None), *slicing])
    resolved.constants = _make_initializers(nodes, slicing, found)
    resolved.known.clear()  # folding knows more
    return resolved


def _find_dead(model: ir.Model, found: Mapping[ir.Value, Found]) -> set[int]:
    """The `id` of each node in a branch of an If that is never taken."""
    dead: set[int] = set()
    for node in model.graph.all_nodes():
        condition = node.inputs[0] if is_standard(node, "If") and node.inputs else None
        if condition is None:
            continue
        data = found[condition].data if condition in found else read_elements(condition, 1)
        if data is None or data.size != 1:
            continue
        branch = node.attributes.get("else_branch" if data.all() else "then_branch")
        if branch is not None and not branch.is_ref() and branch.type == ir.AttributeType.GRAPH:
            dead.update(map(id, branch.as_graph().all_nodes()))
    return dead


def fold(model: ir.Model, slicing: Sequence[ir.Node]) -> dict[int, tuple[bytes, ...]]:
    """Infer shapes, and make initializers of what is the same for all inputs, as far as it is small.

    Returns:
        The bytes of each output of the slicing nodes that were folded, by the node's `id`.
    """
    return _make_initializers(list(model.graph.all_nodes()), slicing, infer_shapes(model))


def _make_initializers(
    nodes: Iterable[ir.Node], slicing: Sequence[ir.Node], found: Mapping[ir.Value, Found]
) -> dict[int, tuple[bytes, ...]]:
    wanted = set(map(id, slicing))
    constants: dict[int, tuple[bytes, ...]] = {}
    for node in nodes:
        arrays = [found[output].data if output in found else None for output in node.outputs]
        known = [array for array in arrays if array is not None]
        graph = node.graph
        if len(known) < len(arrays) or not isinstance(graph, ir.Graph) or is_standard(node, "Constant"):
            continue
        if any(output.is_graph_output() for output in node.outputs):
            continue
        for output, array in zip(node.outputs, known, strict=True):
            dtype = ir.DataType(found[output].element)
            folded = ir.Value(
                name=output.name,
                type=ir.TensorType(dtype),
                shape=ir.Shape(array.shape),
                const_value=ir.Tensor(array, dtype=dtype, name=output.name),
            )
            graph.register_initializer(folded)
            output.replace_all_uses_with(folded)
        graph.remove(node, safe=True)
        if id(node) in wanted:
            constants[id(node)] = tuple([array.tobytes() for array in known])
    return constants


def _resolve_nodes(model: ir.Model, slicing: Sequence[ir.Node], known: dict[int, Known]) -> list[ir.Node]:
    """Resolve the slicing nodes of known shape and parameters into `known`, and give their outputs their shapes.

    Returns:
        The nodes whose shape or parameters are not known yet.
    """
    unresolved = []
    for node in slicing:
        if id(node) in known:
            continue
        if not is_known(node):
            unresolved.append(node)
            continue
        try:
            known[id(node)] = found = resolve(node, model.opset_imports.get(node.domain, 1))
        except (InvalidSlice, DynamicSlice):
            continue  # the node says so when it is read
        for output, region in zip(node.outputs, found[1], strict=False):
            output.shape = ir.Shape(region.output_shape)
            output.type = output.type or (None if node.inputs[0] is None else node.inputs[0].type)
    return unresolved


def _is_resolved(model: ir.Model, slicing: Sequence[ir.Node], unresolved: Sequence[ir.Node]) -> bool:
    """Whether inference would tell nothing more about the slicing nodes: all are resolved, and none folds."""
    if unresolved:
        return False
    if all(node.inputs and node.inputs[0] is not None and node.inputs[0].is_graph_input() for node in slicing):
        return True
    return not any_constant(model, slicing)


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


def detach_large_initializers(model: ir.Model) -> None:
    """Make inputs of the main graph's large or missing constants: only their shapes matter from here on."""
    for name, value in list(model.graph.initializers.items()):
        tensor = value.const_value
        if tensor is None:
            continue
        if tensor.nbytes <= LARGE_BYTES:
            if not isinstance(tensor, ir.ExternalTensor):
                continue
            try:
                value.const_value = load_external(tensor)
                continue
            except Exception as error:
                value.meta[MISSING] = str(error)
        value.shape, value.dtype = tensor.shape, tensor.dtype  # type: ignore[assignment]
        del model.graph.initializers[name]
        value.const_value = None
        if not value.is_graph_input():
            model.graph.inputs.append(value)


def load_external(tensor: ir.ExternalTensor) -> ir.Tensor[Any]:
    """A tensor in memory; its file is not left open.

    Raises:
        Exception: The file cannot be read; onnx-ir has several classes of errors for it.
    """
    try:
        return ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=tensor.name)
    finally:
        tensor.release()


def unknown_inputs(model: ir.Model) -> Iterable[tuple[ir.Value, list[int]]]:
    """The graph inputs that lack sizes, each with the axes that do; no axes where not even the rank is known."""
    for value in model.graph.inputs:
        if value.shape is None:
            yield value, []
        elif not value.shape.is_static():
            yield value, [axis for axis, dim in enumerate(value.shape) if not isinstance(dim, int)]
