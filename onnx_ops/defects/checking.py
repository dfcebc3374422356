"""The nodes of an ONNX model that are invalid, fragile, or have a defect on an engine. No engine runs for this.

A fragile node is right only for some sizes of an open axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onnx_ops.defects.conditions import (
    Defects,
    check_node,
    constant_of_shape_defects,
    conv_transpose_defects,
    einsum_defects,
    fused_slice_defects,
    known_elements,
    loop_defects,
    matmul_defects,
    reshape_defects,
    reshape_entries,
    slice_defects,
    split_defects,
)
from onnx_ops.defects.empty_sizes import EMPTY_SIZE_OPERATORS, check_empty_sizes
from onnx_ops.defects.placement import adapt_to_placement
from onnx_ops.infer.facts import NO_FACTS
from onnx_ops.infer.inference import infer_shapes
from onnx_ops.infer.open_sizes import OpenSizes
from onnx_ops.infer.resolve import bind_shapes, has_open_inputs
from onnx_ops.lowering import open_view
from onnx_ops.model.cached_read import caching_reads
from onnx_ops.model.nodes import (
    MATMULS,
    MAX_AXES,
    NUM_OUTPUTS_OPSET,
    SLICE_INPUTS_OPSET,
    SLICING,
    SPLIT_INPUT_OPSET,
    constant,
    is_slicing,
    is_standard,
    is_valid_operator,
    known_data_shape,
    node_name,
    read_int,
    read_ints,
    sizes_of,
)
from onnx_ops.model.proto_model import Node, ProtoModel, Value
from onnx_ops.model.specs import slice_spec, split_spec_with_open_sizes
from onnx_ops.model.views import Array, Sizes
from onnx_ops.model.walk import graphs_in, scoped_nodes
from sliceport.checking import NodeFinding, NodeFindings
from sliceport.defects.defect import Defect, Kind
from sliceport.defects.entries import read_entries
from sliceport.errors import DynamicSlice, InvalidSlice, Rule
from sliceport.slicing import AxisSlice, SliceSpec

if TYPE_CHECKING:
    from onnx_ops.infer.facts import Facts
    from onnx_ops.lowering import AnyModel
    from sliceport.engines.sizes import InputShapes

_REPORTED = read_entries("reported")
_DEFECTS = read_entries("onnxruntime")
_VALIDITY = read_entries("validity")

ENGINES = ("onnxruntime-cpu", "onnxruntime-cpu-optimized", "onnxruntime-dml", "onnx-reference", "openvino-onnx")
"""The engines about which `check` reports: those with proved entries for ONNX models in the table of defects."""
_BY_RULE: Mapping[Rule | None, Defect] = {
    None: _VALIDITY["not valid"],
    "list": _VALIDITY["parameters that are no lists"],
    "sizes": _VALIDITY["sizes that do not fit"],
    "count": _VALIDITY["sizes unlike the outputs"],
    "no sizes": _DEFECTS["an empty list of parts"],
    "uneven": _VALIDITY["uneven parts without sizes"],
    "num_outputs above": _VALIDITY["num_outputs unlike the outputs"],
    "num_outputs below": _VALIDITY["num_outputs below the outputs"],
}
"""The entry for each rule that an invalid node may break; None stands for all rules without an entry of their own."""
_WITH_REPORTS: Mapping[str, Defects] = {
    "nothing is selected": (_REPORTED["empty result"],),
    "a part is empty": (_REPORTED["empty part of a split"],),
    "num_outputs that leaves the last part empty": (_REPORTED["empty part of a split"],),
    "backwards from below the axis": (_REPORTED["backward start below the axis"],),
}
"""By the id of a defect: the reports about other engines that apply to the same nodes."""
_CHECKED_OPERATORS = frozenset(
    (*SLICING, "StridedSlice", "Reshape", "ConvTranspose", "ConstantOfShape", "Loop", "Squeeze", *EMPTY_SIZE_OPERATORS)
)
_Findings = Iterator[tuple[Defect, Kind, str]]
"""Defects with the kind of finding and a detail, which may be empty."""
_ENDS, _STEPS = 2, 4  # indices of inputs of Slice
_INT32_MIN = -(2**31)
_UNSORTED_AXES_OPSET = 11  # the first operator set in which onnxruntime infers a Squeeze correctly in any order of axes


def check(model: AnyModel, input_shapes: Mapping[str, Sequence[int]]) -> NodeFindings:
    """Find the nodes of a model that are invalid, fragile, or have a defect on an engine.

    Args:
        model: A file's path, an `onnx.ModelProto` or an `onnx_ir.Model`; it is not changed.
        input_shapes: Shapes by input name, for inputs whose shape the model leaves open. Outputs of nodes of the main
            graph may be named, too.

    Raises:
        ModelError: The model cannot be read, is not well-formed, or has a function that cannot be inlined.
        UsageError: `model` is not a model, or `input_shapes` do not fit it.
    """
    view, _ = open_view(model)
    with caching_reads():
        contradicted = bind_shapes(view, input_shapes)
        return NodeFindings(tuple(_Checker(view, input_shapes, contradicted).run()), ENGINES)


class _Checker:
    """A check of one model. Its creation infers types and shapes, and writes them into the view."""

    def __init__(self, view: ProtoModel, bound_shapes: InputShapes, contradicted: frozenset[str]) -> None:
        self._view = view
        self._contradicted = contradicted  # the result of `bind_shapes`
        self._opset = view.opset_imports.get("", 1)
        self._open_sizes = OpenSizes(view.graph)
        nodes = scoped_nodes(view.graph)
        self._nodes = [(scope, node) for scope, node in nodes if node.op_type in _CHECKED_OPERATORS]
        # Splits with left-out outputs are listed before inference, which names such outputs in onnx-ir models.
        splits = [node for _, node in self._nodes if node.op_type == "Split"]
        self._incomplete_splits = {id(node) for node in splits if not all(output.name for output in node.outputs)}
        # For each Loop, by its `id`: the sizes that the inputs of its body declare. Inference replaces these sizes.
        loops = [node for _, node in self._nodes if is_standard(node, "Loop")]
        self._body_sizes = {id(loop): list(map(sizes_of, _body_inputs(loop))) for loop in loops}
        # Without nodes to check, inference still compares the user's shapes, and finds misdeclared sizes.
        is_needed = self._nodes or bound_shapes or has_open_inputs(view)
        self._facts: Mapping[Any, Facts] = infer_shapes(view, bound_shapes) if is_needed else {}

    def run(self) -> Iterator[NodeFinding]:
        """Yield the findings of `_find_misdeclared`, and then all other findings in the order of the nodes.

        A node of a function has a copy for each call of the function. Equal findings about its copies are yielded once.
        """
        yield from self._find_misdeclared()
        reported: set[tuple[str, str, str]] = set()
        for scope, node in self._nodes:
            for defect, kind, detail in self._check(scope, node):
                # Inlining renames each copy of a function's node; `written_name` is the name in the function.
                name = node.written_name
                key = (defect.id, name, detail)
                if name == node_name(node) or key not in reported:
                    yield NodeFinding(defect, name, node.op_type, kind, detail, scope)
                reported.add(key)

    def _find_misdeclared(self) -> Iterator[NodeFinding]:
        """Report each node that declares a wrong size for an output, or for an input of its body.

        A size is wrong if it is a number but depends on open sizes of the model's inputs, or if it contradicts a shape
        from the user.
        """
        if not (self._contradicted or any(facts.is_misdeclared for facts in self._facts.values())):
            return
        for scope, node in scoped_nodes(self._view.graph):
            values = (*node.outputs, *_body_inputs(node))
            if any(self._facts_of(each).is_misdeclared or each.name in self._contradicted for each in values):
                name = node.written_name
                defect = _DEFECTS["a declared size that the inputs leave open"]
                yield NodeFinding(defect, name, node.op_type, "defect", "", scope)

    def _check(self, scope: tuple[str, ...], node: Node) -> _Findings:
        """Find broken rules, defects and fragility of a node. `scope` is its scope by `scoped_nodes`."""
        if is_slicing(node):
            yield from self._check_slicing(node)
        elif id(node) in self._body_sizes:  # a Loop
            inputs = _body_inputs(node)
            resized = [self._facts_of(value).is_resized for value in inputs]
            shapes = zip(self._body_sizes[id(node)], map(sizes_of, inputs), resized, strict=True)
            yield from ((defect, "defect", "") for defect in loop_defects(shapes))
        elif is_valid_operator(node, *_CHECKED_OPERATORS):
            with suppress(InvalidSlice, DynamicSlice):  # an attribute has a wrong type or an unknown value
                yield from self._check_other(scope, node)

    def _check_other(self, scope: tuple[str, ...], node: Node) -> _Findings:
        """Find the defects of a node that is neither a slicing node nor a Loop."""
        inputs = [value for value in node.inputs if value is not None]
        if node.op_type == "Reshape" and len(inputs) > 1:
            data, shape = inputs
            target = reshape_entries(shape, self._find_elements)
            yield from self._with_reports(node, reshape_defects(node, target))
            if not scope and not read_int(node, "allowzero", 0):  # in a body, the node may not run if the size is 0
                yield from self._check_reshape(data, target)
        elif node.op_type in MATMULS:
            left, right = (node.inputs[index] for index in MATMULS[node.op_type])
            if left is not None and right is not None:
                yield from self._with_reports(node, matmul_defects([sizes_of(left), sizes_of(right)], right.dtype))
        elif node.op_type == "ConstantOfShape":
            elements = known_elements(inputs[0], self._find_elements)
            yield from self._with_reports(node, constant_of_shape_defects(elements))
        elif node.op_type == "Einsum":
            yield from self._with_reports(node, einsum_defects(node))
        elif node.op_type == "ConvTranspose":
            yield from self._with_reports(node, conv_transpose_defects(node, self._opset))
        elif node.op_type == "Squeeze" and self._opset < _UNSORTED_AXES_OPSET:
            axes = list(read_ints(node, "axes") or ())
            if axes != sorted(axes):
                yield _DEFECTS["squeeze of axes out of order"], "defect", ""
        yield from check_empty_sizes(node, self._opset, self._open_sizes)

    def _check_reshape(self, data: Value, target: Sequence[Value | int]) -> _Findings:
        """Report a Reshape without allowzero whose `target` has a -1, if the Reshape fails where an open size is 0.

        A 0 in the target, also one computed at run time, copies the size of the data's axis at the same index. If a
        copied size is 0, the size for the -1 cannot be computed.
        """
        computed = [size for size in target if not isinstance(size, int)]
        # A value with another shape than (1,) does not stand for exactly one size of the target.
        may_not_be_one_size = any(self._facts_of(value).sizes != (1,) for value in computed)
        if data.shape is None or -1 not in target or may_not_be_one_size:
            return
        shape = [size if isinstance(size, int) else self._open_sizes.held_size(size) for size in target]
        dims = [self._open_sizes.size_of(data, axis) for axis in range(len(data.shape))]
        # The output keeps the open size of an axis if the target has a 0, or the same open size, at the axis's index.
        failing = [dim for dim, size in zip(dims, shape, strict=False) if isinstance(dim, str) and size in (0, dim)]
        # Beyond the rank of the data, a 0 has no axis to copy from, so the Reshape fails.
        failing += [size for size in shape[len(dims) :] if isinstance(size, str)]
        if failing:
            text = ", ".join("?" if size is None else str(size) for size in shape)
            names = " or ".join(dict.fromkeys(failing))
            yield _VALIDITY["a reshape that fails at size 0"], "fragile", f"shape=[{text}] fails where {names} is 0"

    def _facts_of(self, value: Value | None) -> Facts:
        return self._facts.get(value, NO_FACTS)

    def _find_elements(self, value: Value) -> Array | None:
        return self._facts_of(value).data

    def _check_slicing(self, node: Node) -> _Findings:
        """Find the rule that a slicing node breaks. If it breaks none, find the defects of a Slice or Split.

        Outputs that a Split leaves out are always reported. Inferred constants are stored in the model for the checks.
        """
        for value in node.inputs[1:]:
            facts = self._facts_of(value)
            if facts.data is not None and value is not None and constant(value) is None:
                value.set_constant(facts.element, facts.data)
        if id(node) in self._incomplete_splits:
            yield _DEFECTS["an output is left out"], "defect", ""
        try:
            check_node(node, self._opset)
        except InvalidSlice as error:
            yield _BY_RULE[error.rule], "invalid", str(error)
            return
        except DynamicSlice:
            pass  # a parameter is not known, so the node may be valid
        if is_standard(node, *SLICING):
            # A parameter may be unknown. `check_node` stops there, so a later parameter may be wrong, too.
            with suppress(InvalidSlice, DynamicSlice):
                fused = fused_slice_defects(node, self._opset, known_data_shape(node), _data_of(node).dtype)
                yield from self._with_reports(node, fused)
            yield from self._check_split(node) if node.op_type == "Split" else self._check_slice(node)

    def _check_slice(self, node: Node) -> _Findings:
        """Find the defects of a Slice that is valid as far as is known, including the reported ones of other engines.

        A backward Slice is fragile if its start may be before the first element of an open axis: engines differ then.
        """
        data = _data_of(node)
        sizes = sizes_of(data)
        try:
            spec = slice_spec(node, self._opset)
            bounds = spec.by_axis(MAX_AXES if sizes is None else len(sizes))  # `check_node` assumes the same rank
            yield from self._with_reports(node, slice_defects(node, self._opset, sizes))
        except (InvalidSlice, DynamicSlice):
            yield from _check_computed_parameters(node)
            return
        if not bounds and self._opset >= SLICE_INPUTS_OPSET:
            yield read_entries("openvino")["empty lists in an ONNX model"], "defect", ""
        yield from self._with_reports(node, self._find_reported(spec, bounds, sizes))
        for axis, (start, _, step) in bounds.items():
            name = self._open_sizes.name(data, axis)
            # A start of -1 is on every axis that is not empty. A start of INT32_MIN or less is not only fragile:
            # `slice_defects` returns its defect for every size.
            if name and step < 0 and _INT32_MIN < start < -1:
                detail = f"engines differ on start {start} with step {step} where {name} is less than {-start}"
                yield _DEFECTS["backwards from below the axis"], "fragile", detail

    def _find_reported(self, spec: SliceSpec, bounds: Mapping[int, AxisSlice], sizes: Sizes | None) -> Defects:
        """Return the reported defects of other engines that a Slice with these `bounds` by axis triggers."""
        axes = list(bounds)  # in the order in which the node lists them
        steps = {step for _, _, step in bounds.values()}
        starts_in_front = any(
            step > 0 and sizes is not None and (size := sizes[axis]) is not None and start < -size
            for axis, (start, _, step) in bounds.items()
        )
        matches = {
            "step other than 1": bool(steps - {1}),
            "negative step": min(steps, default=1) < 0,
            "slice below opset 10": self._opset < SLICE_INPUTS_OPSET,
            "axes left out": spec.axes is None and sizes is not None and len(bounds) < len(sizes),
            "step beyond 32 bits": any(abs(step) >= 2**31 for step in steps),
            "start in front of the axis": starts_in_front,
            "start behind the end": any(
                step > 0 and start > end and (start < 0) == (end < 0)  # both are counted from the same side
                for start, end, step in bounds.values()
            ),
            "axes out of order": axes != [axes[0] + i for i in range(len(axes))],  # or with gaps
        }
        return tuple([_REPORTED[name] for name, is_match in matches.items() if is_match])

    def _check_split(self, node: Node) -> _Findings:
        """Find the defects of a Split that is valid as far as its parameters are known, including the reported ones.

        A Split of an open axis is fragile if its result is right only for some sizes of the axis.
        """
        data = _data_of(node)
        sizes = sizes_of(data)
        yield from self._with_reports(node, split_defects(node, self._opset, sizes))
        if self._opset < SPLIT_INPUT_OPSET:
            yield _REPORTED["split below opset 13"], "defect", ""
        if self._opset >= NUM_OUTPUTS_OPSET:
            yield _REPORTED["split of opset 18"], "defect", ""
        if not all(output.is_graph_output() or output.uses() for output in node.outputs):
            yield _REPORTED["part that is not read"], "defect", ""
        name = ""  # stays empty if `read_int` raises DynamicSlice, because the axis is not known
        try:
            axis = read_int(node, "axis", 0)
            name = self._open_sizes.name(data, axis)
            part_sizes = split_spec_with_open_sizes(node, self._opset, sizes).sizes
        except InvalidSlice:
            return
        except DynamicSlice:
            count = len(node.outputs)
            if name and count > 1 and self._opset >= NUM_OUTPUTS_OPSET and "num_outputs" in node.attributes:
                detail = f"one of the {count} parts is empty for some sizes of {name}, such as 1"
                yield _DEFECTS["num_outputs that leaves the last part empty"], "fragile", detail
            elif name and count > 1 and not _is_input_computed(node, 1):
                detail = f"right only where {name} is a multiple of {count}"
                yield _VALIDITY["uneven parts without sizes"], "fragile", detail
            return
        if name:
            detail = f"split={list(part_sizes)} fixes {name} to {sum(part_sizes)}"
            yield _VALIDITY["sizes that fix an open axis"], "fragile", detail
        if "num_outputs" in node.attributes and len(set(part_sizes)) > 1:
            yield _REPORTED["uneven parts by num_outputs"], "defect", ""

    def _with_reports(self, node: Node, defects: Defects) -> _Findings:
        """Yield a finding for each defect, followed by the reported defects of other engines with the same trigger.

        The findings are those where onnxruntime places the node; see `adapt_to_placement`.
        """
        for defect in defects:
            adapted = adapt_to_placement(node, defect, lambda value: value.dtype, sizes_of)
            if adapted is not None:
                detail = self._describe_fusion(node) if adapted.kind != defect.kind else ""
                yield replace(adapted, kind=defect.kind), adapted.kind, detail
            for report in _WITH_REPORTS.get(defect.id, ()):
                yield report, "defect", ""

    def _describe_fusion(self, node: Node) -> str:
        """Return for which sizes a node is right whose defect depends on fusion, which needs fixed sizes."""
        data = _data_of(node)
        if node.op_type != "Split":  # an Einsum of fixed sizes
            return "right if onnxruntime knows all sizes when it loads the model, and fuses the node"
        names = [self._open_sizes.name(data, axis) for axis in range(len(data.shape or ()))]
        if text := " and ".join(dict.fromkeys(filter(None, names))):
            return f"right while {text} is open, wrong once all sizes are fixed"
        return f"wrong once all sizes of {data.name!r} are fixed, which --input-shapes or value_info would tell"


def _data_of(node: Node) -> Value:
    """Return the first input of a node that `check_node` accepts."""
    data = node.inputs[0]
    assert data is not None
    return data


def _body_inputs(node: Node) -> list[Value]:
    """Return the inputs of the bodies of a node."""
    return [value for body in graphs_in(node) for value in body.inputs]


def _check_computed_parameters(node: Node) -> _Findings:
    """Find the reported defects of a Slice whose steps or ends are computed when the model runs."""
    if _is_input_computed(node, _STEPS):
        yield _REPORTED["step at run time"], "fragile", f"its steps come from {node.inputs[_STEPS].name!r}"  # type: ignore[union-attr]
    if _is_input_computed(node, _ENDS):
        yield _REPORTED["bounds at run time"], "defect", ""


def _is_input_computed(node: Node, index: int) -> bool:
    """Return whether an input of a node is present and not a constant."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return value is not None and constant(value) is None
