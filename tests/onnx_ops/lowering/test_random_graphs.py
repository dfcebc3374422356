"""Random graphs of slicing nodes, cutting the outputs of others: siblings that tile an axis, chains, unused outputs.

onnx's evaluator computes every value inside the graph. The emulator runs the lowered graph, every operator once, at
feature levels with different operators, and with views instead of copies.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from fuzz import drawing
from fuzz.graph_builder import Builder, numbers
from running import as_bytes, gathered, padded, run_call

import onnx_ops
import sliceport
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.slicing.node import Resolved

DTYPES: tuple[Any, ...] = (np.float32, np.int64, np.float16, np.int8, np.bool_, np.float64)
GRAPHS = 60


class CutsBuilder(Builder):
    """A builder of graphs whose bounds every engine reads alike."""

    def bounds(self, size: int) -> tuple[int, int, int]:
        step = self.random.choice((1, 1, 2, -1, -2))
        start = self.random.choice((0 if step > 0 else -1, self.random.randint(-size, max(size - 1, 0))))
        return start, drawing.INT64_MAX if step > 0 else drawing.INT64_MIN, step


def random_graph(random: Random) -> CutsBuilder:
    builder = CutsBuilder(random, opset=18, makers=("slice", "split", "siblings"), constants=("initializer", "node"))
    dtype = random.choice(DTYPES)
    for i in range(random.randint(1, 2)):
        array = numbers([random.randint(1, 6) for _ in range(random.randint(1, 4))])
        builder.add_input(f"x{i}", (array % (2 if dtype == np.bool_ else 127)).astype(dtype))
    for _ in range(random.randint(2, 9)):
        builder.add_something()
    read = {name for node in builder.nodes for name in node.input}
    for node in builder.nodes:
        if node.op_type == "Split":
            node.output[:] = [name if name in read or random.random() < 0.9 else "" for name in node.output]
    return builder


def run_program(program: onnx_ops.Program, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run each operator once on the values of the graph, and return every output of the program."""
    outputs = {name: data for call in program.calls for name, data in run_call(call, values).items()}
    for lowered in program.nodes:
        cuts = lowered.node.cuts if isinstance(lowered.node, Resolved) else ()
        outputs |= {cut.output: np.zeros(0, np.uint8) for cut in cuts if cut.region.is_empty}
        for alias in lowered.aliases:
            data = values[alias.value][alias.byte_offset :]
            outputs[alias.output] = data if alias.tensor is None else gathered(padded(data, 16), alias.tensor)
    return outputs


@pytest.mark.parametrize("views", [False, True], ids=["copies", "views"])
@pytest.mark.parametrize("level", ["6.4", "3.0", "2.1", "1.0"])
def test_lowered_graphs_compute_the_same_bits(level: str, views: bool) -> None:
    verdicts, shared = set(), 0
    for number in range(GRAPHS):
        random = Random(f"{level} {views} {number}")
        graph = random_graph(random)
        cuts = [name for node in graph.nodes for name in node.output if name in graph.data]
        if not cuts:
            continue
        model = graph.model([name for name in cuts if random.random() < 0.5] or cuts[-1:])
        values = {name: as_bytes(graph.values[name]) for name in graph.data}
        program = sliceport.lower(model, feature_level=level, views=views)
        outputs = run_program(program, values)
        for lowered in program.nodes:
            verdicts.add(lowered.verdict)
            shared += bool(lowered.node.op_type == "Slice" and lowered.calls and len(lowered.calls[0].outputs) > 1)
            if lowered.reason is not None:
                assert FeatureLevel.parse(level) < FeatureLevel.V3_0
                assert lowered.reason.code in ("feature_level", "unaligned_type", "rank_limit")
                continue
            for cut in lowered.resolved.cuts:
                if cut.used:
                    assert cut.region.output_shape == graph.values[cut.output].shape
                    assert np.array_equal(outputs[cut.output][: values[cut.output].size], values[cut.output])
    assert {"lowered", "alias", "empty"} <= verdicts
    assert (shared > 0) == (not views)
