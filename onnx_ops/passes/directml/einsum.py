"""An Einsum that crashes onnxruntime's DirectML provider, or that it computes wrongly, becomes a MatMul."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, takewhile
from math import prod

import onnx_ir as ir

from onnx_ops.defects.conditions import MAX_MATMUL_AXES, einsum_defects, einsum_terms
from onnx_ops.defects.empty_axes import find_merged_transpose
from onnx_ops.model.nodes import is_standard
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_constant, build_gather, build_reshape, build_with_axes
from onnx_ops.passes.edits import detach_inputs
from onnx_ops.passes.outcome import SKIPS, Skip

Group = str
"""The labels of axes that become one axis. Without labels, it is an axis of size 1."""


class EinsumForDirectMLPass(NodePass):
    """Write an Einsum of two tensors as a MatMul if onnxruntime-directml 1.24.4 crashes on it or leaves out an axis.

    1. A ReduceSum sums over each label that only one tensor has and the output lacks. A Transpose and a Reshape arrange
       each tensor as a stack of matrices: batch labels (in both tensors and the output), rows (labels of one tensor
       and the output), and one axis for the summed labels. They also arrange the product in the order of the output.
       If a label may have size 1 in one tensor alone, and MatMul may not broadcast it, an Expand does.

    Given: y = Einsum(x[2,3,4], x2[5,3,4], equation="abc,dbc->ad")
    Result: a = Reshape(x, [0, 12]); b = Transpose(x2, perm=[1,2,0]); c = Reshape(b, [12, 5]); y = MatMul(a, c)

    Reported and not fixed:
    - a tensor of unknown rank, or with a label twice;
    - sizes, not known or 0, that a Reshape can neither copy nor infer;
    - two row labels whose sizes may be 0, if there are batch labels: onnxruntime's MatMul does not broadcast 1 to 0;
    - a tensor from a Transpose whose perm is not valid, or is set by each call of a function.
    """

    op_types = ("Einsum",)

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        defects = self.on_directml(node, einsum_defects(node))
        if not defects:
            return
        nodes: list[ir.Node] = []
        try:
            self._build_product(nodes, node, opset)
        except SKIPS as reason:
            for new_node in nodes:  # the new nodes are not in the graph, but would count as readers of their inputs
                detach_inputs(new_node)
            self.report_change(node, None, defects, str(reason))
            return
        self.replace_node(node, nodes, defects, "MatMul")

    def _build_product(self, nodes: list[ir.Node], node: ir.Node, opset: int) -> None:
        """Add to `nodes` the nodes that replace the Einsum `node`. The last new node writes the result.

        Raises:
            Skip, InvalidSlice, DynamicSlice: The node cannot be fixed; see the class.
        """
        left, right, output_labels = einsum_terms(node)
        if any(len(set(term)) < len(term) for term in (left, right, output_labels)):
            raise Skip("a label occurs twice in a tensor")
        if not set(output_labels) <= {*left, *right}:
            raise Skip("a label of the output is in neither tensor")
        shapes = [shape for value in node.inputs if (shape := self.sizes(value)) is not None]
        if len(node.inputs) != 2 or list(map(len, shapes)) != [len(left), len(right)]:
            raise Skip("a rank is not known, or the inputs do not fit the equation")
        first, second = (value for value in node.inputs if value is not None)
        first_sizes = dict(zip(left, shapes[0], strict=True))
        second_sizes = dict(zip(right, shapes[1], strict=True))
        sizes = first_sizes | second_sizes
        for label in first_sizes.keys() & second_sizes.keys():
            pair = {first_sizes[label], second_sizes[label]}  # a number other than 1 wins: the other one is broadcast
            sizes[label] = next(iter(pair - {1, None}), None if None in pair else 1)
        first_dims, second_dims = (self.value_info.dims.get(value, ()) for value in (first, second))
        common = set(zip(left, first_dims, strict=False)) & set(zip(right, second_dims, strict=False))
        equal_labels = {label for label, sizes_in_copies in common if None not in sizes_in_copies}
        first, left = _sum_out(nodes, first, left, right + output_labels, opset)
        second, right = _sum_out(nodes, second, right, left + output_labels, opset)
        if len(set(right) - set(left)) > len(set(left) - set(right)):
            # Only the left tensor keeps its own labels as separate axes, so it must be the one that has more of them.
            left, right, first, second = right, left, second, first
            first_sizes, second_sizes = second_sizes, first_sizes
        shared = [label for label in left if label in right]
        summed = "".join(label for label in shared if label not in output_labels)
        batch = [label for label in shared if label in output_labels]
        left_only, right_only = ("".join(label for label in term if label not in shared) for term in (left, right))
        # A Reshape that joins rows or batch labels to one axis needs to know their sizes. So they are joined only if
        # the MatMul would have too many axes. A row whose size may be 0 comes last, because the right tensor has an
        # axis of size 1 for each other row, and onnxruntime's MatMul does not broadcast 1 to 0.
        row_groups = sorted(left_only, key=lambda label: not sizes[label]) or [""]
        if len(batch) + len(left_only) + 1 > MAX_MATMUL_AXES:
            row_groups = [left_only]
        batch_groups = ["".join(batch)] if len(batch) + len(row_groups) + 1 > MAX_MATMUL_AXES else batch
        # In an Einsum, onnxruntime broadcasts each label of size 1. In a MatMul, it broadcasts only a batch axis that
        # is one label, and only if the sums have terms and the size to broadcast to is not 0.
        has_terms = all(sizes[label] for label in summed)
        broadcast_labels = {group for group in batch_groups if has_terms and len(group) == 1 and sizes[group]}
        not_broadcast = set(shared) - equal_labels - broadcast_labels
        pairs = [(first_sizes, second_sizes), (second_sizes, first_sizes)]
        repeated = [
            {label for label in not_broadcast if own[label] in (1, None) and other[label] != 1} for own, other in pairs
        ]
        left_tensor = _expand(nodes, first, left, repeated[0], second, right)
        right_tensor = _expand(nodes, second, right, repeated[1], first, left)
        # After the batch axes, the right tensor needs an axis of size 1 for each row axis except the last. If there are
        # no batch axes, the MatMul adds these axes itself.
        padding = [""] * (len(row_groups) - 1 if batch_groups else 0)
        if not all(sizes[label] for group in row_groups[: len(padding)] for label in group):
            raise Skip("two sizes of rows may be 0")
        operands = [
            _arrange(nodes, left_tensor, left, [*batch_groups, *row_groups, summed], sizes, opset),
            _arrange(nodes, right_tensor, right, [*batch_groups, *padding, summed, right_only], sizes, opset),
        ]
        nodes.append(ir.node("MatMul", operands))
        groups = [*batch_groups, *row_groups, right_only]
        labels = "".join(groups)
        product = _reshape(nodes, nodes[-1].outputs[0], groups, list(labels), sizes, opset)
        _transpose(nodes, product, labels, output_labels)


LabelSizes = dict[str, int | None]
"""The size of each label, None for an unknown one."""


def _sum_out(nodes: list[ir.Node], value: ir.Value, labels: str, kept: str, opset: int) -> tuple[ir.Value, str]:
    """Add to `nodes` a ReduceSum over the labels that are not in `kept`, if any. Return the sum and its labels."""
    axes = [axis for axis, label in enumerate(labels) if label not in kept]
    if not axes:
        return value, labels
    nodes += build_with_axes("ReduceSum", value, axes, opset, keepdims=0)
    return nodes[-1].outputs[0], "".join(label for label in labels if label in kept)


def _expand(
    nodes: list[ir.Node], value: ir.Value, labels: str, repeated: set[str], other: ir.Value, others: str
) -> ir.Value:
    """Add an Expand of the axes whose labels are `repeated`, from size 1 in `value` to their size in `other`.

    `labels` are the labels of `value`, and `others` those of `other`. Return the output of the Expand, or `value` if no
    label is repeated.
    """
    if not repeated:
        return value
    shape, one = ir.node("Shape", [other]), build_constant([1])
    nodes += [shape, one, ir.node("Concat", [shape.outputs[0], one.outputs[0]], {"axis": 0})]
    # At index `len(others)`, the Concat has the 1, which keeps the size of an axis.
    axes = [others.index(label) if label in repeated else len(others) for label in labels]
    nodes += build_gather(nodes[-1].outputs[0], 0, axes)
    nodes.append(ir.node("Expand", [value, nodes[-1].outputs[0]]))
    return nodes[-1].outputs[0]


def _arrange(
    nodes: list[ir.Node], value: ir.Value, labels: str, groups: Sequence[Group], sizes: LabelSizes, opset: int
) -> ir.Value:
    """Add a Transpose and a Reshape, if needed, that make one axis of each group of labels. Return their output.

    onnxruntime's CPU provider moves a Transpose next to the MatMul, even from before a ReduceSum. The Transpose may be
    new, or a node of the original model. If the provider then fuses the Transpose with a MatMul of 3 or more axes, and
    one of the last two axes is empty, the process crashes. A Concat with one operand prevents this.
    """
    transposed = _transpose(nodes, value, labels, "".join(groups))
    arranged = _reshape(nodes, transposed, groups, groups, sizes, opset)
    producer, source = arranged.producer(), arranged
    if producer is not None and is_standard(producer, "ReduceSum") and producer.inputs[0] is not None:
        source = producer.inputs[0]
    perm, _ = find_merged_transpose(source)
    # If `perm` is not empty, no Reshape was added, so each group is one label.
    if perm and len(groups) >= 3 and not all(sizes[group] for group in groups[-2:]):
        nodes.append(ir.node("Concat", [arranged], {"axis": 0}))
        return nodes[-1].outputs[0]
    return arranged


def _transpose(nodes: list[ir.Node], value: ir.Value, labels: str, new_labels: str) -> ir.Value:
    """Add a Transpose that puts `labels` in the order of `new_labels`, if needed. Return its output."""
    if labels == new_labels:
        return value
    nodes.append(ir.node("Transpose", [value], {"perm": [labels.index(label) for label in new_labels]}))
    return nodes[-1].outputs[0]


def _reshape(
    nodes: list[ir.Node], value: ir.Value, groups: Sequence[Group], axes: Sequence[Group], sizes: LabelSizes, opset: int
) -> ir.Value:
    """Add a Reshape that joins the labels of each group to one axis, or separates them again. Return its output.

    If `axes` are the groups, the labels of each group are joined. If `axes` are single labels, they are separated. (A
    group of one label equals that label.)

    Nothing is added if each group is one label. If no group has several labels, an Unsqueeze or Squeeze adds or removes
    the axes of size 1. The axes of leading groups of one label are copied, even if their sizes are not known.

    Raises:
        Skip: An axis that is not copied has a label of size 0; or two such axes have unknown sizes; or one such axis
            has an unknown size, and the size of a copied axis may be 0.
    """
    if all(len(group) == 1 for group in groups):
        return value
    if all(len(group) <= 1 for group in groups):
        size_1_axes = [axis for axis, group in enumerate(groups) if not group]
        nodes += build_with_axes("Unsqueeze" if "" in axes else "Squeeze", value, size_1_axes, opset)
        return nodes[-1].outputs[0]
    kept_count = len(list(takewhile(lambda group: len(group) == 1, groups)))
    factors = [[sizes[label] for label in axis] for axis in axes[kept_count:]]
    inferred = sum(None in axis_factors for axis_factors in factors)
    may_keep_0 = not all(sizes[axis] for axis in axes[:kept_count])
    if inferred > 1 or 0 in chain.from_iterable(factors) or (inferred and may_keep_0):
        raise Skip("a size is not known or is 0")
    # In the shape of a Reshape, 0 copies the size of the same axis, and -1 stands for the one open size.
    shape = [-1 if None in numbers else prod(size for size in numbers if size is not None) for numbers in factors]
    nodes += build_reshape(value, [0] * kept_count + shape)
    return nodes[-1].outputs[0]
