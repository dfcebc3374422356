"""Writing of a model's slicing in the portable form, which every engine accepts, or in a form for one engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

import onnx_ir as ir

from onnx_ops.model.check import REPLACEABLE_VERSION
from onnx_ops.model.defaults import without_defaults
from onnx_ops.model.domains import standard_opset
from onnx_ops.model.nodes import LARGE_BYTES, constant, is_standard, is_valid_operator
from onnx_ops.model.prepare import unused_names
from onnx_ops.model.walk import model_graphs, model_nodes
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.base import SlicingPass, harden_by, run_until_stable
from onnx_ops.passes.contested_nodes import ready_for_passes
from onnx_ops.passes.edits import remove_nodes
from onnx_ops.passes.portable.form import (
    BACKWARD,
    ConstantBoundsPass,
    ContestedSlicePass,
    PortableConcatPass,
    PortablePass,
    PortableSlicePass,
    PortableSplitPass,
)
from onnx_ops.passes.raise_opset import raise_opset
from onnx_ops.passes.rewrite.expand_strided_slice import ExpandStridedSlicePass
from onnx_ops.passes.value_info import infer_facts
from sliceport.defects.profiles import READINGS, Profile
from sliceport.errors import ModelError
from sliceport.hardening import Hardening
from sliceport.wording import format_findings, spell

OPSET = 13
"""The first operator set in which Slice and Split have the form that every engine accepts."""
_WITH_PARAMETERS = ("Slice", "Split", "Gather", "Reshape")
"""Operators whose inputs after the first are parameters."""
_WRITERS: tuple[type[PortablePass], ...] = (PortableSplitPass, PortableSlicePass, PortableConcatPass)
PORTABLE: tuple[type[SlicingPass], ...] = (ConstantBoundsPass, *_WRITERS)
"""The passes that write the portable form, in the order in which they run, after `ExpandStridedSlicePass`."""


def harden_portably(
    model: ir.Model,
    profile: Profile,
    without: Collection[str] = (),
    read_as: str | None = None,
    *,
    raises_opset: bool = True,
) -> tuple[ir.Model, Hardening]:
    """Write the slicing of a model in the portable form.

    Args:
        model: The model. It is changed, unless its operator set is raised: then a copy is changed.
        profile: The target.
        without: Names from `profiles.FORMS` of further forms to avoid, besides the forms that the profile excludes.
        read_as: The reading of Slices with a step below 0 and an end of INT32_MAX or INT64_MAX: `standard` or
            `onnxruntime`. If it is None, such Slices stay as they are.
        raises_opset: Whether an operator set below 13 becomes 13, if onnx can convert the model.

    Returns:
        The changed model, which is a new object if its operator set was raised; and the changes, with notes on the
        operator set and on nodes that stay.

    Raises:
        ModelError: The model is not well-formed.
    """
    raised, notes = model, list[str]()
    if raises_opset and standard_opset(model.opset_imports) < OPSET:
        raised, note = _raise_opset(model)
        notes.append(note)
    excluded = {*profile.without, *without}
    writers = [kind(excluded, read_as) for kind in _WRITERS]
    report = harden_by(raised, [ExpandStridedSlicePass(), ConstantBoundsPass(), *writers], empty_report(profile))
    # Before IR version 4, each initializer would have to be an input.
    if report.is_changed and raised.ir_version >= REPLACEABLE_VERSION:
        _lift_parameters(raised)
    skipped = [node for writer in writers for node in writer.skipped]
    # Two passes may skip a node for the same reason.
    notes += format_findings(dict.fromkeys((node.op, node.node, f"{node.reason}: left as it is") for node in skipped))
    # If `read_as` is None, a backward Slice to the greatest integer stays, and is reported with this defect alone.
    if any(change.defects == (BACKWARD,) for change in report.changes):
        option = f"{spell('read_as', '--read-as')} {' or '.join(READINGS)}"
        notes.append(f"a backward Slice to the greatest integer has two readings: choose by {option}")
    # Only the last change of each node counts, because a node whose bounds became constants is rewritten once more.
    last_changes = {(change.op, change.node, change.origin): change for change in report.changes}
    changes = tuple(last_changes.values())
    return raised, replace(report, changes=changes, notes=tuple(notes), is_prepared=raised is not model)


def _raise_opset(model: ir.Model) -> tuple[ir.Model, str]:
    """Return a copy of a model whose operator set is `OPSET`, or else the model itself, and a note about this."""
    opset = standard_opset(model.opset_imports)
    try:
        with _softmax_shapes_declared(model):
            raised = raise_opset(model, OPSET)
    except ModelError as error:
        return model, f"the operator set stays {opset}: {str(error).rstrip('.')}"
    return raised, f"the operator set was raised from {opset} to {OPSET}, by onnx's version converter"


@contextmanager
def _softmax_shapes_declared(model: ir.Model) -> Iterator[None]:
    """Inside the context, declare the inferred shape of the data of each Softmax, if no shape is declared.

    onnx's version converter infers fewer ranks than `infer`. For a Softmax of unknown rank, it adds nodes that may fail
    at size 0.
    """
    data = [node.inputs[0] for node in model_nodes(model) if is_valid_operator(node, "Softmax", "LogSoftmax")]
    undeclared = {value: value.type for value in data if value is not None and value.shape is None}
    with without_defaults(model):
        # Shapes in a model with functions are not needed, because `raise_opset` refuses such a model.
        facts = infer_facts(model) if undeclared and not model.functions else {}
    for value in undeclared.keys() & facts.keys():
        element, dims = facts[value].element, facts[value].dims
        value.type = ir.TensorType(ir.DataType(element)) if element else value.type
        value.shape = None if dims is None else ir.Shape(dims)
    try:
        yield
    finally:
        for value, type_ in undeclared.items():
            value.type, value.shape = type_, None


def _lift_parameters(model: ir.Model) -> None:
    """Turn the Constants that `_read_parameter` accepts into initializers, because some engines lack Constant."""
    new_names = unused_names(model, "slicing_")
    for graph in model_graphs(model):
        # Equal constants of a graph become one initializer.
        initializers: dict[tuple[ir.DataType, tuple[int, ...], bytes], ir.Value] = {}
        for node in list(graph):
            tensor = _read_parameter(node)
            if tensor is None:
                continue
            key = (tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes())
            if key not in initializers:
                type_, shape = ir.TensorType(tensor.dtype), ir.Shape(key[1])
                value = ir.Value(name=next(new_names), type=type_, shape=shape, const_value=tensor)
                graph.register_initializer(value)
                initializers[key] = value
            for use in node.outputs[0].uses():
                use.node.replace_input_with(use.idx, initializers[key])
            remove_nodes([node])


def _read_parameter(node: ir.Node) -> ir.TensorProtocol | None:
    """Return the tensor of a small Constant that only Slices, Splits, Gathers and Reshapes read, as a parameter.

    Return None for any other node.
    """
    if not is_valid_operator(node, "Constant") or node.outputs[0].is_graph_output():
        return None
    uses = node.outputs[0].uses()
    # Input 0 is the data.
    if not uses or not all(use.idx > 0 and is_standard(use.node, *_WITH_PARAMETERS) for use in uses):
        return None
    tensor = constant(node.outputs[0])
    return tensor if tensor is not None and tensor.nbytes <= LARGE_BYTES else None


def enforce_standard_reading(model: ir.Model) -> None:
    """Rewrite each backward Slice that ends at INT32_MAX or INT64_MAX, so that onnxruntime follows the standard.

    For the original Slice, onnxruntime would select all elements down to index 0. Other nodes stay as they are.
    """
    with ready_for_passes(model):
        run_until_stable([ContestedSlicePass(read_as="standard")], Analysis(model))


def empty_report(profile: Profile) -> Hardening:
    """Return the report of a model without nodes that was written for `profile`."""
    return Hardening(profile.target, ", ".join(profile.versions), 0, (), is_form=True)
