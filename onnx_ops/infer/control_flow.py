"""Inference for If and Loop: the facts of their outputs, from the facts of the outputs of their bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from onnx_ops.infer.facts import Facts, read_type
from onnx_ops.model.views import Dims


def merge_branches(condition: Facts, body_outputs: Mapping[str, Sequence[Facts]]) -> list[Facts]:
    """Return the facts of the outputs of an If.

    If the condition is known, these are the facts of the taken branch. Otherwise they are what both branches share.

    Args:
        condition: The facts of the condition.
        body_outputs: The facts of the outputs of each branch, by the name of its attribute.
    """
    then_outputs, else_outputs = body_outputs.get("then_branch", ()), body_outputs.get("else_branch", ())
    if condition.data is not None and condition.data.size == 1:
        return list(then_outputs if bool(condition.data.reshape(())) else else_outputs)
    merged = []
    # The branches of an invalid model may have different numbers of outputs.
    for on_true, on_false in zip(then_outputs, else_outputs, strict=False):
        dims: Dims | None = None
        if on_true.dims is not None and on_false.dims is not None and len(on_true.dims) == len(on_false.dims):
            dims = tuple(
                [size if size == other else None for size, other in zip(on_true.dims, on_false.dims, strict=True)]
            )
        element = on_true.element if on_true.element == on_false.element else 0
        is_same_type = on_true.non_tensor_type == on_false.non_tensor_type
        merged.append(Facts(element, dims, on_true.non_tensor_type if is_same_type else b""))
    return merged


def list_arguments(node: onnx.NodeProto, inputs: Sequence[Facts]) -> list[Facts]:
    """Return facts of the values that a Loop or a Scan passes to its body before the first iteration."""
    if node.op_type == "Loop":
        return [Facts(), Facts(), *inputs[2:]]  # the body counts iterations and gets a condition of its own
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type != "Scan" or "num_scan_inputs" not in attributes or "directions" in attributes:
        return []  # `directions` belongs to Scan-8, whose inputs have a batch axis
    count = len(inputs) - attributes["num_scan_inputs"].i
    axes = attributes["scan_input_axes"].ints if "scan_input_axes" in attributes else [0] * len(inputs[count:])
    elements = [
        Facts(facts.element, None if facts.dims is None else _drop_axis(facts.dims, axis))
        for facts, axis in zip(inputs[count:], axes, strict=False)
    ]
    return [*inputs[:count], *elements]


def _drop_axis(dims: Dims, axis: int) -> Dims:
    return tuple([dim for index, dim in enumerate(dims) if index != axis % len(dims)])


def infer_loop(node: onnx.NodeProto, inputs: Sequence[Facts], body_outputs: Sequence[Facts]) -> list[Facts]:
    """Return the facts of the outputs of a Loop: first the carried values, then the scan outputs.

    The outputs of its body are the condition, the carried values, and one iteration of each scan output.
    """
    carried_count = len(inputs) - 2  # the other two inputs are the trip count and the condition
    first_scan_output = 1 + carried_count
    # The body may change the shape of a carried value in each iteration.
    carried = [Facts(facts.element, None, facts.non_tensor_type) for facts in body_outputs[1:first_scan_output]]
    declared_outputs = next((a.g.output for a in node.attribute if a.name == "body"), ())
    # The body is certain to run if the trip count and the condition are above 0 or left out.
    conditions = [facts.data for name, facts in zip(node.input[:2], inputs, strict=False) if name]
    is_run = all(data is not None and bool((data > 0).all()) for data in conditions)
    scan_outputs = zip(body_outputs[first_scan_output:], declared_outputs[first_scan_output:], strict=False)
    return carried + [_stack_iterations(facts, declared.type, is_run=is_run) for facts, declared in scan_outputs]


def open_changing_sizes(
    body: onnx.GraphProto, carried: Sequence[Facts], results: Sequence[Facts], *, opens_all: bool
) -> bool:
    """Open the declared sizes of a Loop's carried values that an iteration changes. Return whether there are any.

    If so, remove the declared shapes of the body's outputs and the declared types of the values inside the body. They
    may depend on such a size.

    Args:
        body: The body of a Loop, which is changed.
        carried: The facts of the carried values before the first iteration.
        results: The facts of the carried values after an iteration that began with the declared sizes.
        opens_all: Whether to open all sizes unless each of them is certain to stay the same.
    """
    declared: list[tuple[onnx.TensorShapeProto.Dimension, bool]] = []
    # The first two inputs of the body are the iteration number and the condition.
    for value, before, after in zip(body.input[2:], carried, results, strict=False):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                continue
            first, later = _size_on(before, axis), _size_on(after, axis)
            # Sizes are numbers, symbols or None. A symbol in `first` may stand for the declared number, but a symbol in
            # `later` counts as a change.
            is_kept = later == dim.dim_value or (later is None and not opens_all)
            declared.append((dim, not is_kept or (isinstance(first, int) and first != dim.dim_value)))
    if not any(is_changed for _, is_changed in declared):
        return False
    for dim, is_changed in declared:
        if is_changed or opens_all:
            dim.ClearField("value")
    del body.value_info[:]
    for value in body.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return True


def _size_on(facts: Facts, axis: int) -> int | str | None:
    return facts.dims[axis] if facts.dims is not None and axis < len(facts.dims) else None


def _stack_iterations(facts: Facts, declared: onnx.TypeProto, *, is_run: bool) -> Facts:
    """Return the facts of a scan output of a Loop, which stacks one output of the body over all iterations.

    Args:
        facts: The facts of the body's output.
        declared: The declared type of the body's output.
        is_run: Whether the body is certain to run. If the body does not run, onnxruntime gives the output the sizes
            that it inferred, and 0 for each size that it did not infer. So only declared numbers are certain.
    """
    dims = facts.dims
    if not is_run:
        declared_dims = read_type(declared.SerializeToString()).dims
        dims = declared_dims and tuple([dim if isinstance(dim, int) else None for dim in declared_dims])
    return Facts(facts.element, None if dims is None else (None, *dims))  # the number of iterations is not known
