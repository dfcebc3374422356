"""`python -m conformance hunt`: run random graphs on an engine, and reduce and group those that come out wrong."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sliceport
from conformance.cases import Case, read_cases
from conformance.engine import Engine
from conformance.runner import run_engine
from sliceport.cases.export import export
from sliceport.cases.graph import Graph
from sliceport.cases.random_graphs import RandomGraph, draw_graphs

OPSETS = (11, 13, 17, 18, 21)
_BATCH = 100
_BAD = ("wrong", "refused", "dies")
_TABLE = {
    "onnxruntime": ("onnxruntime-cpu", "onnxruntime-cpu-optimized"),
    "openvino_cpu": ("openvino-cpu", "openvino-onnx"),
    "openvino_evaluate": ("openvino",),
    "onnx_reference": ("onnx-reference",),
    "directml": ("onnxruntime-dml",),
}
"""The names of an engine in the table of defects."""


@dataclass
class Hunt:
    """A hunt on one engine, whose files lie in a folder, so that the next hunt goes on behind it.

    Attributes:
        engine: The engine.
        folder: The folder of its state (`state.json`) and of a folder for each group of failures.
        python: The Python of the engine's environment.
        timeout: Seconds that a graph may take.
    """

    engine: Engine
    folder: Path
    python: Path
    timeout: float

    def run(self, minutes: float, seed: int) -> Counter[str]:
        """Hunt for this time, and return the number of graphs that came out right, known or new, by kind."""
        state_file, end = self.folder / "state.json", time.monotonic() + 60 * minutes
        self.folder.mkdir(parents=True, exist_ok=True)
        counts = Counter[str]()
        if state_file.exists():
            state = json.loads(state_file.read_text())
            seed, counts = state["next"], Counter(state["counts"])
        while time.monotonic() < end:
            graphs = draw_graphs(_BATCH, seed, OPSETS if "onnx" in self.engine.formats else ())
            if "openvino" not in self.engine.formats:
                graphs = [graph for graph in graphs if graph.opset is not None]
            for graph, verdict in zip(graphs, self.judge(graphs), strict=True):
                counts[self.name_outcome(graph, verdict)] += 1
            seed += _BATCH
            state_file.write_text(json.dumps({"next": seed, "counts": counts}, indent=1))
        return counts

    def name_outcome(self, graph: RandomGraph, verdict: dict[str, str]) -> str:
        """Return `right`, `known: ` with the ids of defects, or `new: ` with the group, which gets a folder."""
        if verdict["verdict"] not in _BAD:
            return "right"
        smallest, seen = self.reduce(graph, verdict)  # first, as a whole graph may also have defects that do nothing
        if known := self.known_defects(smallest):
            return f"known: {', '.join(known)}"
        group = name_group(smallest, seen["verdict"])
        self.keep(group, smallest, seen)
        return f"new: {group}"

    def judge(self, graphs: Sequence[RandomGraph]) -> list[dict[str, str]]:
        """Run graphs on the engine, and return the verdict on each."""
        cases = self.write(graphs)
        results = self.folder / "work.jsonl"
        results.unlink(missing_ok=True)
        verdicts = run_engine(self.engine, cases, self.python, results, self.timeout)
        return [verdicts[case.name] for case in cases]

    def write(self, graphs: Sequence[RandomGraph]) -> list[Case]:
        """Write graphs as cases into the working folder."""
        export(graphs, self.folder / "work", overwrite=True)
        return read_cases(self.folder / "work")

    def known_defects(self, graph: RandomGraph) -> list[str]:
        """Return the ids of the defects of the engine that `check` finds in a graph."""
        (case,) = self.write([graph])
        found = set()
        for engine in _TABLE.get(self.engine.name, ()):
            with suppress(sliceport.ModelError):  # an engine may not read the file at all
                report = sliceport.check(case.model, engines=[engine], engine_versions={engine: self.engine.version})
                found |= {finding.defect.id for finding in report.findings if finding.kind == "defect"}
        return sorted(found)

    def reduce(self, graph: RandomGraph, verdict: dict[str, str]) -> tuple[RandomGraph, dict[str, str]]:
        """Return the smallest graph found that fails in the same way, with the verdict on it."""
        while True:
            smaller = list(cut_smaller(graph))
            verdicts = self.judge(smaller) if smaller else []
            failing = [
                (len(each.graph.nodes), k)
                for k, (each, seen) in enumerate(zip(smaller, verdicts, strict=True))
                if seen["verdict"] == verdict["verdict"]
            ]
            if not failing:
                return graph, verdict
            _, k = min(failing)
            graph, verdict = smaller[k], verdicts[k]

    def keep(self, group: str, graph: RandomGraph, verdict: dict[str, str]) -> None:
        """Write the folder of a group with its first graph, which no later one replaces."""
        folder = self.folder / "new" / group
        if folder.exists():
            return
        (case,) = self.write([graph])
        shutil.copytree(case.folder, folder)
        (folder / "entry.toml").write_text(draft_entry(self.engine, graph, verdict), "utf-8")


def cut_smaller(graph: RandomGraph) -> Iterator[RandomGraph]:
    """Yield graphs with one output, without the first or last nodes, or without one node."""
    nodes, count = list(graph.graph.nodes), 0
    written = [name for node in nodes for name in node.outputs if name in graph.values]
    choices = [(nodes, [name]) for name in written if list(graph.outputs) != [name]]
    choices += [([*nodes[:i], *nodes[i + 1 :]], list(graph.outputs)) for i in range(len(nodes))]
    for kept, outputs in choices:
        if {name for node in kept for name in node.outputs}.issuperset(outputs):
            count += 1
            smaller = graph.cut(f"test_graph_smaller_{count}", kept, outputs)
            if (len(smaller.graph.nodes), len(outputs)) < (len(nodes), len(graph.outputs)):
                yield smaller


def name_group(graph: RandomGraph, verdict: str) -> str:
    """Return the name of the group of a graph: the verdict, the format, the operators, and what is special in sizes."""
    parts = [verdict, "ir" if graph.opset is None else "onnx", *(node.operator for node in graph.graph.nodes)]
    types = graph.graph.inputs.values()
    parts += ["empty"] * is_empty(graph)
    parts += ["open"] * any(isinstance(size, str) for type_ in types for size in type_.sizes)
    return "-".join(parts).lower()


def is_empty(graph: RandomGraph) -> bool:
    """Return whether a value that the graph reads or writes has no elements."""
    names = {name for node in graph.graph.nodes for name in (*node.inputs, *node.outputs) if name}
    return any(graph.values[name].size == 0 for name in names if name in graph.values)


def draft_entry(engine: Engine, graph: RandomGraph, verdict: dict[str, str]) -> str:
    """Return the draft of an entry in the table of defects."""
    name = _TABLE.get(engine.name, (engine.name,))[0]
    does = json.dumps(verdict["detail"] or verdict["verdict"])
    divergence = f'{{ engine = "{name}", does = {does}, versions = ["{engine.version}"] }}'
    trigger = json.dumps(describe(graph.graph))
    return f'[[defect]]\nid = ""\ntrigger = {trigger}\nright = ""\nworkaround = ""\ndivergences = [{divergence}]\n'


def describe(graph: Graph) -> str:
    """Return the nodes of a graph on one line, with the constants that they read."""

    def show(name: str) -> str:
        return str(graph.constants[name].tolist()) if name in graph.constants else name

    def show_node(node: Any) -> str:
        attributes = {key: value for key, value in node.attributes.items() if not isinstance(value, Graph)}
        words = [*map(show, filter(None, node.inputs)), *(f"{key}={value}" for key, value in attributes.items())]
        return f"{', '.join(node.outputs)} = {node.operator}({', '.join(words)})"

    inputs = [f"{name}: {type_.element.dtype}{list(type_.sizes)}" for name, type_ in graph.inputs.items()]
    return f"{'; '.join(inputs)} -> {'; '.join(map(show_node, graph.nodes))}"
