"""Time and memory of commands on files of many nodes.

A command runs on models of several kinds, each in a process of its own. A row has the size of the file, and for each
checkout the processor and wall time of the command with its workers, the memory of the largest process so far, and the
ratio of the processor time to that of the first checkout. If a command fails, the end of its errors is printed.

    python benchmarks/large_models.py [--nodes 100000] [--command rewrite] [--checkout OTHER] [KIND ...]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Builder = Callable[[int], onnx.ModelProto]


def _finish(
    nodes: list[onnx.NodeProto], last: str, constants: dict[str, np.ndarray] | None = None, **extra: object
) -> onnx.ModelProto:
    """Return a model of nodes that compute the output `last` from the input `x`, whose shape is [n, 64].

    `constants` are initializers by name, and `extra` are arguments of `make_model`.
    """
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, ir_version=9, opset_imports=imports, **extra)


def _join(ends: list[str]) -> list[onnx.NodeProto]:
    """Return Concats of 50 values each, and Concats of their outputs, until one value remains."""
    nodes: list[onnx.NodeProto] = []
    while len(ends) > 1:
        groups, ends = [ends[i : i + 50] for i in range(0, len(ends), 50)], []
        for group in groups:
            name = "y" if len(groups) == 1 else f"y{len(nodes)}"
            nodes.append(helper.make_node("Concat", group, [name], name=name, axis=1))
            ends.append(name)
    return nodes


def _bounds(*numbers: int) -> dict[str, np.ndarray]:
    """Return constants for starts, ends, axes and steps: `c3` is [3]."""
    return {f"c{number}": np.array([number], np.int64) for number in numbers}


def elementwise(count: int) -> onnx.ModelProto:
    """Return a chain of unary and binary operators, which no pass changes."""
    nodes, last = [], "x"
    for i in range(count):
        inputs = [last] if i % 2 else [last, "x"]
        nodes.append(helper.make_node("Relu" if i % 2 else "Add", inputs, [f"v{i}"], name=f"n{i}"))
        last = f"v{i}"
    return _finish(nodes, last)


def weights(count: int) -> onnx.ModelProto:
    """Return a chain in which every node has a small constant of its own."""
    nodes, constants, last = [], {}, "x"
    for i in range(count):
        constants[f"w{i}"] = np.array([i % 7 + 0.5], np.float32)
        nodes.append(helper.make_node("Mul", [last, f"w{i}"], [f"v{i}"], name=f"n{i}"))
        last = f"v{i}"
    return _finish(nodes, last, constants)


def slices(count: int) -> onnx.ModelProto:
    """Return overlapping Slices of one input, each followed by a Relu, and a Concat."""
    nodes, constants, ends = [], _bounds(*range(65)), []
    for i in range(count // 2):
        start = i % 32
        inputs = ["x", f"c{start}", f"c{start + 1 + i % 31}", "c1"]
        nodes.append(helper.make_node("Slice", inputs, [f"s{i}"], name=f"s{i}"))
        nodes.append(helper.make_node("Relu", [f"s{i}"], [f"v{i}"], name=f"n{i}"))
        ends.append(f"v{i}")
    return _finish([*nodes, *_join(ends)], "y", constants)


def kept(count: int) -> onnx.ModelProto:
    """Return Slices that no pass changes, each of the output of another Relu."""
    nodes, ends, last = [], [], "x"
    for i in range(count // 2):
        nodes.append(helper.make_node("Relu", [last], [f"v{i}"], name=f"n{i}"))
        last = f"v{i}"
        nodes.append(helper.make_node("Slice", [last, "c1", "c3", "c1"], [f"s{i}"], name=f"s{i}"))
        ends.append(f"s{i}")
    return _finish([*nodes, *_join(ends)], "y", _bounds(1, 3))


def chains(count: int) -> onnx.ModelProto:
    """Return chains of four Slices, which become one, each after a Relu of a chain of Relus; and a Concat."""
    nodes, ends = [], []
    for i in range(count // 5):
        last = "x" if i == 0 else f"r{i - 1}"
        nodes.append(helper.make_node("Relu", [last], [f"r{i}"], name=f"r{i}"))
        last = f"r{i}"
        for j in range(4):
            inputs = [last, "c1", "c60" if j == 0 else "c50", "c1"]
            nodes.append(helper.make_node("Slice", inputs, [f"s{i}_{j}"], name=f"s{i}_{j}"))
            last = f"s{i}_{j}"
        ends.append(last)
    return _finish([*nodes, *_join(ends)], "y", _bounds(1, 50, 60))


def splits(count: int) -> onnx.ModelProto:
    """Return a chain of Splits into halves, each with a Concat of the halves in reverse order."""
    nodes, last = [], "x"
    constants = {"halves": np.array([32, 32], np.int64)}
    for i in range(count // 2):
        nodes.append(helper.make_node("Split", [last, "halves"], [f"a{i}", f"b{i}"], name=f"p{i}", axis=1))
        nodes.append(helper.make_node("Concat", [f"b{i}", f"a{i}"], [f"v{i}"], name=f"n{i}", axis=1))
        last = f"v{i}"
    return _finish(nodes, last, constants)


def siblings(count: int) -> onnx.ModelProto:
    """Return many pairs of Slices that are halves, which become a Split, each with a Concat."""
    nodes, last = [], "x"
    for i in range(count // 3):
        nodes.append(helper.make_node("Slice", [last, "c0", "c32", "c1"], [f"a{i}"], name=f"a{i}"))
        nodes.append(helper.make_node("Slice", [last, "c32", "c64", "c1"], [f"b{i}"], name=f"b{i}"))
        nodes.append(helper.make_node("Concat", [f"b{i}", f"a{i}"], [f"v{i}"], name=f"n{i}", axis=1))
        last = f"v{i}"
    return _finish(nodes, last, _bounds(0, 1, 32, 64))


def subgraphs(count: int) -> onnx.ModelProto:
    """Return an If for every ten nodes, with a Slice and arithmetic in each branch."""
    nodes, last = [helper.make_node("ReduceMax", ["x"], ["top"], name="top", keepdims=0)], "x"
    nodes.append(helper.make_node("Cast", ["top"], ["cond"], name="cond", to=TensorProto.BOOL))
    for i in range(count // 10):
        branches = {}
        for branch in ("then", "else"):
            inner, value = [], last
            for j in range(3):
                name = f"{branch}{i}_{j}"
                inner.append(helper.make_node("Neg" if j else "Relu", [value], [name], name=name))
                value = name
            name = f"{branch}{i}_s"
            inner.append(helper.make_node("Slice", [value, "c0", "c64", "c1"], [name], name=name))
            out = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            branches[f"{branch}_branch"] = helper.make_graph(inner, branch, [], [out])
        nodes.append(helper.make_node("If", ["cond"], [f"i{i}"], name=f"i{i}", **branches))
        nodes.append(helper.make_node("Add", [f"i{i}", "x"], [f"v{i}"], name=f"n{i}"))
        last = f"v{i}"
    return _finish(nodes, last, _bounds(0, 1, 64))


def functions(count: int) -> onnx.ModelProto:
    """Return functions of ten nodes, a Slice among them, each called once."""
    nodes, definitions, last = [], [], "x"
    imports = [helper.make_opsetid("", 18)]
    for i in range(count // 11):
        body, value = [], "a"
        for j in range(7):
            body.append(helper.make_node("Neg", [value], [f"t{j}"], name=f"t{j}"))
            value = f"t{j}"
        for name, number in (("lo", 0), ("hi", 64)):
            body.append(helper.make_node("Constant", [], [name], name=name, value_ints=[number]))
        body.append(helper.make_node("Slice", [value, "lo", "hi", "lo"], ["b"], name="s"))
        definitions.append(helper.make_function("local", f"F{i}", ["a"], ["b"], body, imports))
        nodes.append(helper.make_node(f"F{i}", [last], [f"v{i}"], name=f"n{i}", domain="local"))
        last = f"v{i}"
    return _finish(nodes, last, functions=definitions)


def calls(count: int) -> onnx.ModelProto:
    """Return many calls of one function of ten nodes, a Slice among them."""
    model = functions(11)
    (function,) = model.functions
    nodes, last = [], "x"
    for i in range(count):
        nodes.append(helper.make_node("F0", [last], [f"v{i}"], name=f"n{i}", domain="local"))
        last = f"v{i}"
    return _finish(nodes, last, functions=[function])


def constants(count: int) -> onnx.ModelProto:
    """Return a chain of Adds, each with a Constant node of its own."""
    nodes, last = [], "x"
    for i in range(count // 2):
        nodes.append(helper.make_node("Constant", [], [f"k{i}"], name=f"k{i}", value_float=i + 0.5))
        nodes.append(helper.make_node("Add", [last, f"k{i}"], [f"v{i}"], name=f"n{i}"))
        last = f"v{i}"
    return _finish(nodes, last)


def shapes(count: int) -> onnx.ModelProto:
    """Return reshapes of open sizes as exporters write them: Shape, Gather, Unsqueeze, Concat, Reshape."""
    nodes, last = [], "x"
    arrays = {"zero": np.array(0, np.int64), "c0": np.array([0], np.int64), "c64": np.array([64], np.int64)}
    for i in range(count // 5):
        nodes.append(helper.make_node("Shape", [last], [f"a{i}"], name=f"a{i}"))
        nodes.append(helper.make_node("Gather", [f"a{i}", "zero"], [f"b{i}"], name=f"b{i}"))
        nodes.append(helper.make_node("Unsqueeze", [f"b{i}", "c0"], [f"c_{i}"], name=f"c{i}"))
        nodes.append(helper.make_node("Concat", [f"c_{i}", "c64"], [f"d{i}"], name=f"d{i}", axis=0))
        nodes.append(helper.make_node("Reshape", [last, f"d{i}"], [f"v{i}"], name=f"n{i}"))
        last = f"v{i}"
    return _finish(nodes, last, arrays)


def llama(count: int) -> onnx.ModelProto:
    """Return rotary embeddings as exporters write them: two Slices for halves, a Neg, a Concat, two Muls, an Add."""
    nodes, last = [], "x"
    for i in range(count // 8):
        nodes.append(helper.make_node("Slice", [last, "c0", "c32", "c1"], [f"a{i}"], name=f"a{i}"))
        nodes.append(helper.make_node("Slice", [last, "c32", "c64", "c1"], [f"b{i}"], name=f"b{i}"))
        nodes.append(helper.make_node("Neg", [f"b{i}"], [f"c_{i}"], name=f"c{i}"))
        nodes.append(helper.make_node("Concat", [f"c_{i}", f"a{i}"], [f"d{i}"], name=f"d{i}", axis=1))
        nodes.append(helper.make_node("Mul", [f"d{i}", "sin"], [f"e{i}"], name=f"e{i}"))
        nodes.append(helper.make_node("Mul", [last, "cos"], [f"f{i}"], name=f"f{i}"))
        nodes.append(helper.make_node("Add", [f"e{i}", f"f{i}"], [f"g{i}"], name=f"g{i}"))
        nodes.append(helper.make_node("Relu", [f"g{i}"], [f"v{i}"], name=f"n{i}"))
        last = f"v{i}"
    angles = np.arange(1, 65, dtype=np.float32)
    return _finish(nodes, last, _bounds(0, 1, 32, 64) | {"sin": np.sin(angles), "cos": np.cos(angles)})


KINDS: dict[str, Builder] = {
    kind.__name__: kind
    for kind in (
        elementwise,
        weights,
        constants,
        kept,
        slices,
        chains,
        splits,
        siblings,
        llama,
        shapes,
        subgraphs,
        functions,
        calls,
    )
}


def measure(command: list[str], checkout: Path, folder: str) -> tuple[float, float, int]:
    """Return processor and wall time of a command with its workers, and the KiB of the largest process so far.

    The largest process may be one of an earlier command, because `getrusage` has one maximum for all children.
    """
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = os.environ | {"PYTHONPATH": str(checkout.resolve())}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        print(done.stderr.strip()[-300:])
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, after.ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--command", default="rewrite", help="with its options in quotes: 'rewrite --simplify'")
    parser.add_argument("--checkout", type=Path, action="append", help="folder of the packages; several are compared")
    # argparse also compares the default, an empty list, with the choices.
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="kinds of models; default all")
    options = parser.parse_args()
    checkouts = options.checkout or [Path(__file__).resolve().parents[1]]
    print(f"{options.command} of {options.nodes} nodes: by checkout processor and wall time in seconds, ratio")
    for kind in options.kinds or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "in.onnx"), Path(folder, "out.onnx")
            onnx.save(KINDS[kind](options.nodes), source)
            words = [sys.executable, "-m", "sliceport", *options.command.split(), str(source), "-o", str(target)]
            cells, first = [], None
            for checkout in checkouts:
                used, wall, memory = measure([*words, "--overwrite"], checkout, folder)
                first = first or used
                cells.append(f"{used:7.1f} {wall:7.1f} {memory / 1024:6.0f} MiB {used / first:5.2f}")
            print(f"{kind:14} {source.stat().st_size / 2**20:6.1f} MiB  {'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
