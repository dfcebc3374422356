"""Types that a model declares for its values, and copies of them without the sizes that may be wrong.

Many models are exported for one batch size, and then only the shapes of their inputs are changed. Such a model declares
numbers for sizes that its inputs leave open. Exporters that run an example also declare the sizes of its data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

import onnx

from onnx_ops.infer.facts import Facts, read_type, without_element_shapes
from onnx_ops.model.views import Dims

# Operators of ONNX and onnxruntime whose output sizes depend on elements of an input. If there are several inputs, the
# elements of the first input need not be known.
_SIZED_BY_ELEMENTS = frozenset(
    "AffineGrid BeamSearch BifurcationDetector BlackmanWindow CenterCropPad Col2Im Compress ConstantOfShape "  # noqa: SIM905
    "ConvTransposeWithDynamicPads CropAndResize DFT DynamicTimeWarping Expand GreedySearch HammingWindow HannWindow "
    "ImageDecoder MaxUnpool MelWeightMatrix NonMaxSuppression NonZero OneHot Pad Range RemovePadding Reshape Resize "
    "STFT Sampling Slice Split StringNormalizer StringSplit Tile Tokenizer TopK Unique Upsample".split()
)


class Trust(Enum):
    """Values whose declared numbers a propagation uses, besides those of the inputs of the model.

    In functions that are not inlined, `ALL` has the same effect as `CUSTOM`. See also `holds_for_all_sizes`.
    """

    ALL = "all values"
    CUSTOM = "outputs of operators without inference, such as custom operators"
    NONE = "no values"


def fill_in_declared(facts: Facts, declared: onnx.TypeProto, *, uses_numbers: bool) -> Facts:
    """Return `facts` with missing parts taken from the declared type. Declared sizes replace inferred symbols.

    If `uses_numbers` is false, declared numbers and the shapes of a sequence's elements are left out.
    """
    declared_facts = read_type(declared.SerializeToString())
    if not uses_numbers:
        declared_facts.non_tensor_type = without_element_shapes(declared_facts.non_tensor_type)
        if declared_facts.dims is not None:
            declared_facts.dims = tuple([None if isinstance(dim, int) else dim for dim in declared_facts.dims])
    if not (facts.element or facts.non_tensor_type):
        facts = replace(facts, element=declared_facts.element, non_tensor_type=declared_facts.non_tensor_type)
    if declared_facts.dims is None or facts.non_tensor_type:
        return facts
    if facts.dims is None:
        dims: Dims = declared_facts.dims
    elif len(facts.dims) == len(declared_facts.dims):
        pairs = zip(facts.dims, declared_facts.dims, strict=True)
        dims = tuple(
            [inferred if isinstance(inferred, int) or written is None else written for inferred, written in pairs]
        )
    else:
        return facts  # the ranks contradict each other, so the declared shape is ignored
    return replace(facts, dims=dims)


def holds_for_all_sizes(declared: onnx.TypeProto, node: onnx.NodeProto, inputs: Sequence[Facts]) -> bool:
    """Return whether to use the numbers that `declared` has for sizes of an output whose operator cannot be inferred.

    The ranks of the node's inputs must be known, and the declared type must have the symbol of each of their open
    sizes. A tool that infers the shapes of the operator writes these symbols. If a symbol is missing, the numbers may
    come from an example, or an axis of the model's inputs was opened later. If elements decide the sizes (see
    `_SIZED_BY_ELEMENTS`), these elements must be known.
    """
    symbols = {dim.dim_param for dim in declared.tensor_type.shape.dim}
    present = [facts for name, facts in zip(node.input, inputs, strict=True) if name]
    for facts in present:
        if facts.dims is None or any(not isinstance(dim, int) and dim not in symbols for dim in facts.dims):
            return False
    if node.op_type not in _SIZED_BY_ELEMENTS:
        return True
    # The first of several inputs is the data. A single input decides the sizes itself, as for NonZero, but not for
    # Reshape-1, which has its target in an attribute.
    parameters = present if len(present) == 1 and node.op_type != "Reshape" else present[1:]
    return all(facts.data is not None for facts in parameters)


def name_open_sizes(graph: onnx.GraphProto) -> frozenset[str]:
    """Give a symbol to each size of the inputs that has neither a number nor a symbol, and return these symbols."""
    symbols = set()
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") and not dim.dim_param:
                dim.dim_param = f"axis {axis} of {value.name}"
                symbols.add(dim.dim_param)
    return frozenset(symbols)
