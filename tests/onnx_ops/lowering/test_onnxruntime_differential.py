"""Thousands of random nodes: our lowering on the emulator against onnxruntime's CPU provider, bit for bit.

Many nodes go into one model, so that sessions stay few; each has its own input and parameters. What onnxruntime is
known to do otherwise (`sliceport.defects.onnxruntime`) is left out of the random parameters.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from running import as_bytes, run_node

import onnx_ops
from onnx_ops.runtime.onnxruntime_cpu import capture
from sliceport.defects.onnxruntime import INT32_MAX, INT64_MAX

DTYPES = [
    np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
    np.uint64, np.bool_, ml_dtypes.bfloat16,
]  # fmt: skip
INDEX_TYPES: list[Any] = [np.int32, np.int64]
NODES = 250


def distinct(random: np.random.Generator, shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
    size = int(np.prod(shape))
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    raw = random.permutation(np.arange(1, size + 1)).astype(f"u{dtype.itemsize}")  # distinct bit patterns, none a NaN
    return raw.view(dtype).reshape(shape)


def bound(random: np.random.Generator, size: int) -> int:
    far = [INT64_MAX, -INT64_MAX - 1, INT32_MAX, -INT32_MAX - 1]
    return int(random.choice(far)) if random.random() < 0.15 else int(random.integers(-2 * size - 2, 2 * size + 3))


def random_slice(random: np.random.Generator, shape: tuple[int, ...], opset: int) -> dict[str, list[int]]:
    axes = sorted(random.choice(len(shape), random.integers(1, len(shape) + 1), replace=False).tolist())
    steps = [int(random.choice([1, 1, 1, 2, 3, -1, -1, -2])) if opset >= 10 else 1 for _ in axes]
    ends = [bound(random, shape[axis]) for axis in axes]
    ends = [-INT64_MAX - 1 if s < 0 and e in (INT32_MAX, INT64_MAX) else e for s, e in zip(steps, ends, strict=True)]
    starts = [bound(random, shape[axis]) for axis in axes]
    spelled = [int(axis - len(shape)) if random.random() < 0.3 and opset >= 10 else int(axis) for axis in axes]
    parameters = {"starts": starts, "ends": ends, "axes": spelled, "steps": steps}
    if axes == list(range(len(axes))) and random.random() < 0.3:
        del parameters["axes"]
        if opset < 10 or steps == [1] * len(steps):
            del parameters["steps"]
    elif opset < 10:
        del parameters["steps"]
    return parameters


def many_nodes(op_type: str, opset: int, seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    nodes, inputs, initializers, arrays = [], [], [], {}
    parameters: dict[str, list[int]]
    attributes: dict[str, Any]
    for i in range(NODES):
        low = 0 if random.random() < 0.1 else 1
        shape = tuple(random.integers(low, 6, random.integers(1, 7)).tolist())
        dtype = DTYPES[i % (len(DTYPES) if opset >= 13 else len(DTYPES) - 1)]
        x = f"x{i}"
        arrays[x] = distinct(random, shape, dtype)
        inputs.append(helper.make_tensor_value_info(x, ir.DataType.from_numpy(arrays[x].dtype).value, shape))
        if op_type == "Slice":
            parameters, outputs, attributes = random_slice(random, shape, opset), [f"y{i}"], {}
        else:
            axis = int(random.integers(0, len(shape)))
            cuts = np.sort(random.integers(0, shape[axis] + 1, random.integers(0, 4))).tolist()
            parameters = {"split": np.diff([0, *cuts, shape[axis]]).tolist()}
            outputs = [f"y{i}_{k}" for k in range(len(parameters["split"]))]
            attributes = {"axis": axis - len(shape) if random.random() < 0.3 and opset >= 11 else axis}
            if opset >= 18 and random.random() < 0.3 and shape[axis]:
                parts = int(random.integers(1, shape[axis] + 1))
                if shape[axis] - -(-shape[axis] // parts) * (parts - 1) > 0:
                    parameters, attributes["num_outputs"] = {}, parts
                    outputs = [f"y{i}_{k}" for k in range(parts)]
        if opset < (10 if op_type == "Slice" else 13):
            names = []
            attributes |= parameters
        else:
            order = ("starts", "ends", "axes", "steps") if op_type == "Slice" else ("split",)
            names = [f"{name}{i}" if name in parameters else "" for name in order]
            index_type: npt.DTypeLike = np.int64
            if op_type == "Slice" and all(-(2**31) <= v < 2**31 for values in parameters.values() for v in values):
                index_type = random.choice(INDEX_TYPES)
            for name, values in parameters.items():
                initializers.append(numpy_helper.from_array(np.array(values, index_type), f"{name}{i}"))
        while names and not names[-1]:
            names.pop()
        nodes.append(helper.make_node(op_type, [x, *names], outputs, f"node{i}", **attributes))
    results = [helper.make_empty_tensor_value_info(name) for node in nodes for name in node.output]
    graph = helper.make_graph(nodes, "many", inputs, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), arrays


@pytest.mark.parametrize(
    ("op_type", "opset"),
    [*(("Slice", opset) for opset in (9, 10, 11, 13, 20)), *(("Split", opset) for opset in (7, 11, 13, 18, 20))],
)
@pytest.mark.parametrize("seed", range(2))
def test_bit_equal(op_type: str, opset: int, seed: int) -> None:
    model, arrays = many_nodes(op_type, opset, seed)
    program = onnx_ops.lower(model)
    names = [name for node in model.graph.node for name in node.output]
    expected = capture(model, arrays, names)
    assert len(program.nodes) == NODES
    verdicts = set()
    for lowered in program.nodes:
        assert lowered.reason is None
        verdicts.add(lowered.verdict)
        got = run_node(lowered, as_bytes(arrays[lowered.node.input]))
        for cut in lowered.resolved.cuts:
            want = expected[cut.output]
            assert cut.region.output_shape == want.shape, lowered.node
            assert np.array_equal(got[cut.output][: want.data.size], want.data), lowered.node
    assert verdicts == {"lowered", "alias", "empty"}
