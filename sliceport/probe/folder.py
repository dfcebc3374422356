"""The folder of a probe: cut models, inputs, expected outputs, and programs that run them on a device."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from sliceport.arguments import read_inputs, read_seed
from sliceport.engines.engine import Array
from sliceport.engines.inputs import find_inputs_that_run
from sliceport.engines.kept_runs import digest_run
from sliceport.engines.side import Side, read_side
from sliceport.engines.sizes import InputShapes
from sliceport.errors import UsageError
from sliceport.probe.rounds import Cut, NodePath, State
from sliceport.sandbox import progress
from sliceport.sandbox.place import fill_folder
from sliceport.search.case import Case, compute_all
from sliceport.search.graph import Graph, find_boundary
from sliceport.search.setup import open_graph, read_shapes
from sliceport.wording import count_of, format_bytes, spell

MARK = "probe.txt"
_PROGRAMS = ("probe.py", "probe.mjs", "probe.cpp")
_KINDS = {".npy": "values", ".bin": "weights", ".onnx": "models", ".xml": "models"}
_FILES = (*_PROGRAMS, "results.json", *(f"*{suffix}" for suffix in _KINDS))


@dataclass(frozen=True)
class Probe:
    """A probe that was written.

    Attributes:
        state: The state of the search.
        byte_counts: The sizes of the files by kind: `models`, `weights`, `values` and `programs`.
        model_bytes: The size of the whole model, without external data files.
        avoided: The values at which the model is not cut, because they were not computed, or because their type is not
            one of NumPy's own numeric and boolean types.
    """

    state: State
    byte_counts: Mapping[str, int]
    model_bytes: int
    avoided: Sequence[str] = ()

    @property
    def text(self) -> str:
        """The round, its models and the sizes of the files, as a sentence without a full stop."""
        sizes = ", ".join(f"{kind} {format_bytes(count)}" for kind, count in self.byte_counts.items())
        models, nodes = count_of(len(self.state.cuts), "model"), count_of(self.state.high - self.state.low, "node")
        ending = f"{sizes} (the whole model has {format_bytes(self.model_bytes)})"
        avoided = count_of(len(self.avoided), "value")
        note = f"; the probe lacks {avoided}, such as {self.avoided[0]!r}, and has no cut there" if self.avoided else ""
        return f"round {self.state.round}: {models} for a range of {nodes}; {ending}{note}"

    def to_json(self) -> dict[str, Any]:
        """Return the probe as JSON values."""
        sizes = {"bytes": dict(self.byte_counts), "model_bytes": self.model_bytes, "avoided": list(self.avoided)}
        return {"schema_version": 1, "nodes": self.state.high - self.state.low, **sizes, "state": asdict(self.state)}


def probe(
    model: Any,
    directory: str | os.PathLike[str],
    *,
    against: str | None = None,
    input_shapes: InputShapes | None = None,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    open_sizes: int | str | None = None,
    anonymise: str = "",
    overwrite: bool = False,
) -> Probe:
    """Start a search for the first node that another device computes wrongly: write the folder of the first round.

    Args:
        model: The model; see `diff`.
        directory: The folder.
        against: The engine that computes the expected outputs.
        input_shapes: Sizes for open shapes.
        inputs: Arrays for inputs.
        seed: The seed of the random inputs.
        open_sizes: The size of all axes that the model leaves open; "primes" for distinct primes.
        anonymise: `names` to replace all names, or `weights` to replace the weights by random ones, too.
        overwrite: Whether to replace a folder that this function wrote.

    Raises:
        UsageError: An option does not fit, the folder exists or cannot be written, or a probe cannot hold one of the
            inputs, or can hold none of the outputs.
        ModelError: The model cannot be read, or the engine does not run it.
        MissingExtra, ChildLost: See `Side.run`.
        MemoryError: The engine lacks memory.
    """
    graph = open_graph(model)
    arrays = read_inputs(inputs)
    shapes = read_shapes(model, arrays, input_shapes, open_sizes)
    reference = against or graph.default_against
    good = read_side(reference, graph.format, spell("against", "--against"))
    seed = read_seed(seed)
    model_digest = digest_run("model", graph.whole(), {})
    progress.say(f"running the model on {good}")
    found = find_inputs_that_run(graph, good, shapes, arrays, seed)
    values = found.arrays
    input_digest, node_count = digest_run("inputs", graph.whole(), values), len(NodePath(graph).numbers)
    about: dict[str, Any] = {"shapes": found.sizes.shapes, "seed": seed, "reference": reference, "anonymise": anonymise}
    state = State(model=model_digest, inputs=input_digest, high=node_count, cuts={}, **about)
    return Round(graph, good, values, state).write(directory, overwrite=overwrite)


@dataclass(frozen=True)
class Round:
    """One round of a search.

    Attributes:
        graph: The model.
        good: The side that computes the expected values.
        inputs: The inputs of the model.
        state: The state of the search, without cuts.
    """

    graph: Graph
    good: Side
    inputs: Mapping[str, Array]
    state: State

    def write(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> Probe:
        """Choose the parts of the model to run in this round, and write a folder whose programs run them on a device.

        Raises:
            UsageError: The folder exists or cannot be written, models of this format cannot be anonymised, or a probe
                cannot hold one of the inputs, or can hold none of the outputs.
            MissingExtra, ChildLost: See `Side.run`.
        """
        graph, inputs, state = self.graph, self.inputs, self.state
        if state.anonymise:
            graph = graph.anonymised(state.anonymise, state.seed)
            inputs = {name: inputs[old] for name, old in zip(graph.inputs, self.graph.inputs, strict=True)}
        values, chosen, avoided = _choose_cuts(NodePath(graph), self.good, inputs, state)
        # The first round must show how the whole model fails.
        if not chosen or (state.round == 1 and not any(cut.is_whole(state) for cut, _ in chosen)):
            raise UsageError("a probe cannot hold the element type of an input, or no output can be computed and held.")
        cases = [case for _, case in chosen]
        saved_names = dict.fromkeys(name for case in cases for name in (*case.inputs, *case.outputs))
        value_files = {name: f"{i}.npy" for i, name in enumerate(saved_names)}
        programs = files(__package__) / "on_device"
        sizes: dict[str, int] = {}

        def fill(folder: FilePath) -> None:
            nonlocal state
            files_of_cuts = graph.write_cuts((case.model for case in cases), folder)
            state = replace(state, cuts={file: cut for file, (cut, _) in zip(files_of_cuts, chosen, strict=True)})
            # The file of an anonymised probe has no names of the model. The returned state keeps them.
            written = _hide_names(state, self.graph) if state.anonymise else state
            lines = [f"{(programs / MARK).read_text('utf-8')}state {json.dumps(asdict(written))}"]
            for file, case in zip(files_of_cuts, cases, strict=True):
                inputs_of_cut = [value_files[name] for name in case.inputs]
                outputs_of_cut = [value_files[name] for name in case.outputs]
                lines.append(" ".join(("cut", file, "in", *inputs_of_cut, "out", *outputs_of_cut)))
            for name, file in value_files.items():
                np.save(folder / file, np.asarray(values[name], order="C"))  # two of the programs read only C order
            for program in _PROGRAMS:
                (folder / program).write_bytes((programs / program).read_bytes())
            for path in sorted(folder.iterdir()):
                lines.append(f"crc32 {_compute_checksum(path):08x} {path.name}")
                kind = _KINDS.get(path.suffix, "programs")
                sizes[kind] = sizes.get(kind, 0) + path.stat().st_size
            (folder / MARK).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")

        fill_folder(directory, fill, mark=MARK, others=_FILES, overwrite=overwrite)  # `fill` sets `state` and `sizes`
        whole = self.graph.whole()
        return Probe(state, sizes, len(whole.data) + len(whole.weights), avoided)


def list_aliases(graph: Graph) -> tuple[dict[str, str], dict[str, str]]:
    """Map the inputs and the outputs of a model to the names that they have in the state of an anonymised probe."""
    inputs = {name: f"input {i}" for i, name in enumerate(graph.inputs)}
    return inputs, {name: f"output {i}" for i, name in enumerate(graph.outputs)}


def _hide_names(state: State, graph: Graph) -> State:
    """Return the state with aliases for names. Leave out the shapes of inputs with a default, which have no alias."""
    inputs, outputs = list_aliases(graph)
    shapes = {name: shape for name, shape in state.shapes.items() if name in inputs}
    return replace(state, shapes=shapes).renamed(inputs, outputs)


def _choose_cuts(
    path: NodePath, good: Side, inputs: Mapping[str, Array], state: State
) -> tuple[dict[str, Array], list[tuple[Cut, Case]], list[str]]:
    """Return the computed values by name, the cuts of a round with their cases, and the names of avoided values.

    Avoided values cannot be computed, or some program of a probe cannot read them. Leave out outputs that are avoided.
    Leave out cuts that read an avoided value, that have no output left, or that equal an earlier cut.
    """
    outputs = {cut: path.outputs_of(cut) for cut in path.plan(state)}
    wanted = {name for names in outputs.values() for name in names}
    wanted.update(name for cut in outputs for name in find_boundary(path.graph, path.nodes_of(cut)))
    values = dict(compute_all(path.graph, good, inputs, wanted))
    avoided = sorted(name for name in wanted if name not in values or not _can_probes_read(values[name]))
    positions = {name: i for i, name in enumerate(path.values)}
    chosen: dict[tuple[object, ...], tuple[Cut, Case]] = {}
    for cut, names in outputs.items():
        cut_to_run = replace(cut, outputs=tuple(positions[name] for name in names if name not in avoided))
        case = path.case_of(cut_to_run, values)  # None if an input of the cut is not computed
        if case is not None and case.outputs and all(map(_can_probes_read, case.inputs.values())):
            chosen.setdefault((case.numbers, case.outputs), (cut_to_run, case))
    return values, list(chosen.values()), avoided


def _can_probes_read(array: Array) -> bool:
    """Return whether every probe program can read an array: its elements must be real numbers of NumPy or booleans."""
    # The kind is not enough: float8_e5m2 of ml_dtypes has kind f, too.
    return array.dtype.kind in "fiub" and array.dtype.type.__module__ == "numpy"


def _compute_checksum(path: FilePath) -> int:
    """Return the CRC-32 of a file. It detects damaged copies, and is short to implement in every language."""
    checksum = 0
    with open(path, "rb") as opened:
        while chunk := opened.read(2**20):
            checksum = zlib.crc32(chunk, checksum)
    return checksum
