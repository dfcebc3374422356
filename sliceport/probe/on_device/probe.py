"""Run the models in this folder on a device, and write measures of their outputs to results.json."""

import argparse
import importlib
import json
import platform
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

HERE, MARK = Path(__file__).resolve().parent, "sliceport-result "
np.seterr(all="ignore")


def run(model: Path, arrays: list[Any], options: argparse.Namespace) -> list[Any]:
    """Return a model's outputs on a device of OpenVINO, or on a provider of onnxruntime or of a module like it."""
    runtime = importlib.import_module(options.runtime)
    if options.runtime == "openvino":
        core = runtime.Core()
        for device in re.findall(r"(?:^|,)([\w.]+)", options.device.rpartition(":")[2]):  # as in HETERO:GPU,CPU
            try:
                core.get_property(device, "FULL_DEVICE_NAME")
            except RuntimeError:
                raise ImportError(f"OpenVINO has no device {device}") from None  # the result has the kind "absent"
        outputs = core.compile_model(str(model), options.device, dict(options.option))(arrays)
        return [np.array(outputs[i]) for i in range(len(outputs))]  # by index, because outputs may have no names
    session = runtime.InferenceSession(str(model), providers=[(options.provider, dict(options.option))])
    if options.provider not in session.get_providers():  # onnxruntime fell back to its CPU provider
        raise ImportError(f"{options.provider} did not start")  # the result then has the kind "absent"
    return list(session.run(None, dict(zip([each.name for each in session.get_inputs()], arrays, strict=True))))


def measure(got: Any, expected: Any) -> dict[str, Any]:
    """Compare an output with the expected one. Return a difference in type or shape, or measures of the elements."""
    for kind, has, needs in (("type", got.dtype.name, expected.dtype.name), ("shape", [*got.shape], [*expected.shape])):
        if has != needs:
            return {"kind": kind, "detail": f"its {kind} is {has}, expected {needs}"}
    a, b = (np.ascontiguousarray(each).reshape(-1) for each in (got, expected))
    # One row of bytes for each element. NumPy does not infer -1 beside a size of 0.
    unequal = (a.view(np.uint8) != b.view(np.uint8)).reshape(max(a.size, 1), -1).any(axis=1)
    measures = {"element": got.dtype.name, "shape": list(got.shape), "unequal": int(unequal.sum())}
    if not unequal.any():
        return measures
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    # JSON lacks NaN and infinity. An error of 1e308 stands for NaN in one of the two elements, and 1e307 for infinity.
    error = np.where(np.isnan(wide_a), 0, np.minimum(np.abs(wide_a - wide_b), 1e307))
    error = np.where(np.isnan(wide_a) != np.isnan(wide_b), 1e308, error)
    at = int(np.argmax(np.where(unequal, error, -1)))
    largest = float(np.abs(wide_b[np.isfinite(wide_b)]).max(initial=0))  # for relative tolerances
    sample = {"got": list(a[at].tobytes()), "expected": list(b[at].tobytes())}  # bytes are exact in every language
    return {**measures, "absolute": float(error[at]), "largest": largest, "at": at, **sample}


def run_cut(cut: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return the measures of all outputs of a cut model and the runtime's version, or the failure of its run."""
    try:
        arrays, expected = ([np.load(HERE / file) for file in cut[kind]] for kind in ("in", "out"))
        outputs = zip(run(HERE / cut["model"], arrays, options), expected, strict=True)
        version = str(getattr(sys.modules[options.runtime], "__version__", ""))
        return {"outputs": [measure(np.asarray(got), right) for got, right in outputs], "version": version}
    except Exception as error:  # a runtime may raise anything
        kind = "memory" if isinstance(error, MemoryError) else "absent" if isinstance(error, ImportError) else "error"
        # The limit exceeds the 300 characters that sliceport shows, so that sliceport marks a long text as shortened.
        return {"kind": kind, "detail": " ".join(f"{type(error).__name__}: {error}".split())[:400]}


def run_apart(cut: dict[str, Any], options: argparse.Namespace) -> Any:
    """Run a cut in a separate process, and return the result that it prints, or a crash if it prints none."""
    words = [sys.executable, __file__, *sys.argv[1:], "--cut", cut["model"]]
    try:
        done = subprocess.run(words, capture_output=True, timeout=options.timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"kind": "crash", "detail": f"it did not end within {options.timeout:g} s"}
    printed = done.stdout.decode("utf-8", "replace").split(MARK)[1:]
    try:
        return json.loads(printed[-1].splitlines()[0])  # a runtime may print more lines when it is unloaded
    except (ValueError, IndexError):
        return {"kind": "crash", "detail": f"its process ended with {done.returncode}"}


def read_probe() -> tuple[Any, dict[str, dict[str, Any]], list[str]]:
    """Read probe.txt, and return the state, the cuts by the names of their models, and the checksums of files."""
    lines = [line.split(" ", 1) for line in (HERE / "probe.txt").read_text(encoding="utf-8").splitlines()]
    state, *checksums = [rest for kind, rest in lines if kind in ("state", "crc32")]  # the state comes first
    cuts = [re.split(" in| out", rest) for kind, rest in lines if kind == "cut"]  # MODEL in 0.npy … out 1.npy …
    return json.loads(state), {m: {"model": m, "in": i.split(), "out": o.split()} for m, i, o in cuts}, checksums


def main() -> None:
    """Run each cut in a separate process, and write all results so far after each. With --cut, print one result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", default="onnxruntime", help="onnxruntime, openvino, or a module like onnxruntime")
    parser.add_argument("--provider", default="CPUExecutionProvider", help="the execution provider of onnxruntime")
    parser.add_argument("--device", default="CPU", help="the device of OpenVINO")
    parser.add_argument(
        "--option", type=lambda text: text.partition("=")[::2], action="append", default=[], help="NAME=VALUE"
    )
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="seconds for a model; default 600")
    parser.add_argument("--cut", help=argparse.SUPPRESS)
    options = parser.parse_args()
    state, cuts, checksums = read_probe()
    if options.cut:
        print(f"\n{MARK}{json.dumps(run_cut(cuts[options.cut], options))}", flush=True)
        return
    for checksum, name in map(str.split, checksums):
        if not (HERE / name).is_file() or zlib.crc32((HERE / name).read_bytes()) != int(checksum, 16):
            sys.exit(f"probe.py: {name} is missing or was changed; copy the folder again.")
    device = {"runtime": options.runtime, "version": "", "platform": platform.platform()}
    device["place"] = options.device if options.runtime == "openvino" else options.provider
    results: dict[str, Any] = {"state": state, "device": device, "cuts": {}}
    for name, cut in cuts.items():
        result = results["cuts"][name] = run_apart(cut, options)
        if result.get("kind") == "absent":  # the other cuts need the runtime and the provider, too
            sys.exit(f"probe.py: {result['detail']}.")
        device["version"] = result.pop("version", device["version"])
        print(name, result.get("kind", "ran"), flush=True)
        (HERE / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
