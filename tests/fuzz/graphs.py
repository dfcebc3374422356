"""Random ONNX graphs of slicing, before and after every pass.

Graphs hold what passes meet: functions whose attributes calls set, initializers that a caller may replace, nodes that
no node reads, empty tensors, `ov_ext::StridedSlice`, branches and loops, nodes that engines read differently, every
operator set. A case is right if onnxruntime's CPU provider computes the same before and after, if the result loads and
is well-formed, and if a second run changes nothing.
"""

from __future__ import annotations

import base64
import random as random_module
from typing import Any
from unittest import mock

import inferred_once
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator
from running import as_arrays
from sessions import open_session

from onnx_ops import strided_slice_op
from onnx_ops.infer import inference
from onnx_ops.model.io import from_proto
from onnx_ops.model.nodes import CONTESTED
from onnx_ops.passes import PASSES, rewrite, simplify
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.directml.harden import harden_for_directml
from onnx_ops.passes.portable.harden import harden_portably
from sliceport.defects.profiles import PROFILES
from sliceport.hardening import Hardening

from .graph_builder import Builder, numbers
from .modules import Case

BUDGET = 120
Outcomes = list[list[tuple[tuple[int, ...], bytes]] | str | None] | str
REUSED_BUFFER = "Shape mismatch attempting to re-use buffer"
"""onnxruntime plans memory by the symbols of shapes, and sometimes gives one symbol to sizes that differ."""
SHAPE_INFERENCE = "[ShapeInferenceError]"
"""onnxruntime infers other shapes of nodes that engines read differently than it computes, where it knows enough."""
_MAX_MESSAGE = 600


def generate(random: random_module.Random) -> Case:
    """Return a model, the shapes and values to run it with, and the passes to try by themselves."""
    return Builder(random).build()


@mock.patch.object(inference, "_propagate", inferred_once.propagate)  # the ways come by the same models
def check(case: Case) -> str | None:
    """Return a complaint if a pass changes a result or leaves work to a second run."""
    before = onnx.ModelProto.FromString(base64.b64decode(case["model"]))
    expected = _outcomes(before, case)
    if isinstance(expected, str) or not any(expected):
        return None  # onnxruntime does not run it
    is_well_formed = _complaint(before) is None
    seen_before: dict[bytes, tuple[str | None, Outcomes]] = {}  # by ways that came to the same model
    ways = {"default": None, "all": tuple(PASSES), **{name: (name,) for name in case["passes"]}}
    if case.get("simplifies"):
        ways["simplify"] = None
    for way, names in (*ways.items(), ("harden", None), ("portable", None)):
        model = from_proto(before)
        try:
            if way == "simplify":
                model, _ = simplify(model)
            elif way == "harden":
                harden_for_directml(model)
            elif way == "portable":
                _write_portably(model)
            else:
                rewrite(model) if names is None else rewrite(model, names)
        except Exception as error:
            return f"{way}: {type(error).__name__}: {error}"
        after = ir.serde.serialize_model(model)
        for node in model.graph.all_nodes():
            if any(reader.graph is None for output in node.outputs for reader in output.consumers()):
                return f"{way}: {node.op_type} {node.name!r} is still read by a node that is in no graph"
        written = after.SerializeToString(deterministic=True)
        if written not in seen_before:
            seen_before[written] = _complaint(after) if is_well_formed else None, _outcomes(after, case)
        complaint, actual = seen_before[written]
        if complaint is not None:
            return f"{way}: not well-formed: {complaint}"
        if isinstance(actual, str):
            if REUSED_BUFFER in actual or (SHAPE_INFERENCE in actual and _is_contested(before)):
                continue
            return f"{way}: does not load: {actual}"
        for i, (wanted, seen) in enumerate(zip(expected, actual, strict=True)):
            if isinstance(seen, str) and REUSED_BUFFER in seen:
                continue
            if wanted is not None and not isinstance(wanted, str) and wanted != seen and _is_sound(before, case, i):
                shown = seen if isinstance(seen, str) else [shape for shape, _ in seen or ()]
                return f"{way}: other values: {[shape for shape, _ in wanted]} became {shown}"
        problem = None if way == "simplify" else _second_run(way, names, after)
        if problem is not None:
            return problem
    return None


def _write_portably(model: ir.Model) -> Hardening:
    return harden_portably(model, PROFILES["portable"], raises_opset=False)[1]


def _is_contested(proto: onnx.ModelProto) -> bool:
    """Whether engines read a node of a model differently."""
    model = from_proto(proto)
    Analysis(model, folding=True)  # which marks them
    return any(CONTESTED in node.meta for node in model.graph.all_nodes())


def _second_run(way: str, names: tuple[str, ...] | None, after: onnx.ModelProto) -> str | None:
    """Return a complaint if a second run changes the file that a first one wrote."""
    again = from_proto(after)
    whole = ir.serde.serialize_model(again)
    if way in ("harden", "portable"):
        report = harden_for_directml(again) if way == "harden" else _write_portably(again)
        changes = [change for change in report.changes if change.replacement is not None]
        if changes:
            return f"{way}: a second run changes {changes[0].op} {changes[0].node!r}"
    else:
        rewriting = rewrite(again) if names is None else rewrite(again, names)
        for name, done in rewriting.changes.items():
            if done:
                return f"{way}: a second run changes {done[0].op} {done[0].node!r} by {name}: {done[0].replacement}"
    if ir.serde.serialize_model(again) != whole:
        return f"{way}: a second run changes the file"
    return None


def _complaint(proto: onnx.ModelProto) -> str | None:
    """Return the reason why a model is not well-formed, if it is not."""
    try:
        onnx.checker.check_model(proto)
    except Exception as error:
        return " ".join(str(error).split())[:200]
    return None


def _runnable(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that onnxruntime runs: with the body of `ov_ext::StridedSlice` as a function."""
    if not any(entry.domain == "ov_ext" for entry in proto.opset_import):
        return proto
    model = from_proto(proto)
    strided_slice_op.embed_function(model)
    runnable: onnx.ModelProto = ir.serde.serialize_model(model)
    return runnable


def _feeds(case: Case, names: set[str]) -> list[dict[str, npt.NDArray[Any]]]:
    """Return the feeds: each shape by itself, and with other values for replaceable initializers."""
    replaced = {name: np.array(values[0], np.int64) for name, values in case["feeds"].items() if name in names}
    return [
        {"x": numbers(sizes), **more}
        for sizes in case["sizes"]
        for more in [{}, *([replaced] if case["feeds"] else [])]
    ]


def _is_sound(proto: onnx.ModelProto, case: Case, index: int) -> bool:
    """Whether a model takes what it is fed; onnxruntime joins what does not fit, and leaves memory unwritten."""
    inputs = {value.name for value in proto.graph.input}
    try:
        ReferenceEvaluator(_runnable(proto)).run(None, _feeds(case, inputs)[index])
    except Exception:
        return False
    return True


def _outcomes(proto: onnx.ModelProto, case: Case) -> Outcomes:
    """Return the results or the error of each feed; only the error if the model does not load."""
    try:
        session = open_session(_runnable(proto), optimized=False)
    except Exception as error:
        return " ".join(str(error).split())[:_MAX_MESSAGE]
    names = {value.name for value in session.get_overridable_initializers()}
    outcomes: list[list[tuple[tuple[int, ...], bytes]] | str | None] = []
    for feed in _feeds(case, names):
        try:
            results = session.run(None, feed)
        except Exception as error:
            outcomes.append(" ".join(str(error).split())[:_MAX_MESSAGE])
        else:
            outcomes.append([(array.shape, array.tobytes()) for array in as_arrays(results)])
    return outcomes if not all(isinstance(outcome, str) for outcome in outcomes) else str(outcomes[0])
