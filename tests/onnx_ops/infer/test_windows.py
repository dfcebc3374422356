"""Inferred sizes behind pools, ConvTranspose and Squeeze are those of onnxruntime, where onnx infers others."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from onnx_models import parse
from sessions import compute

import sliceport
from onnx_ops.model.io import from_proto
from onnx_ops.passes.value_info import infer_value_info

CEIL = [
    f"{op}<kernel_shape = [3], ceil_mode = 1, strides = [{stride}], {pads}>"
    for op, stride in product(("AveragePool", "MaxPool"), (2, 4))
    for pads in ("pads = [0, 0]", "pads = [2, 0]", "pads = [0, 2]", "pads = [1, 1]", 'auto_pad = "VALID"')
]
OPEN = [
    'MaxPool<kernel_shape = [3], dilations = [2], strides = [2], auto_pad = "SAME_LOWER">',
    'AveragePool<kernel_shape = [3], ceil_mode = 1, strides = [4], auto_pad = "SAME_UPPER">',
    'ConvTranspose<output_padding = [1], strides = [2], auto_pad = "SAME_UPPER">',
]
KNOWN = [
    'MaxPool<kernel_shape = [3], dilations = [1], strides = [2], auto_pad = "SAME_LOWER">',
    'ConvTranspose<dilations = [2], strides = [2], auto_pad = "SAME_UPPER">',
]


@pytest.mark.parametrize("node", [*CEIL, *OPEN, *KNOWN])
def test_sizes_behind_windows_are_those_of_onnxruntime(node: str) -> None:
    inputs = "x, w" if node.startswith("Conv") else "x"
    for size in range(3, 9):
        proto = parse(f"(float[1,1,{size}] x, float[1,1,3] w) => (float[a,b,c] y) {{ y = {node}({inputs}) }}", 19)
        model = from_proto(proto)
        inferred = infer_value_info(model).sizes[model.graph.outputs[0]][2]
        computed = compute(proto, x=np.ones((1, 1, size), np.float32), w=np.ones((1, 1, 3), np.float32))[0].shape[2]
        assert inferred == (None if node in OPEN else computed)


def test_last_element_behind_a_pool_with_ceil_mode_stays_the_last() -> None:
    nodes = (
        "p = MaxPool<kernel_shape = [3], strides = [3], pads = [0, 2], ceil_mode = 1>(x)  y = Slice(p, last, end, axes)"
    )
    constants = "int64[1] last = {-1}, int64[1] end = {9}, int64[1] axes = {2}"
    proto = parse(f"(float[1,1,9] x) => (float[a,b,c] y) <{constants}> {{ {nodes} }}")
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 9)
    hardened = sliceport.harden(proto, target="portable").model
    assert compute(hardened, x=x)[0].tolist() == compute(proto, x=x)[0].tolist() == [[[8]]]


@pytest.mark.parametrize("simplify", [False, True])
@pytest.mark.parametrize("opset", [9, 10, 11])
@pytest.mark.parametrize("axes", [[0, 2], [2, 0], [-1, -3], [2, 0, 0]], ids=str)
def test_sizes_behind_a_squeeze_do_not_depend_on_the_order_of_its_axes(
    axes: list[int], opset: int, simplify: bool
) -> None:
    nodes = f"s = Squeeze<axes = {axes}>(x)  z = Shape(s)  y = Gather(z, zero)"
    proto = parse(f"(float[1,4,1] x) => (int64 y) <int64 zero = {{0}}> {{ {nodes} }}", opset)
    rewritten = sliceport.rewrite(proto, simplify=simplify).model
    assert compute(rewritten, x=np.ones((1, 4, 1), np.float32)) == [4]
