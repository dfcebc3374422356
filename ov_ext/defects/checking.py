"""The nodes of an OpenVINO model that are invalid, fragile, or have a defect on an engine. No engine is run."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress

import openvino as ov
from openvino.op.util import ConcatOutputDescription, MergedInputDescription, SliceInputDescription

from ov_ext.defects.conditions import BuiltInNode, find_defects, find_split_defects
from ov_ext.model.files import read_with_shapes
from ov_ext.model.openvino_lock import with_openvino_lock
from ov_ext.model.passes import BUILT_IN, kind_of, nodes_with_scope
from ov_ext.model.read import SPLITS, resolve
from ov_ext.operators.static_values import find_data_dependent, read_integers
from sliceport.checking import NodeFinding, NodeFindings
from sliceport.defects.defect import Defect, Kind
from sliceport.defects.entries import read_entries
from sliceport.errors import DynamicSlice, InvalidSlice

_DEFECTS = read_entries("openvino")
_VALIDITY = read_entries("validity")
_REPORTED = read_entries("reported")

ENGINES = ("openvino-cpu", "openvino")
"""The engines whose proven defects `check` finds in OpenVINO models."""
_Findings = Iterator[tuple[Defect, Kind, str]]
"""The findings about a node: the defect, the kind, and a detail that may be empty."""
_KEEP_VALUES = frozenset({"Convert", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that pass on the values of an index input."""


@with_openvino_lock
def check(model: str | os.PathLike[str] | ov.Model, input_shapes: Mapping[str, Sequence[int]]) -> NodeFindings:
    """Find the nodes of a model that are invalid, fragile, or have a defect on an engine.

    Args:
        model: A file's path, or a model, which is not changed.
        input_shapes: Sizes for inputs by name, to which the model is reshaped.

    Raises:
        UsageError: `model` is of another type, or `input_shapes` do not fit it; see also `ov_ext.backend`.
    """
    opened = read_with_shapes(model, input_shapes)
    nodes = list(nodes_with_scope(opened))
    data_dependent = find_data_dependent(node for _, node in nodes)
    return NodeFindings(
        tuple(
            NodeFinding(defect, node.get_friendly_name(), kind_of(node)[0], kind, detail, scope)
            for scope, node in nodes
            for defect, kind, detail in _check_node(node, data_dependent)
        ),
        ENGINES,
    )


def _check_node(node: ov.Node, data_dependent: Container[int]) -> _Findings:
    """Yield the findings about a node of any operator."""
    try:
        if kind_of(node) in BUILT_IN:
            yield from _check_built_in(BuiltInNode(node, data_dependent))
        elif kind_of(node) in SPLITS:
            yield from ((defect, "defect", "") for defect in find_split_defects(node, data_dependent))
            yield from _check_split(node, data_dependent)
        elif kind_of(node)[0] in ("Loop", "TensorIterator"):
            yield from _check_sliced_inputs(node)
            if kind_of(node)[0] == "TensorIterator" and not _runs_all_iterations(node):
                yield _DEFECTS["sliced inputs that are not read"], "defect", ""
    except InvalidSlice as error:
        yield _VALIDITY["not valid"], "invalid", str(error)


def _check_built_in(view: BuiltInNode) -> _Findings:
    """Yield the defects that a Slice or StridedSlice triggers now, and those that values at run time may trigger."""
    for defect in find_defects(view):
        if defect is _DEFECTS["backward through an empty axis"] and 0 not in view.inputs[0].get_partial_shape():
            yield defect, "fragile", "wrong if an axis that it walks backward has size 0"
        else:
            yield defect, "defect", ""
    if view.steps is None or None in view.steps:
        detail = f"its step comes from {view.inputs[3].get_node().get_friendly_name()!r}"  # Input 3 is the step.
        yield _REPORTED["step at run time"], "fragile", detail
    wide_parameters = dict.fromkeys(name for source in view.inputs[1:] if (name := _find_wide_parameter(source)))
    if wide_parameters:
        detail = f"wrong if {' or '.join(map(repr, wide_parameters))} needs more than 32 bits"
        yield _DEFECTS["64-bit indices at run time"], "fragile", detail


def _find_wide_parameter(source: ov.Output) -> str:
    """Return the name of the 64-bit Parameter from which an index input gets its values, or "" if there is not one."""
    node = source.get_node()
    while node.get_type_name() in _KEEP_VALUES:
        node = node.input_value(0).get_node()
    is_wide = node.get_type_name() == "Parameter" and node.get_output_element_type(0).bitwidth == 64
    return str(node.get_friendly_name()) if is_wide else ""


def _check_sliced_inputs(node: ov.Node) -> _Findings:
    """Yield a finding for each sliced input of a Loop or TensorIterator if the CPU plugin ignores its `start`.

    The plugin begins at 0 or, with a negative stride, at the last index of the last whole part. If the size is open,
    this index is not known, so each `start` except -1 is reported for a negative stride.
    """
    for port in node.get_input_descriptions():
        if isinstance(port, SliceInputDescription):
            shape = node.input_value(port.input_index).get_partial_shape()
            start, first = port.start, (0 if port.stride > 0 else -1)
            if shape.rank.is_static and shape[port.axis].is_static:
                size = shape[port.axis].get_length()
                start = start if start >= 0 else start + size
                first = first if first == 0 else size - size % port.part_size - 1
            if start != first:
                yield _DEFECTS["start of a sliced input"], "defect", f"input {port.input_index} starts at {port.start}"


def _runs_all_iterations(iterator: ov.Node) -> bool:
    """Return whether the CPU plugin runs all iterations of a TensorIterator. If it drops the node, return True.

    The plugin drops the inputs that the body does not read. If it has dropped all sliced inputs, it runs only one
    iteration, and if it has dropped all inputs, it crashes. So the body must read a sliced input. If there is only one
    iteration, or if no input is sliced, it may read any input instead.
    """
    body, outputs = iterator.get_function(), iterator.get_output_descriptions()
    ports = iterator.get_input_descriptions()
    parameters = [node.get_instance_id() for node in body.get_parameters()]
    results = [result.input_value(0).get_node().get_instance_id() for result in body.get_results()]
    sliced = [port for port in ports if isinstance(port, SliceInputDescription)]
    merged = [port for port in ports if isinstance(port, MergedInputDescription)]
    changed = [port for port in merged if results[port.body_value_index] != parameters[port.body_parameter_index]]
    # The plugin first removes each Result that only returns an input that no iteration changes, and outputs the input
    # instead. It keeps the Result if its values are joined or become another input.
    varying = {parameters[port.body_parameter_index] for port in (*sliced, *changed)}
    kept_results = {port.body_value_index for port in outputs if isinstance(port, ConcatOutputDescription)}
    kept_results |= {port.body_value_index for port in changed}
    kept_results |= {i for i, source in enumerate(results) if source in varying or source not in parameters}
    if kept_results.isdisjoint(port.body_value_index for port in outputs):
        return True  # The plugin drops the whole node, because no output is left.
    read = {results[i] for i in kept_results}
    for node in body.get_ordered_ops():
        if node.get_type_name() != "Result":
            read.update(source.get_node().get_instance_id() for source in node.input_values())
    needed = sliced if sliced and iterator.get_num_iterations() != 1 else ports
    return any(parameters[port.body_parameter_index] in read for port in needed)


def _check_split(node: ov.Node, data_dependent: Container[int]) -> _Findings:
    """Yield a finding if the constant lengths of a VariadicSplit fix a size that the model's input leaves open."""
    with suppress(DynamicSlice):
        resolve(node, data_dependent)
        return  # Nothing is open.
    data, *indices = (source.get_node() for source in node.input_values())
    shape = node.input_values()[0].get_partial_shape()
    constants = [read_integers(index).reshape(-1).tolist() for index in indices if index.get_type_name() == "Constant"]
    # A Split has one index input, the axis. A length of -1 stands for the rest of the axis, whatever its size is.
    if data.get_type_name() != "Parameter" or shape.rank.is_dynamic or len(constants) < 2 or -1 in constants[1]:
        return
    (axis,), lengths = constants
    if shape[axis].is_dynamic:
        detail = f"split_lengths={lengths} fixes axis {axis} of {data.get_friendly_name()!r} to {sum(lengths)}"
        yield _VALIDITY["sizes that fix an open axis"], "fragile", detail
