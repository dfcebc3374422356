"""Facts about a model that passes share, and early checks whether a model has anything for the passes."""

from __future__ import annotations

from operator import itemgetter

import onnx
import onnx_ir as ir

from onnx_ops.model.domains import STANDARD_DOMAINS
from onnx_ops.model.nodes import MATMULS, is_strided_slice
from onnx_ops.model.proto_walk import model_nodes
from onnx_ops.model.walk import rewritable_nodes
from onnx_ops.passes.siblings import Siblings, find_siblings
from onnx_ops.passes.value_info import infer_value_info

CUTTING = ("Slice", "Split", "Gather")
"""The standard operators that select elements of a tensor."""
SELECTING = frozenset((*CUTTING, "StridedSlice"))
"""The operators that `rewrite` counts, and that `harden_for_directml` looks at."""
HARDENED = ("ConstantOfShape", "ConvTranspose", "Einsum", "Loop", *MATMULS)
"""Further operators that `harden_for_directml` looks at. It also looks at each Reshape with the attribute allowzero."""


class Analysis:
    """Facts inferred for a model. Inference marks contested nodes, which engines read differently, in the model.

    Attributes:
        model: The model.
        value_info: Sizes, types and elements. A pass also records the sizes and types of the values that it creates.
        is_current: Whether the model has not changed since `value_info` was inferred.
    """

    def __init__(self, model: ir.Model, *, folding: bool = False) -> None:
        """Infer the facts about `model`. See `infer_value_info` for `folding`."""
        self.model = model
        self._folding = folding
        self._siblings: Siblings | None = None
        self._nodes: dict[str, list[tuple[int, ir.Node, int]]] | None = None
        self.infer()

    def infer(self) -> None:
        """Infer `value_info` again, from the current nodes of the model. See `infer_value_info` for the errors."""
        self.value_info = infer_value_info(self.model, folding=self._folding)
        self.forget()
        self.is_current = True

    @property
    def siblings(self) -> Siblings:
        """The Slices, Splits and Gathers that cut the same value along the same axis. Cached until `forget`."""
        if self._siblings is None:
            self._siblings = find_siblings(self.nodes_of(*CUTTING), self.value_info)
        return self._siblings

    def nodes_of(self, *op_types: str) -> list[tuple[ir.Node, int]]:
        """Return the nodes of these operators, each with the version of its standard operator set.

        The operators are standard ones and StridedSlice, an operator of the domain of ov_ext. The nodes are cached
        until `forget` is called. Nodes that were removed from the model in the meantime are still returned, and have no
        graph.
        """
        if self._nodes is None:
            self._nodes = {}
            for position, (node, opset) in enumerate(rewritable_nodes(self.model)):
                if node.domain in STANDARD_DOMAINS or is_strided_slice(node):
                    self._nodes.setdefault(node.op_type, []).append((position, node, opset))
        found = [entry for op_type in set(op_types) for entry in self._nodes.get(op_type, ())]
        return [(node, opset) for _, node, opset in sorted(found, key=itemgetter(0))]

    def forget(self) -> None:
        """Clear `is_current` and the cached siblings and nodes, because the model has changed. Keep `value_info`."""
        self._siblings = self._nodes = None
        self.is_current = False


def may_need_hardening(proto: onnx.ModelProto) -> bool:
    """Return whether `harden_for_directml` may change or report a node of a well-formed model."""
    dims = (dim for value in proto.graph.input for dim in value.type.tensor_type.shape.dim)
    # DeclaredSizesForDirectMLPass changes only models with an open size in an input.
    return any(not dim.HasField("dim_value") for dim in dims) or any(
        node.op_type in (*SELECTING, *HARDENED)
        or (node.op_type == "Reshape" and any(attribute.name == "allowzero" for attribute in node.attribute))
        for node in model_nodes(proto)
    )


def may_need_portable_form(proto: onnx.ModelProto) -> bool:
    """Return whether a well-formed model has slicing that `harden_portably` may change or report.

    Callers leave a model without slicing as it is, even if `harden_portably` could remove empty operands of a Concat.
    """
    return any(node.op_type in ("Slice", "Split", "StridedSlice") for node in model_nodes(proto))
