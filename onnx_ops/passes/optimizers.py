"""Optimizers of whole graphs that others have written, called in a child of the sandbox."""

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
from sliceport.errors import MissingExtra, ModelError, unknown_name
from sliceport.sandbox import supervisor
from sliceport.wording import shorten

ONNXSCRIPT, ONNXSLIM, ONNXRUNTIME = "onnxscript", "onnxslim", "onnxruntime"
OPTIMIZERS = (ONNXSCRIPT, ONNXSLIM, ONNXRUNTIME)
"""By the packages; the first is installed with sliceport. `run_optimizer` takes all but the last."""
MIN_OPSET_OF_ONNXSLIM = 7
"""The first operator set that onnxruntime's symbolic shape inference takes, of which OnnxSlim has a copy."""
_INTEGERS_OPSET = 12
_NO_OPSET = 2**31
_RULE_OPSETS = {
    "SlicesSplit": _NO_OPSET,
    "MaterializeReshapeShape": 14,
    **dict.fromkeys(("FuseMinMaxToClip", "FuseMaxMinToClip", "FuseSuccessiveClip"), 11),
    **dict.fromkeys(("FuseSuccessiveClipRelu", "FuseSuccessiveReluClip"), 11),
}
"""The operator sets from which on rules of onnxscript's optimizer hold."""


def check_optimizers(names: Sequence[str]) -> None:
    """Return whether they can take part.

    Raises:
        UsageError: One is not known.
        MissingExtra: One is not installed.
    """
    for name in names:
        if name not in OPTIMIZERS:
            raise unknown_name("optimizer", name, OPTIMIZERS)
        if importlib.util.find_spec(name) is None:
            raise MissingExtra.of(name, name, "to simplify by it")


def run_optimizer(name: str, model: ir.Model) -> ir.Model:
    """Run an optimizer on a model in a worker process and return the optimized model.

    Args:
        name: One of `OPTIMIZERS` but the last.
        model: The model, with no weights; it is not changed.

    Raises:
        ModelError: The optimizer fails or crashes, or makes an invalid model of a valid one.
    """
    try:
        serialized = ir.serde.serialize_model(model).SerializeToString()
        optimized = supervisor.call(run_checked, _FUNCTIONS[name], serialized)
        return ir.serde.deserialize_model(onnx.ModelProto.FromString(optimized))
    except (MemoryError, supervisor.ChildLost):
        raise
    except supervisor.ChildDied as error:
        raise ModelError(f"its process {error}.") from None
    except Exception as error:
        reason = shorten(str(error)).rstrip(".")
        raise ModelError(f"{reason or type(error).__name__}.") from error


def run_checked(function: Callable[[bytes], bytes], model: bytes) -> bytes:
    """Call a function of a serialized model, but do not mind what it says of the types of values.

    Args:
        function: The function.
        model: The model.

    Raises:
        ValueError: It makes an invalid model of a valid one.
    """
    before = onnx.ModelProto.FromString(model)
    was_valid = _complain(before) is None
    made = function(model)
    complaint = _complain(_with_types_of(before, onnx.ModelProto.FromString(made))) if was_valid else None
    if complaint is not None:
        raise ValueError(f"it makes an invalid model: {complaint}")
    return made


def _with_types_of(before: onnx.ModelProto, after: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose values have the types that they had before, which `optimize` gives them again."""
    types = {value.name: value for value in before.graph.output}
    for value in after.graph.output:
        if value.name in types:
            value.CopyFrom(types[value.name])
    del after.graph.value_info[:]
    return after


def _complain(proto: onnx.ModelProto) -> str | None:
    """Return the error that onnx's checker raises, or None if the model is valid."""
    proto.ir_version = max(proto.ir_version, REPLACEABLE_VERSION)  # before, it wants each initializer to be an input
    try:
        onnx.checker.check_model(proto)
    except Exception as error:
        return str(error)
    return None


def by_onnxscript(model: bytes) -> bytes:
    """Return a serialized model as onnxscript's optimizer makes it.

    One of its rules takes Slices into x[..., : n // 2] and x[..., n // 2 :] for a Split into equal parts. The first
    part is the larger one if n is odd, and the Split needs operator set 18. Some rules write what only later operator
    sets have.
    """
    from onnxscript import optimizer, rewriter

    logging.disable(logging.WARNING)
    graph = ir.serde.deserialize_model(onnx.ModelProto.FromString(model))
    opset = standard_opset(graph.opset_imports)
    every = rewriter._DEFAULT_REWRITE_RULES
    # The optimizer has no option for its rules. The process may serve models of other operator sets later.
    rewriter._DEFAULT_REWRITE_RULES = tuple([rule for rule in every if _RULE_OPSETS.get(rule.name or "", 0) <= opset])
    try:
        optimizer.optimize_ir(graph)
    finally:
        rewriter._DEFAULT_REWRITE_RULES = every
    if opset < _INTEGERS_OPSET:
        _write_integers_as_tensors(graph)
    serialized: bytes = ir.serde.serialize_model(graph).SerializeToString()
    return serialized


def _write_integers_as_tensors(model: ir.Model) -> None:
    """Write the value_int and value_ints of Constant nodes as tensors, the one form that old operator sets have."""
    for node in model.graph.all_nodes():
        if is_standard(node, "Constant") and "value" not in node.attributes:
            tensor = constant(node.outputs[0])
            if tensor is not None:
                node.attributes.clear()
                node.attributes["value"] = ir.AttrTensor("value", tensor)


def by_onnxslim(model: bytes) -> bytes:
    """Return a serialized model as OnnxSlim makes it.

    By itself it takes an open size that meets another one in an operator that broadcasts for equal to that, and not
    for 1.

    Raises:
        ValueError: Its operator set is too old.
    """
    os.environ["ONNXSLIM_AUTO_MERGE"] = "0"  # it is read when OnnxSlim is imported, in the worker process alone
    import onnxslim

    logging.disable(logging.WARNING)
    proto = onnx.ModelProto.FromString(model)
    imports = {entry.domain: entry.version for entry in proto.opset_import}
    opset = standard_opset(imports, default=MIN_OPSET_OF_ONNXSLIM)
    if opset < MIN_OPSET_OF_ONNXSLIM:
        raise ValueError(f"it takes operator sets from {MIN_OPSET_OF_ONNXSLIM} on, the model has {opset}")
    for value in proto.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")  # it relies on the rank, which may be wrong
    serialized: bytes = onnxslim.slim(proto).SerializeToString()
    return serialized


_FUNCTIONS: dict[str, Callable[[bytes], bytes]] = {ONNXSCRIPT: by_onnxscript, ONNXSLIM: by_onnxslim}
