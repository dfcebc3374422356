"""Inference for If, Loop and Scan: the facts of their outputs, from the facts of the outputs of their bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx

from onnx_ops.infer.facts import Facts, read_type, without_element_shapes
from onnx_ops.model.domains import STANDARD_DOMAINS
from onnx_ops.model.views import Dims

_SCAN_WITHOUT_BATCH_OPSET = 9  # the first operator set in which the inputs of a Scan have no batch axis


def untaken_branch(condition: Facts) -> str:
    """Return the name of the branch that an If never takes; an empty string if the condition is not one known value."""
    if condition.data is None or condition.data.size != 1:
        return ""
    return "else_branch" if bool(condition.data.reshape(())) else "then_branch"


def merge_branches(untaken: str, body_outputs: Mapping[str, Sequence[Facts]]) -> list[Facts]:
    """Return the facts of the outputs of an If.

    If the condition is known, these are the facts of the taken branch. Otherwise, they are the types and sizes that
    both branches share, without elements, and `alternatives` has the dims in each branch.

    Args:
        untaken: The name of the branch that is never taken; see `untaken_branch`.
        body_outputs: The facts of the outputs of each branch, by the name of its attribute.
    """
    then_outputs, else_outputs = body_outputs.get("then_branch", ()), body_outputs.get("else_branch", ())
    if untaken:
        return list(then_outputs if untaken == "else_branch" else else_outputs)
    merged = []
    # The branches of an invalid model may have different numbers of outputs.
    for on_true, on_false in zip(then_outputs, else_outputs, strict=False):
        dims: Dims | None = None
        if on_true.dims is not None and on_false.dims is not None and len(on_true.dims) == len(on_false.dims):
            pairs = zip(on_true.dims, on_false.dims, strict=True)
            dims = tuple([size if size == other else None for size, other in pairs])
        element = on_true.element if on_true.element == on_false.element else 0
        is_same_type = on_true.non_tensor_type == on_false.non_tensor_type
        non_tensor_type = on_true.non_tensor_type if is_same_type else b""
        merged.append(Facts(element, dims, non_tensor_type, alternatives=(on_true.dims, on_false.dims)))
    return merged


def list_arguments(node: onnx.NodeProto, inputs: Sequence[Facts], opset: int) -> list[Facts]:
    """Return the types and sizes of the values that a Loop or a Scan passes to its body in the first iteration.

    The elements of the values are left out, because an iteration may change them. Return [] for other nodes.
    """
    if node.op_type == "Loop":
        # The body gets the iteration number and a condition before the carried values. It may declare both with the
        # shape [1].
        body = next((attribute.g for attribute in node.attribute if attribute.name == "body"), onnx.GraphProto())
        ranks = [len(value.type.tensor_type.shape.dim) for value in body.input[:2]]
        elements = (onnx.TensorProto.INT64, onnx.TensorProto.BOOL)
        counters = [Facts(element, (1,) * rank) for element, rank in zip(elements, ranks, strict=False)]
        carried = [Facts(facts.element, facts.dims, facts.non_tensor_type) for facts in inputs[2:]]
        return [*counters, *carried]
    if node.op_type != "Scan":
        return []
    state_count, scan_axes = _read_scan_inputs(node, inputs)
    # For each input, the axes that the value in the body lacks.
    dropped_axes: list[list[int]] = [[]] * state_count + [[axis] for axis in scan_axes]
    if opset < _SCAN_WITHOUT_BATCH_OPSET:
        # The first input of Scan-8 has the lengths of sequences, and is not passed. All other inputs begin with a batch
        # axis. In the scan inputs, axis 1 is the axis that the iterations follow.
        inputs, dropped_axes = inputs[1:], [[0]] * (state_count - 1) + [[0, 1]] * len(scan_axes)
    return [
        Facts(facts.element, None if facts.dims is None else _drop_axes(facts.dims, axes))
        for facts, axes in zip(inputs, dropped_axes, strict=False)
    ]


def _read_scan_inputs(node: onnx.NodeProto, inputs: Sequence[Facts]) -> tuple[int, list[int]]:
    """Return the number of inputs of a Scan before the scan inputs, and the axis of each scan input."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    count = attributes["num_scan_inputs"].i if "num_scan_inputs" in attributes else 0
    axes = attributes["scan_input_axes"].ints if "scan_input_axes" in attributes else [0] * count
    return len(inputs) - count, list(axes)


def _drop_axes(dims: Dims, axes: Sequence[int]) -> Dims:
    dropped = {axis % len(dims) for axis in axes if dims}
    return tuple([dim for index, dim in enumerate(dims) if index not in dropped])


def infer_loop(node: onnx.NodeProto, inputs: Sequence[Facts], body_outputs: Sequence[Facts]) -> list[Facts]:
    """Return the facts of the outputs of a Loop: first the carried values, then the scan outputs.

    The outputs of its body are the condition, the carried values, and one iteration of each scan output.
    """
    carried_count = len(inputs) - 2  # the other two inputs are the trip count and the condition
    first_scan_output = 1 + carried_count
    body = next((attribute.g for attribute in node.attribute if attribute.name == "body"), onnx.GraphProto())
    # The body certainly runs if the trip count is above 0 and the condition is true. Either may be left out.
    start_conditions = [facts.data for name, facts in zip(node.input[:2], inputs, strict=False) if name]
    is_run = all(data is not None and bool((data > 0).all()) for data in start_conditions)
    carried = []
    for before, after in zip(inputs[2:], body_outputs[1:first_scan_output], strict=False):
        # Only sizes that the body keeps are known. If the body does not run, the value keeps its sizes before the Loop.
        kept = keep_sizes(after, before)  # `after` is first, because its type counts
        alternatives = () if is_run or kept.dims == before.dims else (before.dims,)
        carried.append(replace(kept, alternatives=alternatives))
    trip_count = inputs[0].data if inputs and is_run and _never_stops(body, body_outputs) else None
    count = int(trip_count.reshape(())) if trip_count is not None and trip_count.size == 1 else None
    scan_outputs = zip(body_outputs[first_scan_output:], body.output[first_scan_output:], strict=False)
    return carried + [_stack_iterations(facts, declared.type, count, is_run=is_run) for facts, declared in scan_outputs]


def _never_stops(body: onnx.GraphProto, outputs: Sequence[Facts]) -> bool:
    """Return whether the body of a Loop returns a true condition after each iteration.

    A body that returns the condition that it gets never stops the Loop: the body runs only if this condition is true.
    """
    if not outputs or len(body.input) < 2:
        return False
    nodes = [node for node in body.node if node.op_type == "Identity" and node.domain in STANDARD_DOMAINS]
    copies = {output: source for node in nodes for output, source in zip(node.output, node.input, strict=False)}
    name = body.output[0].name
    while name in copies:
        name = copies.pop(name)  # the nodes of an invalid model may form a cycle
    return name == body.input[1].name or (outputs[0].data is not None and bool(outputs[0].data.all()))


def infer_scan(node: onnx.NodeProto, inputs: Sequence[Facts], body_outputs: Sequence[Facts], opset: int) -> list[Facts]:
    """Return the facts of the outputs of a Scan: first the states, then the scan outputs.

    The scan outputs are left out if the length of the sequences is 0 or not known. Below operator set 9, return [].
    """
    if opset < _SCAN_WITHOUT_BATCH_OPSET:
        return []
    state_count, axes = _read_scan_inputs(node, inputs)
    # Each iteration keeps the sizes of the states.
    outputs = [Facts(facts.element, facts.dims) for facts in inputs[:state_count]]
    scanned = inputs[state_count].dims if axes and state_count < len(inputs) else None
    length = scanned[axes[0]] if scanned and -len(scanned) <= axes[0] < len(scanned) else None
    if not isinstance(length, int) or length == 0:  # onnxruntime refuses sequences of length 0
        return outputs
    output_axes = next((a.ints for a in node.attribute if a.name == "scan_output_axes"), [0] * len(body_outputs))
    for facts, axis in zip(body_outputs[state_count:], output_axes, strict=False):
        dims = facts.dims
        if dims is not None:
            index = axis if axis >= 0 else axis + len(dims) + 1  # the output has one axis more than `dims`
            dims = (*dims[:index], length, *dims[index:])
        outputs.append(Facts(facts.element, dims))
    return outputs


def changes_size(before: Facts, after: Facts) -> bool:
    """Return whether an iteration of a Loop turns a known size of a carried value into another number or a symbol.

    A size that becomes None does not count, because it may have stayed the same.
    """
    pairs = zip(before.dims or (), after.dims or (), strict=False)
    return any(isinstance(size, int) and later not in (None, size) for size, later in pairs)


def keep_sizes(one: Facts, other: Facts) -> Facts:
    """Return the facts that a carried value of a Loop keeps between two states: the type in `one`, and equal sizes.

    Symbols are dropped. A sequence keeps no shapes of its elements, because an iteration may insert other elements.
    """
    same_rank = one.dims is not None and other.dims is not None and len(one.dims) == len(other.dims)
    pairs = zip(one.dims or (), other.dims or (), strict=False)
    dims = tuple([dim if isinstance(dim, int) and dim == size else None for dim, size in pairs])
    return Facts(one.element, dims if same_rank else None, without_element_shapes(one.non_tensor_type))


def _stack_iterations(facts: Facts, declared: onnx.TypeProto, count: int | None, *, is_run: bool) -> Facts:
    """Return the facts of a scan output of a Loop, which stacks one output of the body over all iterations.

    Args:
        facts: The facts of the body's output.
        declared: The declared type of the body's output.
        count: The number of iterations, if it is known.
        is_run: Whether the body is certain to run.
    """
    dims = facts.dims
    if not is_run and dims is not None:
        # If the body does not run, onnxruntime takes these sizes from its own inference or from the declared type, and
        # 0 for others. So only numbers that are both declared and inferred are certain.
        declared_dims = read_type(declared.SerializeToString()).dims
        if declared_dims is None or len(declared_dims) != len(dims):
            dims = None
        else:
            pairs = zip(dims, declared_dims, strict=True)
            dims = tuple([dim if isinstance(dim, int) and dim == size else None for dim, size in pairs])
    return Facts(facts.element, None if dims is None else (count, *dims))
