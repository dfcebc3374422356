"""Slicing operators, built and run in a process of their own.

What a case may have: `op`; `sizes`, the data's partial shape; `shape`, that of the data (default: `sizes`);
`element`; `indices`, a list for each index input; `index_type`, or `index_types` for each; `run_time`, whether
indices are inputs of the model, or a list of it for each; `masks`; `constant`, whether the data is a constant;
`doubled_on`, the axis of a Concat that doubles the data and is an output, too;
`unread`: whether the body of a TensorIterator returns element 0 instead of its part;
`ours`; `kind`, of ours: `python` or `native`; `config` of the CPU plugin; `as_written`, for built-in masks of several
lengths; `harden`; `engine`: `cpu` or `reference`. Or `file`: a model to read and run on zeros.

An answer has `shape` and `values`, the elements of the data that came out, counted from 0, or
`error`; and with `harden` the `forms` that took the place and the `defects` that were found. The data itself counts
from `first_of`, so that no element is what unwritten memory likely holds: 0, a size or an index.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset1
from openvino_models import MASKS, fixed, make, pack, parameter, unpack

import ov_ext
from ov_ext.defects.checking import check
from ov_ext.defects.hardening import harden


def first_of(element: ov.Type) -> int:
    """Return the value of the first element, a large one if the type has room for it."""
    return 1 if element.bitwidth < 32 and element != ov.Type.string else 1_000_001


def index_tensor(values: list[int], kind: str) -> ov.Tensor:
    element = getattr(ov.Type, kind)
    if element.bitwidth < 8:
        return ov.Tensor(pack(np.array(values) & 15, kind), ov.Shape([len(values)]), element)
    return ov.Tensor(np.array(values, element.to_dtype()))


def constant_of(tensor: ov.Tensor) -> ov.Node:
    if tensor.size:
        return ov.op.Constant(tensor)
    return ov.op.Constant(tensor.element_type, tensor.shape, [])


def are_late(case: dict[str, Any]) -> list[bool]:
    """Whether each index input is one of the model."""
    late = case.get("run_time", False)
    return late if isinstance(late, list) else [late] * len(case["indices"])


def run_file(path: str) -> dict[str, Any]:
    """Read a model and run it on zeros."""
    core = ov.Core()
    ov_ext.register(core)
    compiled = core.compile_model(core.read_model(path), "CPU")
    results = compiled([np.zeros(value.get_shape(), value.get_element_type().to_dtype()) for value in compiled.inputs])
    return {"shapes": [list(result.shape) for result in results.values()]}


def build(case: dict[str, Any]) -> tuple[ov.Model, np.ndarray, list[ov.Tensor]]:
    """Return the model of a case, its data, and its indices."""
    element = getattr(ov.Type, case.get("element", "i32"))
    shape = case.get("shape", case["sizes"])
    kinds = case.get("index_types", [case.get("index_type", "i64")] * len(case["indices"]))
    arrays = [index_tensor(values, kind) for values, kind in zip(case["indices"], kinds, strict=True)]
    data = first_of(element) + np.arange(prod(shape))
    data = data.astype("U8" if element == ov.Type.string else element.to_dtype()).reshape(shape)
    if element.bitwidth < 8:
        tensor = ov.Tensor(element, ov.Shape(shape))  # of its own memory
        tensor.data.reshape(-1).view(np.uint8)[...] = pack(data.reshape(-1), case["element"])
        source = ov.op.Constant(tensor)
    else:
        source = fixed(data) if case.get("constant") else parameter(case["sizes"], element)
    late = are_late(case)
    indices = [
        parameter(list(a.shape), a.element_type) if at_run_time else constant_of(a)
        for a, at_run_time in zip(arrays, late, strict=True)
    ]
    axis, masks = case.get("doubled_on"), case.get("masks")
    sliced = source if axis is None else opset1.concat([source, source], axis)
    if masks and case.get("as_written"):  # by the built-in operator, whose masks the other way are made equally long
        node = opset1.strided_slice(sliced, *indices, *(masks.get(name, []) for name in MASKS))
    else:
        first = [fixed(data[:1])] if case.get("unread") else []
        node = make(case["op"], [sliced, *indices, *first], masks, ours=case.get("ours", False))
    inputs = [p for p in (source, *indices) if p.get_type_name() == "Parameter"]
    return ov.Model(node.outputs() if axis is None else [sliced, node], inputs, "model"), data, arrays


def run(case: dict[str, Any]) -> dict[str, Any]:
    if "kind" in case:
        os.environ["SLICEPORT_BACKEND"] = case["kind"]
    if "file" in case:
        return run_file(case["file"])
    model, data, arrays = build(case)
    if not case.get("harden"):
        return answer(case, model, data, arrays)
    checked = [finding.defect.id for finding in check(model, {}).nodes]
    changes = harden(model).changes
    found = [defect.id for change in changes for defect in change.defects]
    return {
        **answer(case, model, data, arrays),
        "forms": [change.replacement for change in changes],
        "defects": found,
        "checked": checked,
        "remaining": [finding.defect.id for finding in check(model, {}).nodes],
    }


def answer(case: dict[str, Any], model: ov.Model, data: np.ndarray, arrays: list[ov.Tensor]) -> dict[str, Any]:
    given = [] if case.get("constant") else [data]
    given += [array for array, late in zip(arrays, are_late(case), strict=True) if late]
    if case["engine"] == "cpu":
        core = ov.Core()
        ov_ext.register(core)
        request = core.compile_model(model, "CPU", case.get("config", {})).create_infer_request()
        result = request.infer(given)[len(model.outputs) - 1]
        out = request.get_output_tensor(len(model.outputs) - 1)
    else:
        *_, out = outs = [ov.Tensor(output.get_element_type(), ov.Shape([0])) for output in model.outputs]
        model.evaluate(outs, [a if isinstance(a, ov.Tensor) else ov.Tensor(np.asarray(a, order="C")) for a in given])
        result = out.data
    if out.element_type.bitwidth < 8:
        bits = unpack(result.reshape(-1).view(np.uint8), case["element"])
        result = bits[: prod(out.shape)].reshape(tuple(out.shape))
    if result.size > 1000:
        expected = data[tuple(slice(*bounds) for bounds in zip(*case["indices"][:3], strict=True))]
        return {"shape": list(result.shape), "values": "right" if np.array_equal(result, expected) else "wrong"}
    first = first_of(getattr(ov.Type, case.get("element", "i32")))
    return {"shape": list(result.shape), "values": (result.reshape(-1).astype(float) - first).tolist()}


def answer_all(cases: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Answer each case; `openvino_processes.py` calls this in a process of its own."""
    for case in cases:
        try:
            answered = run(case)
        except Exception as error:
            answered = {"error": str(error)}
        yield answered
