"""Faults planted into real exports: diff finds each, and reduces it to at most five nodes.

`PLANTED_FAULTS=50 pytest tests/sliceport/search/test_planted_faults.py` plants fifty; by default a sample runs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from planted_faults import SWAPS, Fault, Faulty, exports, fuse, named, not_a_number, plant, swap

from onnx_ops.model.proto_walk import all_nodes, model_nodes
from sliceport.engines import side
from sliceport.engines.registry import model_engines
from sliceport.errors import SliceportError
from sliceport.search.diff import diff
from sliceport.search.report import DiffReport

COUNT = int(os.environ.get("PLANTED_FAULTS", "5"))
KINDS = ("engine", "two models", "nan", "fusion", "optimized", "body")
NESTED = ("dynamo_branches", "dynamo_while", "ts_branch_in_loop_19", "ts_functions_17")
MOST_NODES = 5


def engine_faults(model: onnx.ModelProto, kind: str, seed: int) -> Iterator[tuple[str, Fault]]:
    """Yield faults of an engine, with the name of a node, or the operators of a fusion."""
    nodes = list(model.graph.node)
    random.Random(seed).shuffle(nodes)
    makers = {name: node for node in nodes for name in node.output}
    for node in nodes:
        if kind == "nan" and node.op_type in ("Add", "Mul", "MatMul", "Softmax", "Tanh", "Sub"):
            yield node.name, not_a_number(node.name)
        if kind == "engine" and node.op_type in SWAPS:
            yield node.name, swap(node.name, SWAPS[node.op_type])
        if kind == "fusion" and node.op_type in SWAPS and node.input[0] in makers:
            first = makers[node.input[0]].op_type
            yield node.name, fuse(first, node.op_type, SWAPS[node.op_type])


def nested_names(model: onnx.ModelProto) -> set[str]:
    return {node.name for node in model_nodes(model)} - {node.name for node in model.graph.node}


def optimize(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxslim

    slim = onnxslim.slim(model)
    assert isinstance(slim, onnx.ModelProto)
    return slim


def try_faults(number: int, models: Path, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[str, DiffReport]]:
    """Yield the reports of faults of one kind, each with the name of its node, until one changes an output."""
    kind = KINDS[number % len(KINDS)]
    files = exports(models) if kind != "body" else [models / f"{name}.onnx" for name in NESTED]
    random.Random(number).shuffle(files)
    if kind == "body":
        files = [models / f"{NESTED[number // len(KINDS) % len(NESTED)]}.onnx"]
    before, after = folder / "a.onnx", folder / "b.onnx"
    for file in files:
        model = named(onnx.load(file))
        onnx.save(model, before)
        if kind in ("engine", "nan", "fusion"):
            for name, fault in list(engine_faults(model, kind, number))[:5]:
                known = {**model_engines(), "faulty": Faulty(fault)}
                patch.setattr(side, "model_engines", lambda known=known: known)
                yield name, diff(before, on="faulty", open_sizes="primes", budget=20)
        else:
            base = named(optimize(model)) if kind == "optimized" else model
            candidates = (one for one in plant(base, number) if kind != "body" or one[0] in nested_names(base))
            for name, changed in list(candidates)[:5]:
                onnx.save(changed, after)
                yield name, diff(before, after, open_sizes="primes", budget=20)


@pytest.mark.parametrize("number", range(COUNT))
def test_planted_fault_is_found(number: int, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = try_faults(number, models, tmp_path, monkeypatch)
    while True:
        try:
            name, report = next(faults)
        except SliceportError:  # the model does not run on these inputs
            faults = try_faults(number + 1000, models, tmp_path, monkeypatch)
            continue
        if not report.is_equal:
            break
    assert report.part is not None, (name, report.notes)
    found = [node.name for node in report.part.case.nodes]
    assert len(found) <= MOST_NODES
    assert any(one.endswith(name) or name.partition("_")[2] in one for one in found), (name, found)


def test_the_models_have_bodies_and_functions(models: Path) -> None:
    for name in NESTED:
        assert nested_names(named(onnx.load(models / f"{name}.onnx")))
        assert list(all_nodes(onnx.load(models / f"{name}.onnx").graph))
