"""An Einsum that crashes onnxruntime's DirectML provider, or that it computes wrongly, becomes a MatMul."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain, takewhile
from math import prod

import onnx_ir as ir

from onnx_ops.defects.conditions import MAX_MATMUL_AXES, einsum_defects, einsum_terms
from onnx_ops.defects.empty_axes import find_merged_transpose
from onnx_ops.model.nodes import is_standard
from onnx_ops.model.views import Dims, Sizes
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import NodeList, build_constant, build_gather, build_reshape, build_with_axes
from onnx_ops.passes.edits import detach_inputs
from onnx_ops.passes.outcome import SKIPS, Skip

LabelSizes = dict[str, int | None]
"""The size of each label, None for an unknown one."""
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
        product = _Product(opset)
        try:
            product.build(*self._read_operands(node))
        except SKIPS as reason:
            for new_node in product.nodes:  # they are not in the graph, but would count as readers of their inputs
                detach_inputs(new_node)
            self.report_change(node, None, defects, str(reason))
            return
        self.replace_node(node, product.nodes, defects, "MatMul")

    def _read_operands(self, node: ir.Node) -> tuple[_Operand, _Operand, str]:
        """Return the two tensors of an Einsum and the labels of its output, or raise Skip; see the class."""
        *terms, output_labels = einsum_terms(node)
        if any(len(set(term)) < len(term) for term in (*terms, output_labels)):
            raise Skip("a label occurs twice in a tensor")
        if not set(output_labels) <= set("".join(terms)):
            raise Skip("a label of the output is in neither tensor")
        values = [value for value in node.inputs if value is not None]
        shapes = [shape for value in values if (shape := self.sizes(value)) is not None]
        if len(node.inputs) != 2 or list(map(len, shapes)) != list(map(len, terms)):
            raise Skip("a rank is not known, or the inputs do not fit the equation")
        dims = [self.value_info.dims.get(value, ()) for value in values]
        left, right = map(_Operand, values, terms, shapes, dims)
        return left, right, output_labels


class _Operand:
    """A tensor of an Einsum.

    Attributes:
        value: The tensor, or the result of a ReduceSum over some of its labels.
        labels: The labels of its axes.
        sizes: The size of each label, None for an unknown one. Labels that were summed over keep their sizes.
        dims: The sizes of each label in `ValueInfo.dims`, as far as they are known.
    """

    def __init__(self, value: ir.Value, labels: str, sizes: Sizes, dims: Sequence[Dims]) -> None:
        self.value, self.labels = value, labels
        self.sizes: LabelSizes = dict(zip(labels, sizes, strict=True))
        self.dims = dict(zip(labels, dims, strict=False))


class _Product:
    """The nodes of a MatMul that computes what an Einsum computes. The last node writes the result.

    Attributes:
        nodes: The nodes that were built so far.
        sizes: The size of each label after broadcasting, None for an unknown one.
    """

    def __init__(self, opset: int) -> None:
        self.nodes = NodeList()
        self.sizes: LabelSizes = {}
        self._opset = opset

    def build(self, left: _Operand, right: _Operand, output_labels: str) -> None:
        """Build all nodes, or raise Skip; see `EinsumForDirectMLPass`."""
        self.sizes = _broadcast_sizes(left.sizes, right.sizes)
        self._sum_out(left, right.labels + output_labels)
        self._sum_out(right, left.labels + output_labels)
        if len(set(right.labels) - set(left.labels)) > len(set(left.labels) - set(right.labels)):
            # Only the left tensor keeps its own labels as separate axes, so it must be the one that has more of them.
            left, right = right, left
        shared = [label for label in left.labels if label in right.labels]
        summed = "".join(label for label in shared if label not in output_labels)
        batch = [label for label in shared if label in output_labels]
        left_only = "".join(label for label in left.labels if label not in shared)
        right_only = "".join(label for label in right.labels if label not in shared)
        batch_groups, row_groups = self._group(batch, left_only)
        self._expand_repeated(left, right, batch_groups, summed)
        # After the batch axes, the right tensor needs an axis of size 1 for each row axis except the last. If there are
        # no batch axes, the MatMul adds these axes itself.
        padding = [""] * (len(row_groups) - 1 if batch_groups else 0)
        if not all(self.sizes[label] for group in row_groups[: len(padding)] for label in group):
            raise Skip("two sizes of rows may be 0")
        operands = [
            self._arrange(left, [*batch_groups, *row_groups, summed]),
            self._arrange(right, [*batch_groups, *padding, summed, right_only]),
        ]
        groups = [*batch_groups, *row_groups, right_only]
        labels = "".join(groups)
        product = self._reshape(self.nodes.add(ir.node("MatMul", operands)), groups, list(labels))
        self._transpose(product, labels, output_labels)

    def _sum_out(self, tensor: _Operand, kept: str) -> None:
        """Add a ReduceSum over the labels of a tensor that are not in `kept`, if any."""
        axes = [axis for axis, label in enumerate(tensor.labels) if label not in kept]
        if axes:
            tensor.value = self.nodes.add(*build_with_axes("ReduceSum", tensor.value, axes, self._opset, keepdims=0))
            tensor.labels = "".join(label for label in tensor.labels if label in kept)

    def _group(self, batch: Sequence[str], rows: str) -> tuple[list[Group], list[Group]]:
        """Return the groups of the batch labels and of the rows, joined only if the MatMul would have too many axes.

        A Reshape that joins labels needs to know their sizes. A row whose size may be 0 comes last, because the right
        tensor has an axis of size 1 for each other row, and onnxruntime's MatMul does not broadcast 1 to 0.
        """
        row_groups = sorted(rows, key=lambda label: not self.sizes[label]) or [""]
        if len(batch) + len(rows) + 1 > MAX_MATMUL_AXES:
            row_groups = [rows]
        return ["".join(batch)] if len(batch) + len(row_groups) + 1 > MAX_MATMUL_AXES else list(batch), row_groups

    def _expand_repeated(self, left: _Operand, right: _Operand, batch_groups: Sequence[Group], summed: str) -> None:
        """Expand the axes that may have size 1 in one tensor alone, unless the MatMul broadcasts them.

        In an Einsum, onnxruntime broadcasts each label of size 1. In a MatMul, it broadcasts only a batch axis that is
        one label, and only if the sums have terms and the size to broadcast to is not 0.
        """
        has_terms = all(self.sizes[label] for label in summed)
        broadcast = {group for group in batch_groups if has_terms and len(group) == 1 and self.sizes[group]}
        equal = {label for label, dims in left.dims.items() if dims == right.dims.get(label) and None not in dims}
        candidates = set(left.labels).intersection(right.labels) - equal - broadcast
        values = left.value, right.value
        for tensor, other, source in ((left, right, values[1]), (right, left, values[0])):
            repeated = {label for label in candidates if tensor.sizes[label] in (1, None) and other.sizes[label] != 1}
            if repeated:
                self._expand(tensor, repeated, source, other.labels)

    def _expand(self, tensor: _Operand, repeated: Collection[str], source: ir.Value, source_labels: str) -> None:
        """Expand the axes of a tensor whose labels are `repeated` to their sizes in `source`."""
        parts = [self.nodes.add(ir.node("Shape", [source])), self.nodes.add(build_constant([1]))]
        shape_and_1 = self.nodes.add(ir.node("Concat", parts, {"axis": 0}))
        # At index `len(source_labels)`, the Concat has the 1, which keeps the size of an axis.
        axes = [source_labels.index(x) if x in repeated else len(source_labels) for x in tensor.labels]
        new_shape = self.nodes.add(*build_gather(shape_and_1, 0, axes))
        tensor.value = self.nodes.add(ir.node("Expand", [tensor.value, new_shape]))

    def _arrange(self, tensor: _Operand, groups: Sequence[Group]) -> ir.Value:
        """Add a Transpose and a Reshape, if needed, that make one axis of each group of labels. Return their output.

        onnxruntime's CPU provider moves a Transpose next to the MatMul, even from before a ReduceSum. The Transpose may
        be new, or a node of the original model. If the provider then fuses the Transpose with a MatMul of 3 or more
        axes, and one of the last two axes is empty, the process crashes. A Concat with one operand prevents this.
        """
        arranged = self._reshape(self._transpose(tensor.value, tensor.labels, "".join(groups)), groups, groups)
        producer = arranged.producer()
        source = producer.inputs[0] if producer is not None and is_standard(producer, "ReduceSum") else None
        perm, _ = find_merged_transpose(source or arranged)
        # If `perm` is not empty, no Reshape was added, so each group is one label.
        if perm and len(groups) >= 3 and not all(self.sizes[group] for group in groups[-2:]):
            return self.nodes.add(ir.node("Concat", [arranged], {"axis": 0}))
        return arranged

    def _transpose(self, value: ir.Value, labels: str, new_labels: str) -> ir.Value:
        """Add a Transpose that puts `labels` in the order of `new_labels`, if needed. Return its output."""
        if labels == new_labels:
            return value
        perm = [labels.index(label) for label in new_labels]
        return self.nodes.add(ir.node("Transpose", [value], {"perm": perm}))

    def _reshape(self, value: ir.Value, groups: Sequence[Group], axes: Sequence[Group]) -> ir.Value:
        """Add a Reshape that joins the labels of each group to one axis, or separates them again. Return its output.

        If `axes` are the groups, the labels of each group are joined. If `axes` are single labels, they are separated.
        (A group of one label equals that label.)

        Nothing is added if each group is one label. If no group has several labels, an Unsqueeze or Squeeze adds or
        removes the axes of size 1. The axes of leading groups of one label are copied, even if their sizes are not
        known.

        Raises:
            Skip: An axis that is not copied has a label of size 0; or two such axes have unknown sizes; or one such
                axis has an unknown size, and the size of a copied axis may be 0.
        """
        if all(len(group) == 1 for group in groups):
            return value
        if all(len(group) <= 1 for group in groups):
            size_1_axes = [axis for axis, group in enumerate(groups) if not group]
            op_type = "Unsqueeze" if "" in axes else "Squeeze"
            return self.nodes.add(*build_with_axes(op_type, value, size_1_axes, self._opset))
        kept_count = len(list(takewhile(lambda group: len(group) == 1, groups)))
        factors = [[self.sizes[label] for label in axis] for axis in axes[kept_count:]]
        inferred = sum(None in axis_factors for axis_factors in factors)
        may_keep_0 = not all(self.sizes[axis] for axis in axes[:kept_count])
        if inferred > 1 or 0 in chain.from_iterable(factors) or (inferred and may_keep_0):
            raise Skip("a size is not known or is 0")
        # In the shape of a Reshape, 0 copies the size of the same axis, and -1 stands for the one open size.
        shape = [-1 if None in numbers else prod(size for size in numbers if size is not None) for numbers in factors]
        return self.nodes.add(*build_reshape(value, [0] * kept_count + shape))


def _broadcast_sizes(left: LabelSizes, right: LabelSizes) -> LabelSizes:
    """Return the size of each label. A number other than 1 wins, because the other size is broadcast to it."""
    sizes = left | right
    for label in left.keys() & right.keys():
        pair = {left[label], right[label]}
        sizes[label] = next(iter(pair - {1, None}), None if None in pair else 1)
    return sizes
