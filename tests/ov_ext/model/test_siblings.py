"""Random graphs in which several StridedSlices read one Concat: the CPU plugin computes some of them wrongly.

Its pass EliminateConcatStridedSlice needs all of these nodes, so a part that leads to one output is right. `diff` finds
the nodes that fail together, and none of them can be removed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import openvino as ov
import pytest
from amounts import amount
from openvino import opset8

from ov_ext.running.ov_graph import OpenVINOGraph
from sliceport.engines.failure import Failure
from sliceport.engines.registry import model_engines
from sliceport.engines.side import Side
from sliceport.search.case import Case, compute, make_case
from sliceport.search.diff import diff
from sliceport.search.graph import find_boundary
from sliceport.verdict.difference import Tolerances

FAILING = 6
"""The number of graphs to find a part in, of those that the plugin computes wrongly."""


def build(seed: int) -> ov.Model:
    """Return a Concat of parameters and StridedSlices of it, each followed by a few nodes."""
    draw = random.Random(seed)
    sizes = [draw.choice((1, 2, 3, 4)) for _ in range(draw.choice((2, 3)))]
    parameters = [opset8.parameter([size], np.float32) for size in sizes]
    joined = opset8.concat([opset8.relu(each) if draw.random() < 0.5 else each for each in parameters], 0)
    bounds = np.cumsum([0, *sizes])
    results = []
    for _ in range(draw.choice((2, 3, 3))):
        i, step = draw.randrange(len(sizes)), draw.choice((1, 1, 2))
        lists = [np.array([each]) for each in (bounds[i], bounds[i + 1], step)]
        node = opset8.strided_slice(joined, *lists, [0], [0])
        for _ in range(draw.choice((0, 1, 2))):
            node = draw.choice((opset8.negative, opset8.relu, opset8.exp))(node)
        results.append(opset8.result(node))
    return ov.Model(results, parameters, "siblings")


def run(name: str, case: Case) -> Any:
    return Side(model_engines()[name], {}).try_run(case.model, case.inputs)


def differing(case: Case) -> Sequence[str]:
    """Return the outputs of a case that the plugin computes wrongly."""
    actual, expected = run("openvino-cpu", case), run("openvino", case)
    assert not isinstance(actual, Failure)
    assert not isinstance(expected, Failure)
    return [each.name for each in case.compare(actual, expected, Tolerances().of_inner) if each.kind]


def without(case: Case, removed: int) -> Case | None:
    """Return a case without a node, whose inputs become outputs, and whose outputs become inputs."""
    numbers = [number for number in case.numbers if number != removed]
    written = {name for number in numbers for name in case.graph.nodes[number].writes}
    names = dict.fromkeys((*case.outputs, *case.graph.nodes[removed].reads))
    boundary = find_boundary(case.graph, numbers)
    values: Mapping[str, Any] | None = compute(case.graph, Side(model_engines()["openvino"], {}), case.values, boundary)
    part = (
        None if values is None else make_case(case.graph, numbers, [name for name in names if name in written], values)
    )
    return part and replace(part, has_fixed_shapes=case.has_fixed_shapes)


def is_wrong(model: ov.Model) -> bool:
    graph = OpenVINOGraph(model)
    inputs = graph.make_inputs({}, {}, 0, 0)
    return bool(differing(Case(graph, tuple(range(len(graph.nodes))), tuple(graph.outputs), inputs, {})))


def test_siblings_that_fail_together_are_found_and_all_are_needed() -> None:
    wrong = islice((model for model in map(build, range(400)) if is_wrong(model)), amount(FAILING))
    checked = 0
    for model in wrong:
        report = diff(model, on="openvino-cpu")
        assert report.notes == ()
        for part in report.parts:
            kinds = [node.op_type for node in part.case.nodes]
            assert kinds.count("StridedSlice") == 2
            assert part.case.is_fusion
            assert differing(part.case) == [part.case.failure.output]
            smaller = [without(part.case, number) for number in part.case.numbers]
            assert not any(differing(case) for case in smaller if case is not None and case.outputs)
        checked += 1
    if not checked:
        pytest.skip("this openvino computes all of these graphs correctly")
