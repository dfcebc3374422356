"""One slicing operator in every form by every engine, in a process of its own.

A case has `op`; `element`; `shape`, that of the data; `sizes`, what the model says of it; `indices`, a list an index
input; `index_types`; `run_time`, for each index input whether it is an input of the model; `masks`; and `done`, the
runs that are left out. The data are `codes`. A run is a form and an engine: as built in, hardened, or a kind of ours;
by the plugin, by Model.evaluate, or folded from constants. Answers come two a run, before it and with what came out,
and one with `end` after each case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from math import prod
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset1, opset8, passes
from openvino_backends import THERE, using
from openvino_models import MASKS, pack, partial_shape, unpack

import ov_ext
import sliceport
from ov_ext.defects.conditions import BuiltInNode, find_defects
from ov_ext.defects.hardening import harden
from sliceport.errors import SliceportError
from sliceport.slicing.node import Resolved

BUILT_IN = ("builtin", "hardened")
FORMS = (*BUILT_IN, *THERE)
ENGINES = ("openvino-cpu", "openvino", "folding")
MAX_CODES = {"boolean": 2, "i8": 127, "u8": 255, "bf16": 250, "f16": 2000} | dict.fromkeys(
    ("f8e4m3", "f8e5m2", "f8e8m0"), 0x70
)
PLUGIN_CONFIG = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}


def codes(element: str, shape: list[int]) -> np.ndarray:
    """Return a number for each element: not 0 if the type has another, and distinct if it has enough."""
    bits = getattr(ov.Type, element).bitwidth
    count = MAX_CODES.get(element, 2**bits - 1 if bits < 8 else 2**31 - 1)
    if count < 3:
        numbers = np.arange(prod(shape), dtype=np.int64)
        return (numbers * numbers % 3 % 2).reshape(shape)
    return np.resize(np.arange(1, min(count, prod(shape)) + 1, dtype=np.int64), shape)


def as_tensor(element: str, numbers: np.ndarray) -> ov.Tensor:
    if element == "string" and numbers.size:
        return ov.Tensor(numbers.astype("U"))
    kind = getattr(ov.Type, element)
    tensor = ov.Tensor(kind, ov.Shape(list(numbers.shape)))
    if numbers.size and kind.bitwidth < 8:
        tensor.data.reshape(-1).view(np.uint8)[...] = pack(numbers.reshape(-1) & 2**kind.bitwidth - 1, element)
    elif numbers.size and element.startswith("f8"):
        tensor.data.view(np.uint8)[...] = numbers
    elif numbers.size:
        tensor.data[...] = numbers
    return tensor


def as_answer(element: str, tensor: Any) -> dict[str, Any]:
    """Return shape and elements of a tensor or a constant."""
    shape = list(tensor.shape)
    if 0 in shape:
        return {"shape": shape, "values": []}
    if element == "string":
        return {"shape": shape, "values": [int(text or 0) for text in tensor.str_data.reshape(-1).tolist()]}
    flat = np.array(tensor.data).reshape(-1)
    if getattr(ov.Type, element).bitwidth < 8:
        flat = unpack(flat.view(np.uint8), element)[: prod(shape)]
    elif element.startswith("f8"):
        flat = flat.view(np.uint8)
    return {"shape": shape, "values": [int(value) for value in flat.astype(np.float64)]}


class Built:
    """The model of a case, with its inputs' tensors."""

    def __init__(self, case: dict[str, Any], *, folding: bool) -> None:
        self.inputs: list[ov.Node] = []
        self.tensors: list[ov.Tensor] = []
        data = as_tensor(case["element"], codes(case["element"], case["shape"]))
        sources = [self._source(data, case["sizes"], fixed=folding)]
        for values, kind, late in zip(case["indices"], case["index_types"], case["run_time"], strict=True):
            listed = as_tensor(kind, np.array(values, np.uint64 if kind == "u64" else np.int64))
            sources.append(self._source(listed, [len(values)], fixed=folding or not late))
        if case["op"] == "Slice":
            node = opset8.slice(*sources)
        else:
            length = max(map(len, case["masks"].values()), default=0)
            masks = [case["masks"].get(name, []) for name in MASKS]
            node = opset1.strided_slice(*sources, *([*mask] + [0] * (length - len(mask)) for mask in masks))
        node.set_friendly_name("cut")
        self.model = ov.Model([node], self.inputs, "case")

    def _source(self, tensor: ov.Tensor, sizes: Any, *, fixed: bool) -> ov.Node:
        if fixed:
            if tensor.size:
                return ov.op.Constant(tensor)
            return ov.op.Constant(tensor.element_type, tensor.shape, [])
        node = opset8.parameter(partial_shape(sizes), tensor.element_type)
        self.inputs.append(node)
        self.tensors.append(tensor)
        return node

    def known(self) -> list[str]:
        """Return its defects; some of them harm later runs."""
        node = self.model.get_results()[0].input_value(0).get_node()
        return [defect.id for defect in find_defects(BuiltInNode(node))]


def is_cut(case: dict[str, Any]) -> bool:
    """Whether the plugin cuts an index to 32 bits before any operator sees it; a step of 0 then ends the process."""
    listed = zip(case["indices"], case["run_time"], strict=True)
    return any(late and any(not -(2**31) < value < 2**31 - 1 for value in values) for values, late in listed)


def is_misread(case: dict[str, Any]) -> bool:
    """Whether OpenVINO takes an unsigned index for a negative one, which only shows at run time."""
    listed = zip(case["indices"], case["run_time"], case["index_types"], strict=True)
    return any(late and kind == "u64" and max(values, default=0) >= 2**63 for values, late, kind in listed)


def run(case: dict[str, Any], form: str, engine: str) -> dict[str, Any]:
    element = case["element"]
    if engine == "openvino-cpu" and is_cut(case):
        return {"cut": True}
    if form in BUILT_IN and is_misread(case):
        return {"cut": True}
    built = Built(case, folding=engine == "folding")
    if form == "builtin" and built.known():
        return {"known": built.known()}
    answered = apply(built, form)
    if engine == "openvino-cpu":
        request = core().compile_model(built.model, "CPU", PLUGIN_CONFIG).create_infer_request()
        request.infer(built.tensors)
        return answered | as_answer(element, request.get_output_tensor(0))
    if engine == "openvino":
        out = ov.Tensor(built.model.output(0).get_element_type(), ov.Shape([0]))
        built.model.evaluate([out], built.tensors)
        return answered | as_answer(element, out)
    manager = passes.Manager()
    manager.register_pass(passes.ConstantFolding())
    manager.run_passes(built.model)
    result = built.model.get_results()[0].input_value(0).get_node()
    if result.get_type_name() != "Constant":
        return answered | {"unfolded": True}
    if element == "string":
        return answered | as_answer(element, result.get_tensor_view())
    return answered | as_answer(element, result.get_tensor_view())


def lowered(case: dict[str, Any]) -> dict[str, Any]:
    """Return the elements that lowering selects."""
    (node,) = sliceport.lower(Built(case, folding=False).model).nodes
    if not isinstance(node.node, Resolved):
        return {"refused": node.reason.code if node.reason else node.verdict}
    region = node.node.cuts[0].region
    index = np.ix_(*map(list, region.ranges))
    picked = codes(case["element"], case["shape"])[index].reshape(region.output_shape)
    return {"shape": list(picked.shape), "values": picked.reshape(-1).tolist()}


def run_as_one(cases: Sequence[dict[str, Any]], form: str) -> dict[int, dict[str, Any]]:
    """Run cases by the plugin in one model, because compiling takes most of a run; return what came out of each."""
    answered: dict[int, dict[str, Any]] = {}
    models: dict[int, Built] = {}
    for i, case in enumerate(cases):
        if is_cut(case) or is_misread(case) or case["sizes"] is None:
            continue
        with suppress(SliceportError, RuntimeError):
            built = Built(case, folding=False)
            if form == "builtin" and built.known():
                continue
            answered[i] = apply(built, form)
            for node in built.model.get_ops():
                node.set_friendly_name(f"{node.get_friendly_name()} of {i}")
            models[i] = built
    return {i: answered[i] | as_answer(cases[i]["element"], tensor) for i, tensor in run_joined(models).items()}


def run_joined(models: dict[int, Built]) -> dict[int, ov.Tensor]:
    """Run the models as one and return the output of each, without those that fail."""
    if not models:
        return {}
    results = [result for built in models.values() for result in built.model.get_results()]
    joined = ov.Model(results, [parameter for built in models.values() for parameter in built.inputs], "cases")
    try:
        request = core().compile_model(joined, "CPU", PLUGIN_CONFIG).create_infer_request()
        request.infer([tensor for built in models.values() for tensor in built.tensors])
    except RuntimeError:
        listed = list(models.items())
        half = len(listed) // 2
        return run_joined(dict(listed[:half])) | run_joined(dict(listed[half:])) if half else {}
    return {i: request.get_output_tensor(output) for output, i in enumerate(models)}


def apply(built: Built, form: str) -> dict[str, Any]:
    """Give a model its form and return the report of that."""
    if form in THERE:
        with using(form):
            ov_ext.use_custom_ops(built.model)
    if form != "hardened":
        return {}
    changes = harden(built.model).changes
    return {
        "forms": [change.replacement for change in changes],
        "defects": [defect.id for change in changes for defect in change.defects],
    }


def answer_as_one(cases: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Answer as `answer_all`, but run all cases of a form at once on the plugin if it accepts them."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for form in FORMS:
        found |= {(form, i): answered for i, answered in run_as_one(cases, form).items()}
    for i, case in enumerate(cases):
        known = {f"{form} openvino-cpu": found[form, i] for form in FORMS if (form, i) in found}
        for name, answered in known.items():
            yield {"begin": name}
            yield answered
        yield from answer_all([{**case, "done": sorted(known)}])


def answer_all(cases: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Answer each case; `openvino_forms.py` calls this in a process of its own."""
    for case in cases:
        for form, engine in [("core", "core"), *((form, engine) for engine in ENGINES for form in FORMS)]:
            name = f"{form} {engine}"
            if name in case.get("done", ()):
                continue
            yield {"begin": name}
            try:
                yield lowered(case) if form == "core" else run(case, form, engine)
            except (SliceportError, RuntimeError) as error:
                yield {"error": str(error)[-600:]}
            except Exception as error:
                yield {"broken": f"{type(error).__name__}: {error}"[-600:]}
        yield {"end": True}


@cache
def core() -> ov.Core:
    return ov.Core()
