"""A Slice moves before an operator that computes more than the Slice keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import onnx_ir as ir

from onnx_ops.model.nodes import is_operator, node_name
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.annotations import annotate_nodes
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_constant, build_slice
from onnx_ops.passes.cut_inputs import CUT_INPUTS, Entries, Shape
from onnx_ops.passes.matchers import data_of, read_slice
from onnx_ops.passes.outcome import Rewritten, Skip
from sliceport.slicing.spec import cut_shape


class MoveSlicesUpPass(NodePass):
    """Move a Slice before the operator whose output it cuts, so that this computes only what is kept.

    Not run by default, because it changes what other operators compute on.

    1. Transpose: the axes are those before it.
    2. Unsqueeze, Squeeze: the axes are counted without the new or dropped ones; a new axis must be kept whole.
    3. Reshape: each axis that is cut is also an axis of its input, with the same size and the same stride.
    4. Elementwise operators that are exact or round once: each input is cut on the axes that it does not broadcast.
    5. Expand: as 4, and its shape becomes that of what is kept.

    All sizes are known, nothing else reads the operator's output, and fewer bytes are written afterwards.

    Given: y = Slice(Transpose(x[4, 6], perm=[1, 0]), [0], [2], [0])
    Result: y = Transpose(Slice(x, [0], [2], [1]), perm=[1, 0])
    """

    op_types = ("Slice",)
    is_default = False

    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | None:
        """Rewrite a node that matches; see the class."""
        value = data_of(node)
        above = value.producer()
        if not is_operator(above, *CUT_INPUTS) or above.graph is not node.graph:
            return None
        if value.is_graph_output() or count_uses(value) != 1:
            raise Skip(f"{above.op_type} {node_name(above)!r} before it has other readers too")
        shapes = [self._known_shape(read) for read in above.inputs]
        whole = self._known_shape(value)
        entries = read_slice(node, opset, whole)
        kept = cut_shape(entries, whole)
        cuts, shape = CUT_INPUTS[above.op_type](above, opset, shapes, entries, whole, kept)
        self._check_bytes(cuts, shapes, kept, whole)
        new: list[ir.Node] = []
        moved: list[ir.Node] = []
        inputs = list(above.inputs)
        for i, cut in cuts.items():
            read = inputs[i]
            assert read is not None
            new += build_slice(read, cut, opset)
            new[-1].name = node.name if len(cuts) == 1 else f"{node_name(node)}_{i}"
            moved.append(new[-1])
            inputs[i] = new[-1].outputs[0]
            self.set_value_info(new[-1].outputs[0], read, cut_shape(cut, shapes[i]), node.outputs[0])
        if shape is not None:
            new.append(build_constant(shape))
            inputs[1] = new[-1].outputs[0]
        new.append(ir.node(above.op_type, inputs, dict(above.attributes), name=above.name))
        annotate_nodes(new[-1:], [above])
        self.replace_nodes([node], new, {node.outputs[0]: new[-1].outputs[0]}, moved)
        return Rewritten(f"a Slice before {above.op_type}")

    def _known_shape(self, value: ir.Value | None) -> Shape:
        """Return the shape of a value; that of a scalar for an absent input.

        Raises:
            Skip: Not all its sizes are known.
        """
        if value is None:
            return ()
        sizes = self.sizes(value)
        known = [size for size in sizes or () if size is not None]
        if sizes is None or len(known) < len(sizes):
            raise Skip(f"not all sizes of {value.name!r} are known")
        return tuple(known)

    def _check_bytes(self, cuts: Mapping[int, Entries], shapes: Sequence[Shape], kept: Shape, whole: Shape) -> None:
        """Compare how many elements the operator and the Slices write before and after.

        Raises:
            Skip: They do not become fewer.
        """
        before = prod(whole) + prod(kept)
        after = prod(kept) + sum(prod(cut_shape(cut, shapes[i])) for i, cut in cuts.items())
        if after >= before:
            raise Skip("moving it would not reduce the bytes that are written")
