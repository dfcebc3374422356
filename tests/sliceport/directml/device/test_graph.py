"""Lowered programs of several operators as one DirectML graph: equal to the same run one by one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import parser
from processes import host_of, resident
from running import run_call

import sliceport
from sliceport.directml import device
from sliceport.directml.emulator import Bytes
from sliceport.directml.operators import Slice1
from sliceport.directml.program import Call
from sliceport.directml.tensor import BufferTensor, DataType
from sliceport.errors import InvalidDescriptor

MODELS = Path(__file__).parents[4] / "models"


def one_by_one(calls: Sequence[Call], values: dict[str, Bytes]) -> dict[str, Bytes]:
    known = dict(values)
    for call in calls:
        known |= run_call(call, known)
    return {name: data for name, data in known.items() if name not in values}


def buffers(calls: Sequence[Call], seed: int) -> dict[str, Bytes]:
    """Random bytes for every value that is read and not written."""
    random = np.random.default_rng(seed)
    written = {binding.value for call in calls for binding in call.outputs}
    sizes: dict[str, int] = {}
    for call in calls:
        if call.input.value not in written:
            reach = call.input.byte_offset + call.operator.input_tensor.total_tensor_size_in_bytes
            sizes[call.input.value] = max(reach, sizes.get(call.input.value, 0))
    return {name: random.integers(0, 256, size).astype(np.uint8) for name, size in sizes.items()}


CHAIN = """<ir_version: 9, opset_import: ["" : 13]>
g (float[4,6] x) => (float[2,2] b, float[2,1] c, float[3,6] d) {
    s = Constant <value_ints = [0, 1]> ()
    e = Constant <value_ints = [4, 6]> ()
    k = Constant <value_ints = [2, 1]> ()
    axes = Constant <value_ints = [0, 1]> ()
    a = Slice (x, s, e, axes, k)
    p = Constant <value_ints = [2, 1, 2]> ()
    b, c, unused = Split <axis = 1> (a, p)
    one = Constant <value_ints = [1]> ()
    four = Constant <value_ints = [4]> ()
    zero = Constant <value_ints = [0]> ()
    d = Slice (x, one, four, zero)
}"""


@pytest.mark.parametrize("views", [False, True])
def test_chain_in_one_graph_equals_single_operators(directml: device.Device, views: bool) -> None:
    program = sliceport.lower(parser.parse_model(CHAIN), views=views)
    assert len(program.calls) >= 3
    values = buffers(program.calls, 0)
    got, want = directml.run_calls(program.calls, values), one_by_one(program.calls, values)
    assert got.keys() == want.keys()
    assert all(np.array_equal(got[name], want[name]) for name in want)


@pytest.mark.parametrize("name", ["dynamo_encoder", "dynamo_flips", "ts_focus_10", "ts_gru_cell_9", "ts_types_18"])
def test_graphs_of_models_equal_single_operators(directml: device.Device, name: str) -> None:
    program = sliceport.lower(MODELS / f"{name}.onnx")
    assert len(program.calls) > 2
    values = buffers(program.calls, 1)
    got, want = directml.run_calls(program.calls, values), one_by_one(program.calls, values)
    assert got.keys() == want.keys()
    assert all(np.array_equal(got[name], want[name]) for name in want)


def test_a_short_buffer_is_refused(directml: device.Device) -> None:
    program = sliceport.lower(parser.parse_model(CHAIN))
    with pytest.raises(InvalidDescriptor, match="a tensor in value 'x' ends at byte 96, but its buffer has 8"):
        directml.run_calls(program.calls, {"x": np.zeros(8, np.uint8)})


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_two_thousand_operators_in_one_process(directml: device.Device) -> None:
    """Compiled operators are kept up to a bound, everything else is released: memory stays where it was."""
    data = np.arange(64, dtype=np.uint8)
    after_first = 0
    for i in range(2000):
        source, target = BufferTensor.of(DataType.UINT8, (64,)), BufferTensor.of(DataType.UINT8, (1 + i % 40,))
        operator = Slice1(source, target, 1, (i % 20,), (1 + i % 40,), (1,))
        (got,) = directml.run(operator, data)
        assert np.array_equal(got[: 1 + i % 40], data[i % 20 : i % 20 + 1 + i % 40])
        if i == 200:
            after_first = resident(host_of(directml))
    assert resident(host_of(directml)) < after_first + 100 * 2**20
