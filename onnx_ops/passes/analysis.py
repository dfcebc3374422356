"""Facts about a model that passes share, and early checks whether a model has anything for the passes."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx_ir as ir

from onnx_ops.model.domains import STANDARD_DOMAINS
from onnx_ops.model.nodes import MATMULS, is_strided_slice
from onnx_ops.model.proto_walk import model_nodes
from onnx_ops.model.views import OperatorView
from onnx_ops.model.walk import rewritable_nodes
from onnx_ops.passes.siblings import Siblings, find_siblings
from onnx_ops.passes.value_info import infer_value_info

CUTTING = ("Slice", "Split", "Gather")
"""The standard operators that select elements of a tensor."""
REWRITTEN = frozenset((*CUTTING, "StridedSlice"))
"""The passes of `rewrite` find nothing in a model without any of these operators."""
HARDENED = ("ConstantOfShape", "ConvTranspose", "Einsum", "Loop", *MATMULS)
"""Further operators that `harden_for_directml` looks at. It also looks at each Reshape with the attribute allowzero."""
_COLLECTED = REWRITTEN | {"Concat", "Squeeze", "Unsqueeze", "Identity", "Reshape"} | set(HARDENED)
"""The operators that some pass asks `Analysis.nodes_of` for."""


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
        self._nodes: list[tuple[ir.Node, int]] | None = None
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

        The operators must be in `_COLLECTED`. The nodes are cached until `forget` is called. Nodes that were removed
        from the model in the meantime are still returned, and have no graph.
        """
        if self._nodes is None:
            # StridedSlice is an operator of the domain of ov_ext. All other operators in `_COLLECTED` are standard.
            self._nodes = [
                (node, opset)
                for node, opset in rewritable_nodes(self.model)
                if node.op_type in _COLLECTED and (node.domain in STANDARD_DOMAINS or is_strided_slice(node))
            ]
        return [(node, opset) for node, opset in self._nodes if node.op_type in op_types]

    def forget(self) -> None:
        """Clear `is_current` and the cached siblings and nodes, because the model has changed. Keep `value_info`."""
        self._siblings = self._nodes = None
        self.is_current = False


def may_need_rewriting(nodes: Iterable[OperatorView]) -> bool:
    """Return whether `rewrite` may change or report one of the nodes of a model."""
    return any(node.op_type in REWRITTEN for node in nodes)


def may_need_hardening(proto: onnx.ModelProto) -> bool:
    """Return whether `harden_for_directml` may change or report a node of a well-formed model."""
    dims = (dim for value in proto.graph.input for dim in value.type.tensor_type.shape.dim)
    # DeclaredSizesForDirectMLPass changes only models with an open size in an input.
    return any(not dim.HasField("dim_value") for dim in dims) or any(
        node.op_type in (*REWRITTEN, *HARDENED)
        or (node.op_type == "Reshape" and any(attribute.name == "allowzero" for attribute in node.attribute))
        for node in model_nodes(proto)
    )


def may_need_portable_form(proto: onnx.ModelProto) -> bool:
    """Return whether a well-formed model has slicing that `harden_portably` may change or report.

    Callers leave a model without slicing as it is, even if `harden_portably` could remove empty operands of a Concat.
    """
    return any(node.op_type in ("Slice", "Split", "StridedSlice") for node in model_nodes(proto))
