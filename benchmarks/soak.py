"""Growth of memory over many operators, sessions and sizes: `python benchmarks/soak.py`.

The benchmark measures the DirectML host program. With `--openvino`, it measures this process over many inferences of a
dynamic model with our operators in C++, because OpenVINO makes new nodes for them at each inference.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import onnx

from sliceport import device
from sliceport.directml.operators import Slice1
from sliceport.directml.tensor import BufferTensor, DataType


def pid_of(dml: device.Device) -> int:
    assert dml._process is not None
    return dml._process.pid


def resident(pid: int) -> int:
    """Return the resident memory in MiB of the largest of a process and its descendants. Pages have 4 KiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    children = [child for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]
    return max([pages * 4 // 1024, *map(resident, map(int, children))])


def reverse(*sizes: int) -> Slice1:
    """Return an operator that reverses the first axis."""
    tensor = BufferTensor.of(DataType.UINT32, sizes)
    return Slice1(tensor, tensor, len(sizes), (0,) * len(sizes), sizes, (-1, *(1 for _ in sizes[1:])))


def session_model() -> bytes:
    """Return a serialized model of a Split and a Slice."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[4, 3] x) => (float[1, 3] y, float[2, 3] b) '
        "<int64[1] starts = {1}, int64[1] ends = {2}> { a, b = Split <axis = 0> (x) y = Slice (a, starts, ends) }"
    )
    return bytes(model.SerializeToString())


def infer_dynamic_models(count: int) -> None:
    """Infer slices with constant and with computed indices, and print the memory of this process."""
    import openvino as ov
    from openvino import opset8

    import ov_ext

    assert ov_ext.backend().name == "native", ov_ext.backend().reason
    source, stop = opset8.parameter([-1, -1, 8], np.float32), opset8.parameter([1], np.int64)
    first = ov_ext.StridedSlice([source, [0, 1], [0, 9], [1, 1]], begin_mask=[1], end_mask=[1])
    second = ov_ext.Slice([first, [1], stop, [1], [2]])
    compiled = ov.Core().compile_model(ov.Model([second], [source, stop], "m"), "CPU", {"INFERENCE_NUM_THREADS": 1})
    request = compiled.create_infer_request()
    tensors = [ov.Tensor(np.ones((2, rows, 8), np.float32)) for rows in range(3, 11)]
    ends = [ov.Tensor(np.array([end])) for end in range(2, 9)]
    started = time.perf_counter()
    for i in range(count):
        request.infer([tensors[i % 8], ends[i % 7]], share_outputs=True)
        if (i + 1) % (count // 10) == 0:
            kib = int(Path("/proc/self/statm").read_text().split()[1]) * 4
            print(f"{i + 1} inferences: {kib} KiB, {time.perf_counter() - started:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", type=int, default=2000)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[16, 64, 256, 1024])
    parser.add_argument("--openvino", action="store_true", help="measure OpenVINO's operators instead of DirectML")
    parser.add_argument("--inferences", type=int, default=100_000, help="with --openvino; default 100000")
    options = parser.parse_args()
    if options.openvino:
        infer_dynamic_models(options.inferences)
        return
    random = np.random.default_rng(0)
    with device.open(timeout=600) as dml:
        dml.facts()
        started = time.perf_counter()
        for i in range(options.operators):
            shape = tuple(random.integers(1, 200, 2).tolist())
            x = random.integers(0, 2**32, shape, dtype=np.uint32)
            (y,) = dml.run(reverse(*shape), x.reshape(-1).view(np.uint8))
            assert np.array_equal(y.view(np.uint32).reshape(shape), x[::-1])
            if (i + 1) % 500 == 0:
                print(f"{i + 1} operators: {resident(pid_of(dml))} MiB, {time.perf_counter() - started:.1f} s")
        model, data = session_model(), np.arange(12, dtype=np.float32).reshape(4, 3)
        started = time.perf_counter()
        for i in range(options.sessions):
            y, b = dml.run_onnx(model, {"x": data}, ["y", "b"])
            assert np.array_equal(y, data[1:2])
            assert np.array_equal(b, data[2:])
            if (i + 1) % 100 == 0:
                print(f"{i + 1} sessions: {resident(pid_of(dml))} MiB, {time.perf_counter() - started:.1f} s")
        for size in options.megabytes:
            data = random.integers(0, 2**32, size * 2**18, dtype=np.uint32)
            started = time.perf_counter()
            (y,) = dml.run(reverse(data.size // 4, 4), data.view(np.uint8))
            is_right = np.array_equal(y.view(np.uint32).reshape(-1, 4), data.reshape(-1, 4)[::-1])
            seconds = time.perf_counter() - started
            print(f"a tensor of {size} MiB reversed: {'right' if is_right else 'WRONG'}, {seconds:.1f} s")


if __name__ == "__main__":
    main()
