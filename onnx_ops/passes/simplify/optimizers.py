"""Optimizers of whole graphs from other packages, called in a child of the sandbox."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Sequence

import onnx
import onnx_ir as ir

from onnx_ops.model.check import REPLACEABLE_VERSION
from onnx_ops.model.domains import standard_opset
from onnx_ops.model.nodes import constant, is_standard
from onnx_ops.model.read import to_bytes
from sliceport.errors import MissingExtra, ModelError, model_error, unknown_name
from sliceport.sandbox import supervisor
from sliceport.sandbox.child_process import ChildDied, ChildLost
from sliceport.wording import shorten

ONNXSCRIPT, ONNXSLIM, ONNXRUNTIME = "onnxscript", "onnxslim", "onnxruntime"
OPTIMIZERS = (ONNXSCRIPT, ONNXSLIM, ONNXRUNTIME)
"""Optimizers, by their packages. onnxscript is installed with sliceport. `FoldByOnnxruntimePass` folds constants by
onnxruntime, and `run_optimizer` runs the other optimizers."""
MIN_OPSET_OF_ONNXSLIM = 7
"""The first operator set that OnnxSlim accepts: it copied this limit from onnxruntime's symbolic shape inference."""
_NUMBERS_OPSET = 12
"""The first operator set whose Constant has attributes for numbers, such as value_int."""
_RULE_OPSETS = {
    "SlicesSplit": 2**31,  # no operator set: the rule is never applied
    "MaterializeReshapeShape": 14,
    **dict.fromkeys(("FuseMinMaxToClip", "FuseMaxMinToClip", "FuseSuccessiveClip"), 11),
    **dict.fromkeys(("FuseSuccessiveClipRelu", "FuseSuccessiveReluClip"), 11),
}
"""For some rules of onnxscript's optimizer, the first operator set in which the rule is applied."""


def check_optimizers(names: Sequence[str]) -> None:
    """Check that each name is the name of an installed optimizer.

    Raises:
        UsageError: A name is not the name of an optimizer.
        MissingExtra: An optimizer is not installed.
    """
    for name in names:
        if name not in OPTIMIZERS:
            raise unknown_name("optimizer", name, OPTIMIZERS)
        if importlib.util.find_spec(name) is None:
            purpose = f"by the optimizer {name!r}"
            if name == ONNXSCRIPT:  # no extra installs onnxscript, because sliceport depends on it
                advice = "but it is not installed; run: pip install --force-reinstall sliceport."
                raise MissingExtra(f"{name} is needed {purpose}, {advice}")
            raise MissingExtra.of(name, name, purpose)


def run_optimizer(name: str, model: ir.Model) -> ir.Model:
    """Run an optimizer on a model in a worker process and return the optimized model.

    Args:
        name: `ONNXSCRIPT` or `ONNXSLIM`.
        model: The model, without weights. It is not changed.

    Raises:
        ModelError: The optimizer fails or crashes, or makes an invalid model of a valid one; or a model cannot be
            serialized. In the message, "it" is the optimizer: callers put its name before the message.
        MemoryError, ChildLost: The machine lacks memory, or ended the worker process.
    """
    try:
        serialized = to_bytes(ir.serde.serialize_model(model), "the model")
        optimized = supervisor.call(run_checked, _FUNCTIONS[name], serialized)
        return ir.serde.deserialize_model(onnx.ModelProto.FromString(optimized))
    except (MemoryError, ChildLost):
        raise
    except ChildDied as error:
        raise ModelError(f"its process {error}.") from None
    except Exception as error:
        reason = shorten(str(error)).rstrip(".")
        raise model_error(f"{reason or type(error).__name__}.", error) from error


def run_checked(function: Callable[[bytes], bytes], model: bytes) -> bytes:
    """Return the optimized model `function(model)`, and check that it is valid. Both models are serialized.

    Raises:
        ValueError: The function makes an invalid model of a valid one. Errors of the function itself pass through.
    """
    before = onnx.ModelProto.FromString(model)
    was_valid = _find_error(before) is None
    optimized = function(model)
    # `optimize` restores the types of outputs and removes all inferred types, so mistakes in these types do not matter.
    after = onnx.ModelProto.FromString(optimized)
    outputs_before = {value.name: value for value in before.graph.output}
    for value in after.graph.output:
        if value.name in outputs_before:
            value.CopyFrom(outputs_before[value.name])
    del after.graph.value_info[:]
    error = _find_error(after) if was_valid else None
    if error is not None:
        raise ValueError(f"it makes an invalid model: {error}")
    return optimized


def _find_error(proto: onnx.ModelProto) -> str | None:
    """Return the message of onnx's checker, or None if the model is valid. `proto` may get a later IR version."""
    # For older IR versions, the checker requires each initializer to be an input.
    proto.ir_version = max(proto.ir_version, REPLACEABLE_VERSION)
    try:
        onnx.checker.check_model(proto)
    except Exception as error:
        return str(error)
    return None


def by_onnxscript(model: bytes) -> bytes:
    """Optimize a serialized model by onnxscript's optimizer.

    The rule `SlicesSplit` is left out. It replaces Slices into x[..., : n // 2] and x[..., n // 2 :] by a Split into
    equal parts, which is wrong for an odd n, because the first part of the Split is the larger one. A rule that writes
    operators of a later operator set than the model's is left out, too; see `_RULE_OPSETS`.
    """
    from onnxscript import optimizer, rewriter

    logging.disable(logging.WARNING)
    ir_model = ir.serde.deserialize_model(onnx.ModelProto.FromString(model))
    opset = standard_opset(ir_model.opset_imports)
    all_rules = rewriter._DEFAULT_REWRITE_RULES
    # The optimizer has no option for its rules. `finally` restores them, because the process may serve other models.
    applied = [rule for rule in all_rules if _RULE_OPSETS.get(rule.name or "", 0) <= opset]
    rewriter._DEFAULT_REWRITE_RULES = tuple(applied)
    try:
        optimizer.optimize_ir(ir_model)
    finally:
        rewriter._DEFAULT_REWRITE_RULES = all_rules
    if opset < _NUMBERS_OPSET:
        _write_numbers_as_tensors(ir_model)
    return to_bytes(ir.serde.serialize_model(ir_model), "the optimized model")


def _write_numbers_as_tensors(model: ir.Model) -> None:
    """Write the numbers of Constant nodes as tensors, the only form in old operator sets."""
    # `constant` returns None for strings. A Constant with strings stays as it was given.
    for node in model.graph.all_nodes():
        if is_standard(node, "Constant") and "value" not in node.attributes:
            tensor = constant(node.outputs[0])
            if tensor is not None:
                node.attributes.clear()
                node.attributes["value"] = ir.AttrTensor("value", tensor)


def by_onnxslim(model: bytes) -> bytes:
    """Optimize a serialized model by OnnxSlim.

    OnnxSlim's automatic merge is switched off: if two open sizes are broadcast, it assumes that they are equal,
    although one may be 1.

    Raises:
        ValueError: The operator set of the model is too old. Errors of OnnxSlim and of `to_bytes` pass through.
    """
    os.environ["ONNXSLIM_AUTO_MERGE"] = "0"  # OnnxSlim reads this on import; only this worker imports OnnxSlim
    import onnxslim

    logging.disable(logging.WARNING)
    proto = onnx.ModelProto.FromString(model)
    imports = {entry.domain: entry.version for entry in proto.opset_import}
    opset = standard_opset(imports, default=MIN_OPSET_OF_ONNXSLIM)
    if opset < MIN_OPSET_OF_ONNXSLIM:
        raise ValueError(f"it accepts operator sets from {MIN_OPSET_OF_ONNXSLIM} on, the model has {opset}")
    for value in proto.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")  # OnnxSlim relies on the rank, which may be wrong
    return to_bytes(onnxslim.slim(proto), "the optimized model")


_FUNCTIONS: dict[str, Callable[[bytes], bytes]] = {ONNXSCRIPT: by_onnxscript, ONNXSLIM: by_onnxslim}
