"""Verdicts on engines that run slicing models as written, and after `sliceport harden --target`.

Each engine is installed in a Python environment of its own:

    python -m venv v/tract && v/tract/bin/pip install tract onnx
    python benchmarks/portable.py tract=v/tract/bin/python tinygrad=v/tinygrad/bin/python

`slicing_cases.json` has 407 models of one node, and their outputs by the standard, as indices of elements or as values.
With --models, each export in models/ and each model in the given folders runs instead, and the outputs are compared
with those of onnxruntime. Open sizes of inputs are replaced in the file by those of models/models.json, or by chosen
ones. With --graphs, the graphs of `tests/data/exporter_graphs.toml` run in operator sets 13 and 18, with 5 elements on
each open axis. The verdicts are

    equal    every output is right: bit for bit in the cases, within 1e-3 of the largest value in models and graphs
    wrong    an output is not right
    refused  the engine raises an error
    crash    the process ends, or takes longer than --timeout seconds

A table has the number of each verdict. Below it are the cases that are not equal, with their verdicts before and after.
"""

from __future__ import annotations

import argparse
import itertools
import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx.tools.update_model_dims import update_inputs_outputs_dims

import sliceport
from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.runnable import read_complete_model
from sliceport.defects.profiles import PROFILES
from sliceport.engines.inputs import find_inputs_that_run
from sliceport.errors import SliceportError

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
VERDICTS = ("equal", "wrong", "refused", "crash")
Array = Any


@dataclass(frozen=True)
class Case:
    """A model to run.

    Attributes:
        name: Its name.
        model: The model as it is written.
        inputs: An array for each input.
        expected: The right outputs.
        tolerance: The allowed difference, relative to the largest value; 0 allows no difference.
        verdicts: The verdicts by engine and form, filled while engines run.
    """

    name: str
    model: onnx.ModelProto
    inputs: dict[str, Array]
    expected: list[Array]
    tolerance: float = 0
    verdicts: dict[tuple[str, str], str] = field(default_factory=dict)


def read_cases() -> Iterator[Case]:
    """Yield the models of one node.

    A row of the file without `data` has the shape of the input, whose elements are 1, 2, 3 and so on, times `factor`.
    """
    for row in json.loads((HERE / "slicing_cases.json").read_text(encoding="utf-8")):
        model = onnx.parser.parse_model(row["model"])
        data = model.graph.input[0]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(data.type.tensor_type.elem_type)
        if "data" in row:
            array = np.array(row["data"]).astype(dtype)
            outputs = [np.array(out["values"]).astype(dtype).reshape(out["shape"]) for out in row["outputs"]]
        else:
            count = int(np.prod(row["shape"]))
            array = (np.arange(1, count + 1) * row.get("factor", 1)).astype(dtype).reshape(row["shape"])
            flat = array.reshape(-1)
            outputs = [flat[np.array(out["elements"], int)].reshape(out["shape"]) for out in row["outputs"]]
        types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
        others = {
            name: np.array(values, onnx.helper.tensor_dtype_to_np_dtype(types[name]))
            for name, values in row.get("inputs", {}).items()
        }
        yield Case(row["name"], model, {data.name: array, **others}, outputs)


def read_models(folders: list[Path]) -> Iterator[Case]:
    """Yield the exports in models/ and the models in folders, with the sizes of their inputs written into them.

    A model that cannot be read or run is left out, and a line is printed about it. A model with an output that is not a
    tensor is left out silently.
    """
    listed = json.loads((MODELS / "models.json").read_text(encoding="utf-8"))
    exports = [(MODELS / entry["file"], entry["input_shapes"]) for entry in listed]
    for path, shapes in exports + [(path, {}) for folder in folders for path in sorted(folder.glob("*.onnx"))]:
        try:
            network = read_complete_model(path)
            found = find_inputs_that_run(network, onnxruntime_cpu.side(), shapes, {}, 0)
            inputs, expected = found.arrays, found.outputs
            outputs = [expected[output.name] for output in network.proto.graph.output]
            arrays = [value for value in outputs if isinstance(value, np.ndarray)]
            model = with_sizes(onnx.load(path), inputs)
        except (SliceportError, ValueError) as error:
            print(f"left out {path.name}: {error}"[:200], flush=True)
            continue
        if len(arrays) == len(outputs):
            yield Case(path.name, model, inputs, arrays, 1e-3)


def read_graphs() -> Iterator[Case]:
    """Yield the graphs that exporters write; onnxruntime computes the expected outputs."""
    sys.path.append(str(HERE.parent / "tests"))
    from exporter_graphs import GRAPHS, build, make_inputs

    for name, opset in itertools.product(GRAPHS, (13, 18)):
        model = build(name, opset)
        inputs = make_inputs(model, 5)
        outputs = list(ort.InferenceSession(model.SerializeToString()).run(None, inputs))
        yield Case(f"{name} {opset}", with_sizes(model, inputs), inputs, outputs, 1e-3)


def with_sizes(model: onnx.ModelProto, inputs: dict[str, Array]) -> onnx.ModelProto:
    """Change a model so that it declares the sizes of its inputs, and leaves the sizes of all other values open."""
    dims = {name: list(array.shape) for name, array in inputs.items()}
    outputs = {}
    for output in model.graph.output:
        rank = len(output.type.tensor_type.shape.dim)
        outputs[output.name] = [f"{output.name}_{axis}" for axis in range(rank)]
    del model.graph.value_info[:]
    return update_inputs_outputs_dims(model, dims, outputs)


def write_case(case: Case, folder: Path, target: str) -> None:
    """Write a case for the worker, in the form for `target`, or as written if `target` is empty."""
    folder.mkdir(parents=True)
    model = case.model
    if target:
        model = sliceport.harden(model, target=target, read_as="standard").model
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **case.inputs)
    (folder / "names.json").write_text(json.dumps([output.name for output in case.model.graph.output]))


def judge(case: Case, folder: Path, engine: str) -> str:
    """Return the verdict on the outputs in a folder: `equal` or `wrong`."""
    with np.load(folder / "outputs.npz") as file:
        results = list(file.values())
    if len(results) != len(case.expected):
        return "wrong"
    pairs = zip(results, case.expected, strict=True)
    return "equal" if all(is_right(case, result, expected, engine) for result, expected in pairs) else "wrong"


def is_right(case: Case, result: Array, expected: Array, engine: str) -> bool:
    """Return whether one output is right. MNN stores all numbers in 32 bits, so that its types do not count."""
    if result.shape != expected.shape or (engine != "mnn" and not case.tolerance and result.dtype != expected.dtype):
        return False
    if not case.tolerance:
        return bool(np.array_equal(result, expected))
    got, want = result.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(want)
    scale = float(np.abs(want[finite]).max(initial=0)) or 1.0
    is_close = np.allclose(got[finite], want[finite], rtol=0, atol=case.tolerance * scale)
    return is_close and bool(np.array_equal(got[~finite], want[~finite], equal_nan=True))


def run_engine(engine: str, python: str, cases: dict[str, Case], form: str, timeout: float) -> None:
    """Run cases on an engine, and store their verdicts in them. `cases` maps folders to the cases in them.

    If a case ends the worker or takes too long, a new worker starts at the next case.

    Raises:
        SystemExit: A worker begins no case.
    """
    waiting = list(cases)
    while waiting:
        listed = Path(waiting[0]).parent / "list.txt"
        listed.write_text("\n".join(waiting))
        command = [python, str(HERE / "portable_engines.py"), engine, str(listed)]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=read_lines, args=(worker, lines), daemon=True).start()
        started = 0
        try:
            # The first line comes after the engine is imported, which may take long.
            while folder := lines.get(timeout=timeout if started else max(timeout, 120)):
                started += 1
                answer = lines.get(timeout=timeout)
                if not answer:  # the case ended the worker
                    break
                case = cases[folder]
                refusal = json.loads(answer)["refusal"]
                case.verdicts[engine, form] = "refused" if refusal else judge(case, Path(folder), engine)
        except queue.Empty:  # the case takes too long
            pass
        worker.kill()
        worker.wait()
        if not started:
            raise SystemExit(f"{python} does not run {engine}.")
        for folder in waiting[:started]:  # only the last one may lack a verdict
            cases[folder].verdicts.setdefault((engine, form), "crash")
        waiting = waiting[started:]


def read_lines(worker: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Put the lines of a worker into a queue, and an empty line at the end of the worker."""
    assert worker.stdout is not None
    for line in worker.stdout:
        lines.put(line.rstrip("\n"))
    lines.put("")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="+", metavar="ENGINE=PYTHON")
    parser.add_argument("--models", nargs="*", type=Path, metavar="FOLDER", help="run the models of models/ and FOLDER")
    parser.add_argument("--graphs", action="store_true", help="run the graphs that exporters write")
    parser.add_argument("--only", default="", help="run only cases whose names contain this text")
    parser.add_argument("--timeout", type=float, default=60, metavar="S", help="seconds for one case; default 60")
    parser.add_argument("--targets-only", action="store_true", help="do not run the models as written")
    options = parser.parse_args()
    all_cases = read_cases() if options.models is None else read_models(options.models)
    all_cases = read_graphs() if options.graphs else all_cases
    cases = [case for case in all_cases if options.only in case.name]
    print(
        f"{len(cases)} cases\n{'engine':14}{'form':12}" + "".join(f"{verdict:>9}" for verdict in VERDICTS), flush=True
    )
    for engine, _, python in (words.partition("=") for words in options.engines):
        target = engine if engine in PROFILES else "portable"
        for form in [target] if options.targets_only else ["", target]:  # "" is the form as written
            with tempfile.TemporaryDirectory() as scratch:
                folders = {str(Path(scratch) / str(i)): case for i, case in enumerate(cases)}
                for folder, case in folders.items():
                    write_case(case, Path(folder), form)
                run_engine(engine, python, folders, form, options.timeout)
            counts = Counter(case.verdicts[engine, form] for case in cases)
            print(f"{engine:14}{form or 'as written':12}" + "".join(f"{counts[v]:9}" for v in VERDICTS), flush=True)
        for case in cases:
            after = case.verdicts[engine, target]
            before = case.verdicts.get((engine, ""), after)
            if (before, after) != ("equal", "equal"):
                print(f"    {case.name}: {before}, {after}", flush=True)


if __name__ == "__main__":
    main()
