"""Functions that make the exports of `export_modules.py`, `export_transformers.py` and `export_networks.py`.

Weights are random and widths tiny: only the graphs count. The same versions of torch, transformers, onnx and onnxscript
give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

NAMES = "xyzuvwabcd"
"""The inputs of an export, in order."""

torch.set_num_threads(1)  # with more, a forked child would wait for threads that only its parent has
EXPORTERS = {"ts": "TorchScript", "dynamo": "dynamo"}


@dataclass(frozen=True)
class Export:
    """One file: a module, the way to export it, and the purpose of the file.

    Attributes:
        module: A function that makes the module. The random weights are seeded before the call.
        inputs: The inputs to call it with.
        exporter: A key of `EXPORTERS`.
        opset: The operator set of the file.
        purpose: The purpose of the file, a short phrase.
        open_dims: The names of dimensions that stay open, by input and axis.
        scripted: Whether to compile the module for the TorchScript exporter, so that loops and branches stay.
        functions: Modules that the TorchScript exporter turns into functions of the model.
    """

    module: Callable[[], nn.Module]
    inputs: tuple[Any, ...]
    exporter: str
    opset: int
    purpose: str
    open_dims: dict[str, dict[int, str]] = field(default_factory=dict)
    scripted: bool = False
    functions: frozenset[type[nn.Module]] = frozenset()

    @property
    def names(self) -> list[str]:
        """The names of the inputs."""
        return list(NAMES[: len(self.inputs)])

    @property
    def input_shapes(self) -> dict[str, list[int]]:
        """The shapes of the inputs that have open dimensions."""
        by_name = dict(zip(self.names, self.inputs, strict=True))
        return {name: list(by_name[name].shape) for name in self.open_dims}


def _export_ts(entry: Export, module: nn.Module, path: Path) -> None:
    torch.onnx.export(
        torch.jit.script(module) if entry.scripted else module,
        entry.inputs,
        str(path),
        dynamo=False,
        opset_version=entry.opset,
        input_names=entry.names,
        dynamic_axes=entry.open_dims or None,
        export_modules_as_functions=set(entry.functions),
    )


def _export_dynamo(entry: Export, module: nn.Module, path: Path) -> None:
    inputs, shapes = [], []
    for name, value in zip(entry.names, entry.inputs, strict=True):
        open_dims = entry.open_dims.get(name, {})
        sizes = [2 if axis in open_dims and size == 1 else size for axis, size in enumerate(value.shape)]
        inputs.append(value.expand(sizes).contiguous())  # dynamo would treat an open size of 1 as fixed
        shapes.append({axis: torch.export.Dim(dim, min=2, max=64) for axis, dim in open_dims.items()})
    program = torch.onnx.export(
        module,
        tuple(inputs),
        dynamo=True,
        opset_version=entry.opset,
        input_names=entry.names,
        dynamic_shapes=tuple(shapes) if entry.open_dims else None,
        verbose=False,
    )
    program.save(str(path))


def nodes_of(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return all nodes of a model, including those of subgraphs and functions."""

    def within(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        for node in nodes:
            yield node
            for attribute in node.attribute:
                for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                    yield from within(graph.node)

    return [*within(model.graph.node), *(node for function in model.functions for node in within(function.node))]


def slicing_counts(model: onnx.ModelProto) -> tuple[int, int]:
    """Return the numbers of Slice and Split nodes in a model."""
    types = [node.op_type for node in nodes_of(model)]
    return types.count("Slice"), types.count("Split")


def _strip(model: onnx.ModelProto) -> None:
    """Remove the metadata that exporters add for debugging."""
    for node in nodes_of(model):
        del node.metadata_props[:]
        node.ClearField("doc_string")
        for attribute in node.attribute:
            for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                _strip_graph(graph)
    for function in model.functions:
        del function.metadata_props[:], function.value_info[:]
    _strip_graph(model.graph)
    del model.metadata_props[:]


def _strip_graph(graph: onnx.GraphProto) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        del value.metadata_props[:]
    for tensor in graph.initializer:
        del tensor.metadata_props[:]
    del graph.metadata_props[:]


def export(entry: Export, path: Path) -> onnx.ModelProto:
    """Write one export and check it."""
    torch.manual_seed(0)
    module = entry.module().eval()
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "model.onnx"
        (_export_ts if entry.exporter == "ts" else _export_dynamo)(entry, module, raw)
        model = onnx.load(raw)
    _strip(model)
    onnx.checker.check_model(model, full_check=entry.opset > 9)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return model


def _export_apart(entry: Export, path: Path, seconds: float) -> str:
    """Write one export in a child process. Return the reason if it cannot be made, or an empty string."""
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)

    def work() -> None:
        try:
            export(entry, path)
            writer.send("")
        except Exception as error:
            sentences = [line for line in str(error).splitlines() if line.strip()]
            writer.send(f"{type(error).__name__}: {next(iter(sentences), '')}"[:300])

    child = context.Process(target=work)
    child.start()
    writer.close()
    try:
        return str(reader.recv()) if reader.poll(seconds) else f"it took more than {seconds:g} s"
    except EOFError:
        return "the process ended"
    finally:
        child.kill()
        child.join()


def run(exports: Mapping[str, Export], script: str, *, needs_slices: bool = True) -> int:
    """Run the command line of a script: write its exports, and list them in `models.json`.

    Networks that cannot be exported are listed in `not_exported.json`, with the reason.

    Args:
        exports: The exports by name.
        script: The name of the script.
        needs_slices: Whether an export without Slice and Split is an error.

    Returns:
        The exit status: 1 if a network could not be exported.
    """
    arguments = argparse.ArgumentParser(description="Export models to ONNX, deterministically.")
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent, help="output (default: %(default)s)")
    arguments.add_argument("--timeout", type=float, default=300, metavar="S", help="for each (default: %(default)s)")
    arguments.add_argument("names", nargs="*", help="exports to make (default: all)")
    options = arguments.parse_args()
    if unknown := sorted(set(options.names) - set(exports)):
        arguments.error(f"unknown export {unknown[0]!r}; known are {', '.join(sorted(exports))}")
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    options.out.mkdir(parents=True, exist_ok=True)
    index = options.out / "models.json"
    entries = {entry["file"]: entry for entry in json.loads(index.read_text())} if index.exists() else {}
    failures = options.out / "not_exported.json"
    reasons = json.loads(failures.read_text()) if failures.exists() else {}
    for name in options.names or exports:
        entry, path = exports[name], options.out / f"{name}.onnx"
        reasons[name] = _export_apart(entry, path, options.timeout)
        slices, splits = (0, 0) if reasons[name] else slicing_counts(onnx.load(path))
        if needs_slices and not reasons[name] and not slices + splits:
            reasons[name] = "no Slice or Split is left"
        if reasons[name]:
            print(f"{name}: not exported: {reasons[name]}", file=sys.stderr, flush=True)
            continue
        del reasons[name]
        entries[path.name] = {
            "file": path.name,
            "source": script,
            "exporter": EXPORTERS[entry.exporter],
            "opset": entry.opset,
            "input_shapes": entry.input_shapes,
            "purpose": entry.purpose,
        }
        print(f"{name}: {path.stat().st_size} bytes, {slices} Slice, {splits} Split", flush=True)
        index.write_text(json.dumps([entries[file] for file in sorted(entries)], indent=2) + "\n")
    if reasons:
        failures.write_text(json.dumps(reasons, indent=2, sort_keys=True) + "\n")
    else:
        failures.unlink(missing_ok=True)
    return int(bool(reasons))
