"""A whole model on the real DirectML execution provider: which nodes ran where, and how far its outputs are off."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from onnx_ops.compare import locate, onnxruntime_cpu
from onnx_ops.compare.inputs import make_inputs, run_with_inputs
from onnx_ops.dml import device
from onnx_ops.dml.device import CallFailed, HostDied, NodeRun, install
from onnx_ops.errors import ModelError
from onnx_ops.model.load import from_proto
from onnx_ops.model.prepare import inline_functions, name_left_out_outputs

Array = npt.NDArray[Any]

TOLERANCES = {"FLOAT16": 1e-2, "BFLOAT16": 1e-1}
"""How far an output that arithmetic made may be off, over its largest absolute value or 1."""
TOLERANCE = 1e-4
"""The same for all other floats; everything else must be equal bit for bit."""
TIMEOUT = 600.0
_MOST_BYTES = 2**31 - 2**20
_MOVES = frozenset(
    {
        "Concat", "Constant", "ConstantOfShape", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements",
        "GatherND", "Identity", "Pad", "Reshape", "ScatterElements", "ScatterND", "Shape", "Size", "Slice",
        "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
    }
)  # fmt: skip


@dataclass(frozen=True)
class OutputRun:
    """An output of the model.

    Attributes:
        name: Its name.
        element: Its element type.
        shape: Its sizes.
        status: `equal`, `close` (within the tolerance), `different`, or `ran` where nothing was to compare with.
        difference: The largest difference, over the largest absolute value that is expected or 1.
        tolerance: How large it may be; 0 where only data was moved.
    """

    name: str
    element: str
    shape: tuple[int, ...]
    status: Literal["equal", "close", "different", "ran"]
    difference: float | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class WholeRun:
    """A run of a whole model on the DirectML provider.

    Attributes:
        facts: What it ran on: adapter, versions.
        nodes: The nodes that ran, each by itself, and the provider that each was given to.
        outputs: What came out, compared.
        findings: What the provider refuses or computes differently, by node where that was found.
        arrays: The outputs themselves, by name.
    """

    facts: Mapping[str, Any]
    nodes: tuple[NodeRun, ...]
    outputs: tuple[OutputRun, ...]
    findings: tuple[locate.Finding, ...]
    arrays: Mapping[str, Array]

    @property
    def is_clean(self) -> bool:
        """Whether it ran and no output is off."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """The run as JSON values, without the arrays."""
        return {
            "schema_version": 1,
            "facts": dict(self.facts),
            "outputs": [asdict(output) | {"shape": list(output.shape)} for output in self.outputs],
            "nodes": [asdict(node) for node in self.nodes],
            "findings": [asdict(finding) for finding in self.findings],
        }


def run_whole(
    path: str | os.PathLike[str],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Array] | None = None,
    against: bool = False,
    seed: int = 0,
    full: bool | None = None,
) -> WholeRun:
    """Run a model on onnxruntime's DirectML provider, graph fusion on, nodes that it does not take on the CPU.

    Args:
        path: The model's file; its external data are read.
        input_shapes: Sizes for inputs whose shape the model leaves open, by name.
        inputs: Arrays for inputs; random ones that fit are made for the others.
        against: Whether to run onnxruntime's CPU provider too, compare, and find the nodes behind a difference.
        seed: For the random inputs.
        full: Whether to use the installation with every operator; by default where there is one.

    Raises:
        UsageError: An input does not fit.
        ModelError: The model cannot be read, or onnxruntime's CPU provider cannot run it.
        DeviceError: DirectML is not installed, or the host program failed.
        MissingExtra: onnxruntime is not installed and `against` is given.
    """
    given = dict(inputs or {})
    shapes = {name: array.shape for name, array in given.items()} | dict(input_shapes or {})
    model, proto = _read(path)
    names = [output.name for output in proto.graph.output]
    expected: dict[str, onnxruntime_cpu.Captured] = {}
    if against:
        arrays, expected = run_with_inputs(proto, model, shapes, given, seed, names)
    else:
        arrays = make_inputs(model, shapes, given, seed)
    full = install.is_installed(full=True) if full is None else full
    with device.open(full=full, timeout=TIMEOUT) as dml:
        facts = dml.facts()
        serialized = proto.SerializeToString()
        try:
            results = dict(zip(names, dml.run_onnx(serialized, arrays, names, fallback=True), strict=True))
        except (CallFailed, HostDied) as error:
            found = locate.refusals(dml, proto, arrays) if against else ()
            return WholeRun(facts, (), (), found or (_refused_whole(error, against, full),), {})
        nodes = _placement(dml, serialized, arrays, names)
        outputs = tuple(_compared(proto, name, results[name], expected.get(name)) for name in names)
        wrong = [output.name for output in outputs if output.status == "different"]
        findings = locate.differences(dml, proto, arrays, wrong, _is_off) if wrong else ()
    return WholeRun(facts, nodes, outputs, findings, results)


def _refused_whole(error: CallFailed | HostDied, against: bool, full: bool) -> locate.Finding:
    hint = "" if against else f" --against {onnxruntime_cpu.NAME} finds the nodes."
    if not full and "80004005 Call failed" in str(error):
        hint += " This adapter cannot compile every operator; sliceport directml install --full makes one that can."
    return locate.Finding(
        "refused", "", "", f"the DirectML provider refuses the model ({str(error).rstrip('.')}).{hint}"
    )


def _placement(
    dml: device.Device, model: bytes, arrays: Mapping[str, Array], names: Sequence[str]
) -> tuple[NodeRun, ...]:
    """Which provider each node is given to; nodes that only run fused come out as what they are fused into."""
    try:
        return tuple(dml.trace_onnx(model, arrays, names)[1])
    except (CallFailed, HostDied):
        return tuple(dml.trace_onnx(model, arrays, names, fusion=True)[1])


def _read(path: str | os.PathLike[str]) -> tuple[ir.Model, onnx.ModelProto]:
    """The model with its weights in it, functions inlined and every node named."""
    try:
        proto = onnx.load(os.fspath(path))
    except OSError as error:
        raise ModelError(f"{os.fspath(path)!r}: it cannot be read ({error.strerror or error}).") from None
    except Exception as error:  # protobuf's errors, and onnx's about external data
        raise ModelError(f"{os.fspath(path)!r}: it is not an ONNX model ({' '.join(str(error).split())}).") from None
    if proto.ByteSize() > _MOST_BYTES:
        raise ModelError(f"{os.fspath(path)!r}: with its weights it is larger than 2 GiB, which the host cannot load.")
    model = from_proto(proto)
    inline_functions(model)
    name_left_out_outputs(model)
    for node in model.graph.all_nodes():
        node.name = node.name or next((output.name for output in node.outputs if output.name), "")
    return model, ir.serde.serialize_model(model)


def _compared(proto: onnx.ModelProto, name: str, got: Array, expected: onnxruntime_cpu.Captured | None) -> OutputRun:
    dtype = ir.DataType.from_numpy(got.dtype)
    if expected is None:
        return OutputRun(name, dtype.name, got.shape, "ran")
    tolerance = 0.0 if _only_moves(proto, name) else allowed(dtype)
    difference = off_by(got, expected)
    status: Literal["equal", "close", "different"] = "equal"
    if difference:
        status = "close" if difference <= tolerance else "different"
    return OutputRun(name, dtype.name, got.shape, status, difference, tolerance)


def allowed(dtype: ir.DataType) -> float:
    """How far an output of this type may be off that arithmetic made."""
    return TOLERANCES.get(dtype.name, TOLERANCE) if dtype.is_floating_point() else 0.0


def off_by(got: Array, expected: onnxruntime_cpu.Captured) -> float:
    """The largest difference over the largest expected absolute value or 1; 0 exactly where all bytes are equal."""
    if got.shape != expected.shape:
        return float("inf")
    flat = np.ascontiguousarray(got).reshape(-1)
    if not flat.size or flat.view(np.uint8).tobytes() == expected.data.tobytes():
        return 0.0
    want = expected.data.view(got.dtype)
    if got.dtype.kind in "biu":
        return float("inf")
    a, b = flat.astype(np.complex128), want.astype(np.complex128)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(b)
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.where(finite & np.isfinite(a), np.abs(a - b), np.inf)).max()
    scale = max(1.0, float(np.abs(b[finite]).max(initial=0.0)))
    return max(float(difference) / scale, np.finfo(np.float64).tiny)


def _is_off(got: Array, expected: onnxruntime_cpu.Captured) -> bool:
    return off_by(got, expected) > allowed(ir.DataType.from_numpy(got.dtype))


def _only_moves(proto: onnx.ModelProto, output: str) -> bool:
    """Whether everything that an output is computed from only moves data."""
    makers = {name: node for node in proto.graph.node for name in node.output}
    front, seen = [output], set()
    while front:
        node = makers.get(front.pop())
        if node is None or id(node) in seen:
            continue
        if node.op_type not in _MOVES or node.domain not in ("", "ai.onnx"):
            return False
        seen.add(id(node))
        front += node.input
    return True
