"""A slice that the DirectML provider refuses to fuse gets a Concat of one operand, and no other slice does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import pytest
from onnx_models import parse
from platforms import require_shader_model_6
from sessions import compute

from onnx_ops.model.io import from_proto
from onnx_ops.passes.directml.harden import harden_for_directml
from sliceport import device
from sliceport.device import CallFailed

SHAPE = (1, 8, 4)


def chain(body: str, output: str = "a,b,c", shape: tuple[int, ...] = SHAPE) -> ir.Model:
    sizes = ",".join(map(str, shape))
    bounds = ", ".join(f"int64[1] {name} = {{{value}}}" for name, value in zip(NAMES, (1, 4, 5, 8), strict=True))
    constants = f"{bounds}, int64[2] halves = {{4, 4}}, float k = {{3}}"
    return from_proto(parse(f"(float[{sizes}] x) => (float[{output}] y) <{constants}> {{ {body} }}", 13))


NAMES = ("one", "four", "five", "eight")
REFUSED = {
    "p = Relu(x)  q = Slice(p, four, eight, one)  y = Relu(q)": "a,b,c",
    "p = Softmax(x)  q = Slice(p, four, five, one)  y = Sigmoid(q)": "a,b,c",
    "p = Relu(x)  a, q = Split<axis = 1>(p, halves)  y = Mul(q, k)": "a,b,c",
    "p = Relu(x)  q = Slice(p, four, eight, one)  r = Unsqueeze(q, one)  y = Exp(r)": "a,b,c,d",
    "p = Relu(x)  q = Slice(p, four, eight, one)  y = Clip(q, k, k)": "a,b,c",
    "p = Relu(x)  q = Slice(p, four, eight, one)  y = Pow(q, k)": "a,b,c",
    "p = Relu(x)  q = Slice(p, four, eight, one)  y = Max(k, q)": "a,b,c",
    "p = Relu(x)  q = Slice(p, four, eight, one)  y = Mod<fmod = 1>(q, k)": "a,b,c",
    "p = Relu(x)  q = Slice(p, four, eight, one)  y = CumSum(q, one)": "a,b,c",
    "p = Relu(x)  q = Slice(p, four, eight, one)  y = Shrink(q)": "a,b,c",
    "p = Less(x, k)  q = Slice(p, four, eight, one)  r = Not(q)  y = Cast<to = 1>(r)": "a,b,c",
    "p = Relu(x)  r = Squeeze(p)  q = Slice(r, four, eight)  y = Exp(q)": "a,b",
}
TAKEN = [
    "q = Slice(x, four, eight, one)  y = Relu(q)",
    "p = Relu(x)  y = Slice(p, four, eight, one)",
    "p = Relu(x)  q = Slice(p, four, eight, one)  y = Mul(q, q)",
    "p = Relu(x)  q = Slice(p, four, eight, one)  y = Softmax(q)",
    "p = Relu(x)  q = Slice(p, four, eight, one)  y = Max(q, k, k)",
    "p = Relu(x)  q = Slice(p, four, eight, one)  y = Sum(q)",
    "p = Relu(x)  q = Slice(p, four, eight, one)  r = Cast<to = 11>(q)  y = Cast<to = 1>(r)",
    "p = Relu(x)  q = Slice(p, four, eight, one)  r = Relu(q)  y = Concat<axis = 1>(p, r)",
    "p = Relu(x)  a, q = Split<axis = 1>(p, halves)  y = Add(a, q)",
]


@pytest.fixture(scope="module")
def provider(directml: device.Device) -> Iterator[device.Device]:
    """Open a device with the heaps of deployment: with smaller ones an Exp of more axes ends the host."""
    with device.open() as opened:
        yield opened


@pytest.mark.parametrize(("body", "output"), REFUSED.items())
def test_refused_slice_runs_behind_a_concat(provider: device.Device, body: str, output: str) -> None:
    model, data = chain(body, output), np.random.default_rng(2).standard_normal(SHAPE, np.float32)
    with pytest.raises(CallFailed, match="80070057"):
        provider.run_onnx(ir.serde.serialize_model(model).SerializeToString(), {"x": data}, ["y"])
    (before,) = compute(ir.serde.serialize_model(model), x=data)
    (change,) = harden_for_directml(model).changes
    assert change.replacement == f"{change.op} + Concat"
    after = ir.serde.serialize_model(model)
    assert compute(after, x=data)[0].tobytes() == before.tobytes()
    (got,) = provider.run_onnx(after.SerializeToString(), {"x": data}, ["y"])
    np.testing.assert_allclose(got, before, rtol=1e-4, atol=1e-5)
    assert harden_for_directml(model).changes == ()


@pytest.mark.parametrize("body", TAKEN)
def test_slice_that_the_provider_takes_stays(provider: device.Device, body: str) -> None:
    require_shader_model_6(provider)
    model, data = chain(body), np.random.default_rng(2).standard_normal(SHAPE, np.float32)
    assert harden_for_directml(model).changes == ()
    (got,) = provider.run_onnx(ir.serde.serialize_model(model).SerializeToString(), {"x": data}, ["y"])
    np.testing.assert_allclose(got, compute(ir.serde.serialize_model(model), x=data)[0], rtol=1e-4, atol=1e-5)


def test_slice_of_backward_rows_stays(provider: device.Device) -> None:
    """The first element that it selects is at a multiple of 16 bytes, but its elements are not one run."""
    bounds = "int64[2] s = {0, -1}, int64[2] e = {4, -9}, int64[2] a = {1, 2}, int64[2] t = {1, -1}"
    body = "{ p = Relu(x)  q = Slice(p, s, e, a, t)  y = Relu(q) }"
    proto = parse(f"(float[1, 8, 5] x) => (float[a, b, c] y) <{bounds}> {body}", 13)
    assert harden_for_directml(from_proto(proto)).changes == ()
    data = np.random.default_rng(2).standard_normal((1, 8, 5), np.float32)
    (got,) = provider.run_onnx(proto.SerializeToString(), {"x": data}, ["y"])
    np.testing.assert_array_equal(got, compute(proto, x=data)[0])


@pytest.mark.parametrize("shape", [(2, 8, 4), (1, 8, 1), (1, 9, 3)])
def test_parts_of_several_runs_or_at_other_addresses_stay(shape: tuple[int, ...]) -> None:
    starts = "five" if shape[-1] == 3 else "four"
    starts = "one" if shape[-1] == 1 else starts
    model = chain(f"p = Relu(x)  q = Slice(p, {starts}, eight, one)  y = Relu(q)", shape=shape)
    assert harden_for_directml(model).changes == ()
