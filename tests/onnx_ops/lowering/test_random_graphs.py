"""Random graphs of slicing nodes, one cutting what another left: siblings that tile an axis, chains, unused outputs.

onnxruntime computes every value inside the graph; the emulator runs what the graph was lowered to, every operator once,
at feature levels with different operators, and with views instead of copies.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from running import as_bytes, gathered, padded, run_call

import onnx_ops
from onnx_ops.runtime.onnxruntime_cpu import capture
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.slicing.node import Resolved

DTYPES: tuple[Any, ...] = (np.float32, np.int64, np.float16, np.int8, np.bool_, np.float64)
GRAPHS = 60
INT64_MAX = 2**63 - 1


@dataclass
class Graph:
    """A graph in the making.

    Attributes:
        shapes: The shape of each value that can be cut.
    """

    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def add_input(self) -> None:
        name = f"x{len(self.arrays)}"
        shape = tuple(self.random.integers(1, 6, self.random.integers(1, 5)).tolist())
        dtype = self.random.choice(DTYPES)
        count = int(np.prod(shape))
        bits = np.zeros(count, np.uint64) + self.random.permutation(count).astype(np.uint64)
        self.arrays[name] = (bits % 2 if dtype == np.bool_ else bits % 127).astype(dtype).reshape(shape)
        self.shapes[name] = shape

    def constant(self, values: list[int]) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add_slice(self, source: str, axes: list[int], bounds: list[tuple[int, int, int]]) -> None:
        starts, ends, steps = (self.constant(list(column)) for column in zip(*bounds, strict=True))
        name = f"v{len(self.nodes)}"
        inputs = [source, starts, ends, self.constant(axes), steps]
        self.nodes.append(helper.make_node("Slice", inputs, [name], f"n{len(self.nodes)}"))
        shape = list(self.shapes[source])
        for axis, (start, end, step) in zip(axes, bounds, strict=True):
            shape[axis] = len(range(shape[axis])[start : None if end == -INT64_MAX - 1 else end : step])
        self.shapes[name] = tuple(shape)

    def cuts(self, size: int) -> list[tuple[int, int]]:
        """Runs that tile an axis, some of them empty now and then."""
        inner = self.random.integers(0 if self.random.random() < 0.2 else 1, size + 1, self.random.integers(1, 4))
        return list(itertools.pairwise([0, *sorted(inner.tolist()), size]))

    def add_siblings(self, source: str, axis: int) -> None:
        runs = self.cuts(self.shapes[source][axis])
        for i in self.random.permutation(len(runs)):
            if self.random.random() < 0.9:
                self.add_slice(source, [axis], [(*runs[i], 1)])

    def add_any_slice(self, source: str) -> None:
        shape = self.shapes[source]
        axes = self.random.permutation(len(shape))[: self.random.integers(1, len(shape) + 1)].tolist()
        bounds = []
        for axis in axes:
            step = int(self.random.choice([1, 1, 2, -1, -2]))
            near = self.random.random() < 0.5
            start = int(self.random.integers(shape[axis])) if near else (0 if step > 0 else shape[axis] - 1)
            bounds.append((start, INT64_MAX if step > 0 else -INT64_MAX - 1, step))
        self.add_slice(source, axes, bounds)

    def add_split(self, source: str, axis: int) -> None:
        sizes = [stop - start for start, stop in self.cuts(self.shapes[source][axis])]
        number = len(self.nodes)
        names = ["" if self.random.random() < 0.1 else f"v{number}_{i}" for i in range(len(sizes))]
        self.nodes.append(helper.make_node("Split", [source, self.constant(sizes)], names, f"n{number}", axis=axis))
        for name, size in zip(names, sizes, strict=True):
            if name:
                self.shapes[name] = tuple(size if a == axis else n for a, n in enumerate(self.shapes[source]))

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in self.arrays.items()
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "random", inputs, results, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def random_graph(random: np.random.Generator) -> Graph:
    graph = Graph(random)
    for _ in range(random.integers(1, 3)):
        graph.add_input()
    for _ in range(random.integers(2, 9)):
        source = str(random.choice([name for name, shape in graph.shapes.items() if 0 not in shape]))
        axis = int(random.integers(len(graph.shapes[source])))
        kind = random.integers(3)
        if kind == 0:
            graph.add_siblings(source, axis)
        elif kind == 1:
            graph.add_any_slice(source)
        else:
            graph.add_split(source, axis)
    return graph


def computed(model: onnx.ModelProto, arrays: dict[str, np.ndarray], names: list[str]) -> dict[str, np.ndarray]:
    """Every value's bytes by onnxruntime, which crashes on outputs without a name."""
    named = onnx.ModelProto()
    named.CopyFrom(model)
    for node in named.graph.node:
        node.output[:] = [name or f"{node.name}_left_out_{i}" for i, name in enumerate(node.output)]
    values = {name: as_bytes(array) for name, array in arrays.items()}
    return values | {name: value.data for name, value in capture(named, arrays, names).items()}


def run_program(program: onnx_ops.Program, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What every output of the program holds, each operator run once on what the graph computed."""
    got = {call.id: run_call(call, values) for call in program.calls}
    found = {name: data for outputs in got.values() for name, data in outputs.items()}
    for lowered in program.nodes:
        cuts = lowered.node.cuts if isinstance(lowered.node, Resolved) else ()
        found |= {cut.output: np.zeros(0, np.uint8) for cut in cuts if cut.region.is_empty}
        for alias in lowered.aliases:
            data = values[alias.value][alias.byte_offset :]
            found[alias.output] = data if alias.tensor is None else gathered(padded(data, 16), alias.tensor)
    return found


@pytest.mark.parametrize("views", [False, True], ids=["copies", "views"])
@pytest.mark.parametrize("level", ["6.4", "3.0", "2.1", "1.0"])
def test_bit_equal(level: str, views: bool) -> None:
    random = np.random.default_rng(int(float(level) * 10) + views)
    verdicts, shared = set(), 0
    for _ in range(GRAPHS):
        graph = random_graph(random)
        made = [name for node in graph.nodes for name in node.output if name]
        if not made:
            continue
        model = graph.model([name for name in made if random.random() < 0.5] or made[-1:])
        values = computed(model, graph.arrays, made)
        program = onnx_ops.lower(model, feature_level=level, views=views)
        found = run_program(program, values)
        for lowered in program.nodes:
            verdicts.add(lowered.verdict)
            shared += bool(lowered.node.op_type == "Slice" and lowered.calls and len(lowered.calls[0].outputs) > 1)
            if lowered.reason is not None:
                assert FeatureLevel.parse(level) < FeatureLevel.V3_0
                assert lowered.reason.code in ("feature_level", "unaligned_type", "rank_limit")
                continue
            for cut in lowered.resolved.cuts:
                if cut.used:
                    assert cut.region.output_shape == graph.shapes[cut.output]
                    assert np.array_equal(found[cut.output][: values[cut.output].size], values[cut.output])
    assert {"lowered", "alias", "empty"} <= verdicts
    assert (shared > 0) == (not views)
