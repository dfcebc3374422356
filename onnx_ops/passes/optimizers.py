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
from sliceport.errors import MissingExtra, ModelError, unknown_name
from sliceport.sandbox import supervisor
from sliceport.wording import shorten

ONNXSCRIPT, ONNXSLIM, ONNXRUNTIME = "onnxscript", "onnxslim", "onnxruntime"
OPTIMIZERS = (ONNXSCRIPT, ONNXSLIM, ONNXRUNTIME)
"""By the packages; the first is installed with sliceport. `run_optimizer` takes all but the last."""
MIN_OPSET_OF_ONNXSLIM = 7
"""The first operator set that onnxruntime's symbolic shape inference takes, of which OnnxSlim has a copy."""


def check_optimizers(names: Sequence[str]) -> None:
    """Whether they can take part.

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
    """A model as an optimizer makes it.

    Args:
        name: One of `OPTIMIZERS`.
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
        raise ModelError(f"it cannot be simplified by {name}: its process {error}.") from None
    except Exception as error:
        reason = shorten(str(error)).rstrip(".")
        raise ModelError(f"it cannot be simplified by {name}: {reason or type(error).__name__}.") from error


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
        raise ValueError(f"it makes an invalid model of it: {complaint}")
    return made


def _with_types_of(before: onnx.ModelProto, after: onnx.ModelProto) -> onnx.ModelProto:
    """A model whose values have the types that they had before, which `optimize` gives them again."""
    types = {value.name: value for value in before.graph.output}
    for value in after.graph.output:
        if value.name in types:
            value.CopyFrom(types[value.name])
    del after.graph.value_info[:]
    return after


def _complain(proto: onnx.ModelProto) -> str | None:
    """What onnx's checker finds; None where it finds nothing."""
    proto.ir_version = max(proto.ir_version, REPLACEABLE_VERSION)  # before, it wants each initializer to be an input
    try:
        onnx.checker.check_model(proto)
    except Exception as error:
        return str(error)
    return None


def by_onnxscript(model: bytes) -> bytes:
    """A serialized model as onnxscript's optimizer makes it.

    One of its rules takes Slices into x[..., : n // 2] and x[..., n // 2 :] for a Split into equal parts, of which the
    first is the larger one where n is odd, and which needs an operator set of its own.
    """
    from onnxscript import optimizer, rewriter
    from onnxscript.rewriter.rules.common import slice_split_rule

    logging.disable(logging.WARNING)
    rules = tuple(rule for rule in rewriter._DEFAULT_REWRITE_RULES if rule is not slice_split_rule)
    rewriter._DEFAULT_REWRITE_RULES = rules  # in the worker process alone
    graph = ir.serde.deserialize_model(onnx.ModelProto.FromString(model))
    optimizer.optimize_ir(graph)
    serialized: bytes = ir.serde.serialize_model(graph).SerializeToString()
    return serialized


def by_onnxslim(model: bytes) -> bytes:
    """A serialized model as OnnxSlim makes it.

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
