"""Resolution of a model's slicing nodes: their shapes are bound or inferred, and constants are folded.

The results are written into the view. Weights are never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_ops.model.domains import usual_name
from onnx_ops.model.nodes import constant, is_standard, is_strided_slice, known_data_shape, read_elements
from onnx_ops.model.proto_model import Node, ProtoModel, Value
from onnx_ops.model.specs import SpecAndRegions, resolve_node
from onnx_ops.model.views import GRAPH, Dims, dims_of, fits, static_sizes
from onnx_ops.model.walk import all_nodes, all_values
from sliceport.arguments import read_input_shapes
from sliceport.engines.sizes import InputShapes, evaluate_formula
from sliceport.errors import DynamicSlice, InvalidSlice, UsageError

if TYPE_CHECKING:
    from onnx_ops.infer.facts import Facts


def has_open_inputs(model: ProtoModel) -> bool:
    """Return whether an input, other than a constant, has an open size or an unknown rank."""
    inputs = [value for value in model.graph.inputs if value.const_value is None]
    return any(static_sizes(dims_of(value.shape)) is None for value in inputs)


def bind_shapes(model: ProtoModel, input_shapes: Mapping[str, Sequence[int]]) -> frozenset[str]:
    """Set the shapes of graph inputs, and replace the symbols of these shapes everywhere in the model.

    `input_shapes` may also name outputs of nodes of the main graph, because not all shapes can be inferred. The shape
    given for an output replaces the declared shape; `infer_shapes` compares it with the inferred one.

    Returns:
        The names of the node outputs whose declared rank or size contradicts the given shape.

    Raises:
        UsageError: A shape is invalid (see `read_input_shapes`) or does not fit the declared one of an input, a name is
            unknown, or two axes of inputs give a symbol different sizes.
    """
    shapes = read_input_shapes(input_shapes)
    if not shapes:
        return frozenset()
    inputs = {value.name: value for value in model.graph.inputs}
    outputs = {output.name: output for node in model.graph for output in node.outputs if output.name in shapes}
    sizes: dict[str, int] = {}
    contradicted = set()
    _drop_doubtful_numbers(model)
    for name in sorted(shapes, key=lambda name: name in outputs):  # inputs first: their sizes prevail in `| sizes`
        value = outputs.get(name) or inputs.get(name)
        if value is None:
            input_names = ", ".join(repr(v.name) for v in inputs.values() if v.const_value is None)
            raise UsageError(f"the model has no input {name!r} to give a shape to; its inputs are {input_names}.")
        declared = dims_of(value.shape)
        if declared is not None and name not in outputs:
            _match_shape(name, declared, shapes[name], sizes)
        elif declared is not None:
            # Axes of shapes with different ranks do not correspond to each other.
            pairs = zip(declared, shapes[name], strict=True) if len(declared) == len(shapes[name]) else ()
            sizes = {dim: size for dim, size in pairs if isinstance(dim, str) and dim} | sizes
            if not fits(declared, shapes[name]):
                contradicted.add(name)
        value.set_type(None, shapes[name])
    _substitute_symbols(model, sizes)
    return frozenset(contradicted)


def _drop_doubtful_numbers(model: ProtoModel) -> None:
    """Drop the sizes that outputs of custom operators declare, if they may depend on open sizes of the model's inputs.

    Call this before shapes are bound: afterwards, inference cannot see which sizes were open. If inference contradicts
    a size that any other operator declares, drop nothing. `infer_shapes` compares all declared sizes again at the bound
    shapes, and uses none of them if one is still wrong.
    """
    nodes = [node for node in all_nodes(model.graph) if usual_name(node.domain) and not is_strided_slice(node)]
    outputs = [output for node in nodes for output in node.outputs]
    if all(output.shape is None for output in outputs) or not has_open_inputs(model):
        return
    from onnx_ops.infer.inference import infer  # loaded only if it is needed

    model.detach_weights()
    facts = infer(model)  # with the declared sizes of custom operators that do not depend on open sizes
    if not any(each.is_misdeclared for each in facts.values()):
        for output in outputs:
            if output in facts and (dims := facts[output].dims) is not None:
                output.set_type(None, dims)


def _match_shape(name: str, declared: Dims, shape: Sequence[int], sizes: dict[str, int]) -> None:
    """Raise a UsageError if a given shape does not fit the declared one. Store the sizes of symbols in `sizes`."""
    if len(declared) != len(shape):
        raise UsageError(
            f"input {name!r} has rank {len(declared)}, but its given shape {list(shape)} has rank {len(shape)}."
        )
    for axis, (dim, size) in enumerate(zip(declared, shape, strict=True)):
        # The first size that is given for a symbol is expected on all other axes with the same symbol.
        expected = sizes.setdefault(dim, size) if isinstance(dim, str) and dim else dim
        # None and an empty dim_param are unknown sizes, which fit any size.
        if expected not in (None, "", size):
            raise UsageError(f"input {name!r} has {expected} elements on axis {axis}, but its given shape says {size}.")


def _substitute_symbols(model: ProtoModel, sizes: Mapping[str, int]) -> None:
    """Replace symbols, and expressions of symbols, by their sizes in the shapes of all values."""
    if not sizes:
        return
    evaluated: dict[str, int | str | None] = {}
    for value in all_values(model.graph):
        dims = dims_of(value.shape)
        if dims is None or static_sizes(dims) is not None:
            continue
        for dim in dims:
            if isinstance(dim, str) and dim not in evaluated:
                evaluated[dim] = _evaluate_dim(dim, sizes)
        value.set_type(None, tuple([evaluated[dim] if isinstance(dim, str) else dim for dim in dims]))


def _evaluate_dim(dim: str, sizes: Mapping[str, int]) -> int | str | None:
    """Return the size of a symbol or formula; `dim` if the size is open or negative.

    If onnx-ir can evaluate only a part of a formula, return the formula that remains, or None if it has no text for it.
    """
    if dim in sizes:
        return sizes[dim]
    if dim.isidentifier():
        return dim
    computed = evaluate_formula(dim, sizes)
    if computed is not None:
        return dim if computed < 0 else computed
    import onnx_ir as ir  # loads sympy, which takes longer than most models take to lower

    try:
        size = ir.SymbolicDim(dim).evaluate(sizes)
    except Exception:  # a name that is not an expression stays a name
        return dim
    if isinstance(size, int):
        return dim if size < 0 else size
    return size.value


@dataclass(slots=True)
class ResolvedNodes:
    """Slicing nodes of a model, by their `id`.

    Attributes:
        specs: The spec and Regions of each node that could be resolved; empty after folding, because the nodes have to
            be read again.
        constants: The bytes of each output of each node that was folded.
        untaken: The `id` of each node, slicing or not, in a branch that is never taken.
    """

    specs: dict[int, SpecAndRegions] = field(default_factory=dict)
    constants: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    untaken: set[int] = field(default_factory=set)


def resolve_shapes(model: ProtoModel, slicing: Sequence[Node], bound_shapes: InputShapes) -> ResolvedNodes:
    """Find the parameters and shapes of slicing nodes, and set the shapes of their outputs.

    Infer shapes if `bound_shapes` names an output of a node, or if a slicing node is unresolved. Also infer shapes if
    the data of a slicing node are neither an input of the model nor a slice of one: their declared shape may be wrong.
    If a slicing node is unresolved or constant after inference, fold constants. The `graph` of a folded node becomes
    None. All other nodes stay the same objects.

    Args:
        model: The model.
        slicing: Its slicing nodes.
        bound_shapes: The shapes that the user has given; see `bind_shapes`.

    Raises:
        UsageError: See `infer_shapes`.
    """
    resolved = ResolvedNodes()
    # The shapes that are given for outputs of nodes have to be compared with inferred ones.
    needs_inference = not bound_shapes.keys() <= {value.name for value in model.graph.inputs}
    certain_ids = set(map(id, model.graph.inputs))
    for node in slicing:
        has_certain_data = bool(node.inputs) and id(node.inputs[0]) in certain_ids
        unresolved = _resolve_nodes(model, [node], resolved.specs) if has_certain_data else [node]
        if unresolved:
            needs_inference = True
        else:
            certain_ids.update(map(id, node.outputs))
    if not needs_inference:
        return resolved
    from onnx_ops.infer.inference import infer_shapes  # loads modules that slices of inputs do not need

    facts = infer_shapes(model, bound_shapes)
    resolved.untaken = _find_untaken_nodes(model, facts)
    unresolved = _resolve_nodes(model, slicing, resolved.specs)
    outputs = [output for node in slicing for output in node.outputs]
    if not unresolved and all(output not in facts or facts[output].data is None for output in outputs):
        return resolved  # there is nothing to fold
    # The nodes before slicing nodes are folded too, because they may compute the parameters.
    producers = [value.producer() for node in slicing for value in node.inputs if value is not None]
    nodes = {id(node): node for node in (*producers, *slicing) if node is not None}
    resolved.constants = fold_nodes(model, nodes.values(), slicing, facts)
    # The caller reads the nodes again, because the folded constants may resolve more of them.
    resolved.specs.clear()
    return resolved


def _find_untaken_nodes(model: ProtoModel, facts: Mapping[Value, Facts]) -> set[int]:
    """Return the `id` of each node in the branch that an If with a constant condition never takes."""
    untaken: set[int] = set()
    for node in all_nodes(model.graph):
        condition = node.inputs[0] if is_standard(node, "If") and node.inputs else None
        if condition is None:
            continue
        data = facts[condition].data if condition in facts else read_elements(condition, 1)
        if data is None or data.size != 1:
            continue
        branch = node.attributes.get("else_branch" if data.all() else "then_branch")
        if branch is not None and not branch.ref_attr_name and branch.type == GRAPH:
            untaken.update(map(id, all_nodes(branch.value)))
    return untaken


def fold_nodes(
    model: ProtoModel, nodes: Iterable[Node], slicing: Sequence[Node], facts: Mapping[Any, Facts]
) -> dict[int, tuple[bytes, ...]]:
    """Replace nodes with known outputs by constants. Constants, and nodes that compute an output of a graph, stay.

    Returns:
        The bytes of each output of the replaced nodes in `slicing`, by the `id` of the node.
    """
    slicing_ids = set(map(id, slicing))
    constants: dict[int, tuple[bytes, ...]] = {}
    for node in nodes:
        output_facts = [facts[output] for output in node.outputs if output in facts]
        outputs = [(output.element, output.data) for output in output_facts if output.data is not None]
        if len(outputs) < len(node.outputs) or node.graph is None or is_standard(node, "Constant"):
            continue  # a node without a graph was removed
        if any(output.is_graph_output() for output in node.outputs):
            continue
        model.fold(node, outputs)
        if id(node) in slicing_ids:
            constants[id(node)] = tuple([array.tobytes() for _, array in outputs])
    return constants


def _resolve_nodes(model: ProtoModel, slicing: Sequence[Node], specs: dict[int, SpecAndRegions]) -> list[Node]:
    """Add the parameters and Regions of nodes to `specs` if they are known, and set the shapes of the nodes' outputs.

    Returns:
        The nodes whose shape or parameters are not known yet. Nodes with other errors are neither added nor returned.
    """
    unresolved = []
    for node in slicing:
        if id(node) in specs:
            continue  # an earlier call resolved the node
        try:
            spec, regions = resolve_node(node, model.opset_imports.get(node.domain, 1))
        except (InvalidSlice, DynamicSlice):
            parameters = [value for value in node.inputs[1:] if value is not None]
            if known_data_shape(node) is None or any(constant(value) is None for value in parameters):
                unresolved.append(node)
            continue  # the caller reads the node again, and reports the error
        specs[id(node)] = spec, regions
        dtype = None if node.inputs[0] is None else node.inputs[0].dtype
        for output, region in zip(node.outputs, regions, strict=False):  # an invalid Slice may have more outputs
            element = dtype.value if dtype is not None and output.dtype is None else 0  # 0 keeps the type as it is
            output.set_type(element, region.output_shape)
    return unresolved
