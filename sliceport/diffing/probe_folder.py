"""The folder of a probe: cut models, inputs, expected outputs, and programs that run them on a device."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from sliceport import progress
from sliceport.arguments import read_input_shapes, read_inputs, read_seed
from sliceport.diffing.case import Case, compute_all
from sliceport.diffing.difference import Failure
from sliceport.diffing.graph import Graph, find_boundary
from sliceport.diffing.inputs import ATTEMPTS
from sliceport.diffing.probe import Cut, Path, State, digest, digest_inputs
from sliceport.diffing.setup import DEFAULT_AGAINST, choose_open_shapes, open_graph
from sliceport.diffing.side import Side, read_side
from sliceport.engines.engine import WholeModel
from sliceport.errors import ModelError, UsageError
from sliceport.formats import InputShapes
from sliceport.sandbox.place import fill_folder
from sliceport.wording import count_of, spell

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

MARK = "probe.txt"
PROGRAMS = ("probe.py", "probe.mjs", "probe.cpp")
_FILES = (*PROGRAMS, "results.json", "*.npy", "*.onnx", "*.xml", "*.bin")
_KINDS = {".npy": "values", ".bin": "weights", ".onnx": "models", ".xml": "models"}
_HEAD = """\
# Copy this folder to the device, and run one of these there; it writes results.json:
#   python probe.py --runtime onnxruntime --provider CUDAExecutionProvider
#   python probe.py --runtime openvino --device GPU
# Each line below is the state of the search, a cut (MODEL in INPUTS out EXPECTED), or the digest of a file.
"""


@runtime_checkable
class WritesCuts(Protocol):
    """A graph with an optional method that writes models for a device elsewhere."""

    def write_cuts(self, models: Iterable[WholeModel], folder: FilePath) -> list[str]:
        """Write models that were cut from this one into a folder, and return the names of their files.

        Data files end in `.bin`. Models share them if the format can.
        """
        ...


@runtime_checkable
class Anonymises(Protocol):
    """A graph with an optional method that hides names and weights."""

    def anonymised(self, seed: int, *, has_random_weights: bool) -> Graph:
        """Return the same graph with other names, and if asked with random weights of like distribution."""
        ...


@dataclass(frozen=True)
class Probe:
    """A probe that was written.

    Attributes:
        state: The state of the search.
        nodes: The number of nodes in the open range.
        byte_counts: The sizes of the files by kind: `models`, `weights`, `values` and `programs`.
        model_bytes: The size of the whole model.
    """

    state: State
    nodes: int
    byte_counts: Mapping[str, int]
    model_bytes: int

    @property
    def text(self) -> str:
        """The sizes, as a sentence."""
        sizes = ", ".join(f"{kind} {_format_bytes(count)}" for kind, count in self.byte_counts.items())
        return (
            f"round {self.state.round}: {count_of(len(self.state.cuts), 'model')} for a range of "
            f"{count_of(self.nodes, 'node')}; {sizes} (the whole model has {_format_bytes(self.model_bytes)})"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the probe as JSON values."""
        sizes = {"bytes": dict(self.byte_counts), "model_bytes": self.model_bytes}
        return {"schema_version": 1, "nodes": self.nodes, **sizes, "state": asdict(self.state)}


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
    """Write a folder that finds the first node that a device elsewhere computes wrongly.

    Args:
        model: A file's path or a model in memory; see `diff`.
        directory: The folder.
        against: The engine that computes the expected outputs.
        input_shapes: See `diff`, as for `inputs`, `seed` and `open_sizes`.
        inputs: Arrays for inputs.
        seed: For the random inputs.
        open_sizes: The size of all axes that the model leaves open.
        anonymise: `names` to replace all names; `weights` to replace the weights by random ones, too.
        overwrite: Whether to replace a folder that this function wrote.

    Raises:
        UsageError: An option does not fit, or the folder exists.
        ModelError: The model cannot be read, or the reference does not run it.
    """
    graph = open_graph(model)
    arrays = read_inputs(inputs)
    shapes = {name: array.shape for name, array in arrays.items()} | read_input_shapes(input_shapes)
    shapes |= choose_open_shapes(model, shapes, open_sizes)
    reference = against or DEFAULT_AGAINST.get(graph.format, "")
    good = read_side(reference, graph.format, spell("against", "--against"))
    seed = read_seed(seed)
    whole = graph.whole()
    progress.say(f"running the model on {good}")
    for attempt in range(ATTEMPTS):
        values = graph.make_inputs(arrays, shapes, seed, attempt)
        result = good.try_run(whole, values)
        if not isinstance(result, Failure):
            break
        if attempt == ATTEMPTS - 1:
            raise ModelError(f"{good} does not run the model ({result.message}).")
    state = State(
        model=digest(whole.data, whole.weights),
        inputs=digest_inputs(values),
        shapes=shapes,
        seed=seed,
        attempt=attempt,
        reference=reference,
        anonymise=anonymise,
        high=len(Path(graph).numbers),
        cuts={},
    )
    return write_round(graph, good, values, state, directory, overwrite=overwrite)


def write_round(
    graph: Graph,
    good: Side,
    inputs: Mapping[str, Array],
    state: State,
    directory: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> Probe:
    """Write the probe of a round.

    Args:
        graph: The model.
        good: The side that computes the expected values.
        inputs: The inputs of the model.
        state: The state of the search; its cuts are chosen here.
        directory: The folder.
        overwrite: Whether to replace a folder of an earlier round.

    Raises:
        UsageError: The folder exists or cannot be made, or nothing of the model can be run elsewhere.
    """
    whole = graph.whole()
    if not isinstance(graph, WritesCuts):
        raise UsageError(f"models of the format {graph.format} cannot be probed.")
    if state.anonymise:
        if not isinstance(graph, Anonymises):
            raise UsageError(f"models of the format {graph.format} cannot be anonymised.")
        sent = graph.anonymised(state.seed, has_random_weights=state.anonymise == "weights")
        inputs = {new: inputs[old] for new, old in zip(sent.inputs, graph.inputs, strict=True)}
        graph = sent
    path = Path(graph)
    values, chosen = _choose(path, good, inputs, state)
    if not chosen:
        raise UsageError("no part of the model has inputs and outputs of types that a probe can hold.")
    sizes: dict[str, int] = {}

    def fill(folder: FilePath) -> None:
        nonlocal state
        assert isinstance(graph, WritesCuts)
        names = graph.write_cuts((case.model for _, case in chosen), folder)
        numbers = _write_values(values, [case for _, case in chosen], folder)
        state = replace(state, cuts={name: cut for name, (cut, _) in zip(names, chosen, strict=True)})
        for program in PROGRAMS:
            content = (files("sliceport.diffing") / "on_device" / program).read_bytes()
            (folder / program).write_bytes(content)
        lines = [f"state {state.to_json()}"]
        for name, (_, case) in zip(names, chosen, strict=True):
            read, written = ([f"{numbers[value]}.npy" for value in each] for each in (case.inputs, case.outputs))
            lines.append(" ".join(("cut", name, "in", *read, "out", *written)))
        for file in sorted(folder.iterdir()):
            lines.append(f"sha256 {_digest_file(file)} {file.name}")
            kind = _KINDS.get(file.suffix, "programs")
            sizes[kind] = sizes.get(kind, 0) + file.stat().st_size
        (folder / MARK).write_text(_HEAD + "\n".join(lines) + "\n", encoding="utf-8", newline="\n")

    fill_folder(directory, fill, mark=MARK, others=_FILES, overwrite=overwrite)
    return Probe(state, state.high - state.low, sizes, len(whole.data) + len(whole.weights))


def _choose(
    path: Path, good: Side, inputs: Mapping[str, Array], state: State
) -> tuple[dict[str, Array], list[tuple[Cut, Case]]]:
    """Return right values, and the cuts of a round whose inputs and outputs are among them."""
    cuts = list(path.plan(state))
    outputs = [path.outputs_of(cut) for cut in cuts]
    wanted = {name for names in outputs for name in names}
    wanted.update(name for cut in cuts for name in find_boundary(path.graph, path.nodes_of(cut)))
    values = dict(inputs) | dict(compute_all(path.graph, good, inputs, wanted))
    chosen: dict[tuple[object, ...], tuple[Cut, Case]] = {}
    for cut, names in zip(cuts, outputs, strict=True):
        compared = [name for name in names if name in values and _can_save(values[name])]
        cut = replace(cut, outputs=path.places_of(compared))  # noqa: PLW2901 - the same cut, complete
        case = path.case_of(cut, values)
        if case is not None and compared and all(map(_can_save, case.inputs.values())):
            chosen.setdefault((case.numbers, case.outputs), (cut, case))
    return values, list(chosen.values())


def _can_save(array: Array) -> bool:
    """Return whether every program on a device can read an array: NumPy's own numbers and booleans."""
    return array.dtype.kind in "fiub"  # those of ml_dtypes have kind V


def _write_values(values: Mapping[str, Array], cases: Sequence[Case], folder: FilePath) -> dict[str, int]:
    """Write each value that cuts read or compute, and return the numbers of their files."""
    names = dict.fromkeys(name for case in cases for name in (*case.inputs, *case.outputs))
    numbers = {name: i for i, name in enumerate(names)}
    for name, i in numbers.items():
        np.save(folder / f"{i}.npy", np.asarray(values[name], order="C"))
    return numbers


def _digest_file(file: FilePath) -> str:
    import hashlib

    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _format_bytes(count: int) -> str:
    return f"{count / 2**20:.1f} MB" if count >= 2**20 else f"{count / 2**10:.1f} kB"
