"""The programs of a probe in JavaScript and C++ write the same results as probe.py.

They run where their tools are: node, with the packages in the folder that SLICEPORT_NODE names, or as the conformance
suite installs them; a C++ compiler, with onnxruntime's headers in the folder that ONNXRUNTIME_INCLUDE names, or as
`tests/support/of_processes/mingw.py` unpacks them, and the library in the onnxruntime package.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import mingw
import numpy as np
import onnx
import pytest
from onnx_models import save

from sliceport.probe.folder import probe
from sliceport.probe.results import read_results

ROOT = Path(__file__).parents[3]
TYPES = ("FLOAT", "DOUBLE", "FLOAT16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL")


INPUTS = {"c": np.array(True), "x": np.array([[1, 2.5, 3], [4, 100, 0.1]], np.float32)}


def change(array: Any, number: int) -> Any:
    """Return an expected output that differs from the right one in a way that depends on its number."""
    changed = array.copy()
    values = changed.reshape(-1)
    if number >= len(TYPES) and array.dtype == np.float32:
        return values
    if number >= len(TYPES) and array.dtype == np.int32:
        return changed.astype(np.int16)
    if array.dtype == bool:
        values[-1] = not values[-1]
    elif array.dtype.kind != "f":
        values[-1] += 3
    else:
        values[:4] = (np.nan, np.inf, -0.0, 4.5) if number < len(TYPES) else (1, 2.5, 3, 7e-6)
    return changed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a probe of one node with outputs of all types, whose expected outputs are wrong but for the last one."""
    place = tmp_path_factory.mktemp("twins")
    types = [getattr(onnx.TensorProto, name) for name in (*TYPES, "INT32", "FLOAT", "FLOAT16", "FLOAT")]
    names = [onnx.TensorProto.DataType.Name(number).lower() for number in types]
    outputs = ", ".join(f"{name}[2, 3] y{i}" for i, name in enumerate(names))
    casts = " ".join(f"y{i} = Cast<to = {number}>(x)" for i, number in enumerate(types))
    body = f"body () => ({outputs}) {{ {casts} }}"
    node = f"{', '.join(f'y{i}' for i in range(len(types)))} = If(c) <then_branch = {body}, else_branch = {body}>"
    save(f"(bool c, float[2, 3] x) => ({outputs}) {{ {node} }}", place / "model.onnx")
    probe(place / "model.onnx", place / "probe", inputs=INPUTS)
    text = (place / "probe" / "probe.txt").read_text()
    names = re.findall("^cut .* out (.*)$", text, re.MULTILINE)[0].split()
    for i, name in enumerate(names[:-1]):
        file = place / "probe" / name
        np.save(file, change(np.load(file), i))
        text = re.sub(f"(?<=crc32 )\\w+(?= {name})", f"{zlib.crc32(file.read_bytes()):08x}", text)
    (place / "probe" / "probe.txt").write_text(text)
    program = runpy.run_path(str(place / "probe" / "probe.py"))
    state, cuts, _ = program["read_probe"]()
    ((model, cut),) = cuts.items()
    options = argparse.Namespace(runtime="onnxruntime", provider="CPUExecutionProvider", option=[])
    result = program["run_cut"](cut, options)
    device = {"runtime": "onnxruntime", "version": result.pop("version"), "place": "", "platform": ""}
    results = {"state": state, "device": device, "cuts": {model: result}}
    (place / "probe" / "results.json").write_text(json.dumps(results))
    kinds = [output.get("kind", output.get("element")) for output in result["outputs"]]
    names = [onnx.helper.tensor_dtype_to_np_dtype(number).name for number in types[: len(TYPES)]]
    assert kinds == [*names, "type", "shape", "float16", "float32"]
    assert [output.get("unequal", 1) > 0 for output in result["outputs"]] == [True] * (len(types) - 1) + [False]
    return place


def assert_same_results(folder: Path, copy: Path) -> None:
    results = json.loads((copy / "results.json").read_text())
    expected = json.loads((folder / "probe" / "results.json").read_text())
    assert results["cuts"] == expected["cuts"]
    assert results["state"] == expected["state"]
    assert results["device"].keys() == expected["device"].keys()


def copy_of(folder: Path, place: Path) -> Path:
    copy = shutil.copytree(folder / "probe", place / "copy")
    (copy / "results.json").unlink()
    return copy


def test_report_shows_the_values_of_the_results(folder: Path) -> None:
    report = read_results(folder / "model.onnx", folder / "probe" / "results.json", inputs=INPUTS).report
    samples = {output.name: output.samples for output in report.outputs}
    assert samples["y0"] == (("[0, 0]", "1.0", "nan"),)
    assert samples["y6"] == (("[1, 2]", "0", "3"),)
    assert samples["y11"] == (("[1, 2]", "True", "False"),)
    assert samples["y14"] == (("[1, 0]", "4.0", "7e-06"),)


def node_folder(package: str) -> Path:
    """Return a folder whose node_modules has a package, or skip the test."""
    installed = ROOT / "build" / "conformance" / "environments" / package.replace("-", "_")
    place = Path(os.environ.get("SLICEPORT_NODE", installed))
    if shutil.which("node") is None or not (place / "node_modules" / package).is_dir():
        pytest.skip(f"node or {package} is not here")
    return place


def run_node(package: str, provider: str, copy: Path) -> subprocess.CompletedProcess[str]:
    words = ["node", str(copy / "probe.mjs"), package, provider]
    return subprocess.run(words, cwd=node_folder(package), capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("package", "provider"), [("onnxruntime-node", "cpu"), ("onnxruntime-web", "wasm")])
def test_javascript_writes_the_same_results(package: str, provider: str, folder: Path, tmp_path: Path) -> None:
    copy = copy_of(folder, tmp_path)
    done = run_node(package, provider, copy)
    assert done.returncode == 0, done.stderr
    assert_same_results(folder, copy)


def test_javascript_refuses_a_changed_file_and_an_absent_provider(folder: Path, tmp_path: Path) -> None:
    copy = copy_of(folder, tmp_path)
    done = run_node("onnxruntime-node", "absent", copy)
    assert done.returncode == 1
    assert "[absent] backend not found" in done.stderr
    (copy / "0.npy").write_bytes(b"changed")
    done = run_node("onnxruntime-node", "cpu", copy)
    assert done.stderr == "probe.mjs: Error: 0.npy was changed; copy the folder again\n"
    assert not (copy / "results.json").exists()


def compile_probe(source: Path, cache: pytest.Cache) -> Path:
    """Return probe.cpp as a program, which is compiled once for all runs of the tests; or skip the test."""
    runtime = pytest.importorskip("onnxruntime")
    headers = Path(os.environ.get("ONNXRUNTIME_INCLUDE", mingw.folder() / "mingw" / "usr" / "include" / "onnxruntime"))
    libraries = list((Path(runtime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    compiler = shutil.which("c++")
    if compiler is None or not libraries or not (headers / "onnxruntime_cxx_api.h").exists():
        pytest.skip("a C++ compiler, onnxruntime's headers or its library are not here")
    digest = hashlib.sha256(source.read_bytes() + str(libraries[0]).encode()).hexdigest()[:16]
    place = cache.mkdir("probe") / digest
    if not (place / "probe").exists():
        place.mkdir(exist_ok=True)
        (place / "libonnxruntime.so.1").unlink(missing_ok=True)
        (place / "libonnxruntime.so.1").symlink_to(libraries[0])  # its name within itself
        words = [compiler, "-std=c++17", "-Wall", "-Werror", str(source), "-I", str(headers), str(libraries[0])]
        subprocess.run([*words, f"-Wl,-rpath,{place}", "-o", str(place / "probe")], check=True)
    return place / "probe"


def test_cpp_writes_the_same_results(folder: Path, tmp_path: Path, cache: pytest.Cache) -> None:
    copy = copy_of(folder, tmp_path)
    program = compile_probe(copy / "probe.cpp", cache)
    done = subprocess.run([program, "Absent"], cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("probe: ")
    assert not (copy / "results.json").exists()
    subprocess.run([program, "CPU"], cwd=copy, check=True)
    assert_same_results(folder, copy)


def test_cpp_refuses_a_changed_or_missing_file(folder: Path, tmp_path: Path, cache: pytest.Cache) -> None:
    copy = copy_of(folder, tmp_path)
    program = compile_probe(copy / "probe.cpp", cache)
    file = copy / "0.npy"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"?")
    for _ in range(2):
        done = subprocess.run([program], cwd=copy, capture_output=True, text=True, check=False)
        assert done.stderr == "probe: 0.npy is missing or was changed; copy the folder again\n"
        assert done.returncode == 1
        file.unlink(missing_ok=True)
    assert not (copy / "results.json").exists()
