"""Facts of the outputs of control flow nodes, from the facts of the outputs of their bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from onnx_ops.infer.facts import Facts, read_type
from onnx_ops.model.views import Dims


def merge_branches(condition: Facts, body_outputs: Mapping[str, Sequence[Facts]]) -> list[Facts]:
    """Return the facts of the outputs of an If: all facts of the taken branch, or what both branches have in common."""
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


def infer_loop(node: onnx.NodeProto, inputs: Sequence[Facts], body_outputs: Sequence[Facts]) -> list[Facts]:
    """Return the facts of the outputs of a Loop: first the carried values, then the scan outputs.

    The outputs of its body are the condition, the carried values, and one iteration of each scan output.
    """
    first_scan_output = 1 + len(inputs) - 2  # all inputs but trip count and condition are carried
    # The body may change the shape of a carried value in each iteration.
    carried = [Facts(facts.element, None, facts.non_tensor_type) for facts in body_outputs[1:first_scan_output]]
    declared_outputs = next((a.g.output for a in node.attribute if a.name == "body"), ())
    is_run = _certainly_runs(node, inputs)
    scan_outputs = zip(body_outputs[first_scan_output:], declared_outputs[first_scan_output:], strict=False)
    return carried + [_stack_iterations(facts, declared.type, is_run=is_run) for facts, declared in scan_outputs]


def open_changing_sizes(
    body: onnx.GraphProto, initial: Sequence[Facts], results: Sequence[Facts], *, opens_all: bool
) -> bool:
    """Open the declared sizes of carried values that an iteration changes, and return whether there are any.

    The types of other values in the body are removed with them, because they may follow from such a size.

    Args:
        body: The body of a Loop.
        initial: The facts of the carried values before the first iteration.
        results: Their facts after an iteration that began with the declared sizes.
        opens_all: Whether to open all sizes unless each of them is certain to be kept.
    """
    declared: list[tuple[onnx.TensorShapeProto.Dimension, bool]] = []
    for value, before, after in zip(body.input[2:], initial, results, strict=False):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            first, later = ((*(facts.dims or ()), *[None] * (axis + 1))[axis] for facts in (before, after))
            # A symbol as the initial size may stand for the declared number; one as the later size is declared, too.
            kept = (dim.dim_value,) if opens_all else (dim.dim_value, None)
            is_changed = later not in kept or (isinstance(first, int) and first != dim.dim_value)
            declared += [(dim, is_changed)] * dim.HasField("dim_value")
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


def _certainly_runs(node: onnx.NodeProto, inputs: Sequence[Facts]) -> bool:
    """Return whether a Loop is certain to run its body: trip count and condition are above 0 or left out."""
    loop_inputs = [facts.data for name, facts in zip(node.input[:2], inputs, strict=False) if name]
    return all(data is not None and bool((data > 0).all()) for data in loop_inputs)


def _stack_iterations(facts: Facts, declared: onnx.TypeProto | None, *, is_run: bool) -> Facts:
    """Return the facts of a scan output of a Loop, which stacks one output of the body over all iterations.

    Args:
        facts: Facts of the body's output.
        declared: The declared type of the body's output.
        is_run: Whether the body certainly runs. If it does not run, the output has the sizes that onnxruntime inferred,
            and 0 for each size that it did not infer. So only declared numbers are certain.
    """
    dims = facts.dims
    if not is_run:
        dims = read_type(declared.SerializeToString()).dims if declared is not None else None
        dims = dims and tuple([dim if isinstance(dim, int) else None for dim in dims])
    return Facts(facts.element, None if dims is None else (None, *dims))
