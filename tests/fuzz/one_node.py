"""Models of one slicing node in every spelling: lowered and run on the emulator, against what is right.

What is right is told by `oracle.py`, which shares nothing with the package, and by onnxruntime's CPU provider wherever
`sliceport.defects` does not know better. The shapes that are inferred for each are compared with the real ones.
"""

from __future__ import annotations

import json
import random
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import oracle
from onnx import TensorProto, helper
from running import run_node

import sliceport
from onnx_ops import strided_slice_op
from onnx_ops.infer.inference import infer_shapes
from onnx_ops.model.proto_reader import read_view
from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.session import Captured
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.engines.side import RunFailed
from sliceport.errors import Refusal
from sliceport.slicing.node import Folded

from . import drawing
from .drawing import INT64_MAX, INT64_MIN, MASKS, bound, step
from .modules import Case

BUDGET = 100  # tests/onnx_ops/lowering/test_broken_rules.py runs 80 cases of each rule of each operator
_INT32_MAX = 2**31 - 1

Random = random.Random
Bytes = npt.NDArray[np.uint8]

OPSETS = (1, 2, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 19, 20, 21, 22, 23, 24)
BITS = {
    "FLOAT": 32, "DOUBLE": 64, "FLOAT16": 16, "BFLOAT16": 16, "INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64,
    "UINT8": 8, "UINT16": 16, "UINT32": 32, "UINT64": 64, "BOOL": 8, "COMPLEX64": 64, "COMPLEX128": 128,
    "FLOAT8E4M3FN": 8, "FLOAT8E5M2": 8, "INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2,
}  # fmt: skip
HOWS = ("initializer", "typed", "constant", "value_ints", "identity", "input", "overridable")
"""Origins of a parameter that is an input of the node. The last two are not constants."""
LEVELS = ("6.4", "6.4", "6.4", "5.0", "3.0", "2.1", "2.0", "1.0")
PARAMETERS = {
    "Slice": ("starts", "ends", "axes", "steps"),
    "Split": ("split",),
    "StridedSlice": ("begin", "end", "strides"),
}
MAX_ELEMENTS = 600
RANKS = (0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8)
OVERRIDABLE_FROM = 4


RULES = {
    "Slice": ("missing", "longer", "shorter", "replaced", "an axis twice", "more than axes"),
    "Split": ("longer", "shorter", "replaced", "negative", "outputs", "axis", "num_outputs"),
    "StridedSlice": ("missing", "longer", "shorter", "replaced", "mask"),
}
"""Ways to break a rule of each operator, though some cases allow the broken parameters."""


def generate(random: Random) -> Case:
    op = random.choice(("Slice", "Slice", "Split", "StridedSlice"))
    return draw(random, op, random.choice(RULES[op]) if random.random() < 0.1 else None)


def draw(random: Random, op: str, rule: str | None) -> Case:
    """Return a case of an operator, all of it allowed unless `rule` breaks it."""
    shape = drawing.shape(random, RANKS, MAX_ELEMENTS)
    opset = random.choice(OPSETS)
    if op == "StridedSlice":
        opset = max(opset, 10)
    case: Case = {
        "op": op,
        "opset": opset,
        "ir_version": random.choice((3, 8, 8, 8, 10)),
        "element": random.choice([name for name in BITS if hasattr(TensorProto, name)]),
        "shape": shape,
        "open": random.random() < 0.2,
        "constant": random.random() < 0.1,
        "index_type": random.choice(("INT64", "INT64", "INT32")),
        "parameters": {},
        "how": {},
        "attributes": {},
        "outputs": 1,
        "unnamed": [],
        "level": random.choice(LEVELS),
        "views": random.random() < 0.2,
        "input_layout": _layout(random, len(shape)),
        "output_layout": _layout(random, len(shape)),
    }
    {"Slice": _slice, "Split": _split, "StridedSlice": _strided_slice}[op](random, case)
    if rule is not None:
        _spoil(random, case, rule)
    if case["index_type"] == "INT32":
        least, most = -(2**31), 2**31 - 1
        for name, values in case["parameters"].items():
            case["parameters"][name] = [min(max(value, least), most) for value in values]
    same = random.random() < 0.7
    every = random.choice(HOWS)
    case["how"] = {name: every if same else random.choice(HOWS) for name in case["parameters"]}
    return case


def _layout(random: Random, rank: int) -> str | None:
    how = random.random()
    if how < 0.8:
        return None
    if how < 0.9 and rank >= 2:
        return ",".join(map(str, random.sample(range(rank), rank)))
    return random.choice(("NHWC", "NDHWC", "NCHW", "WH", "0"))


def _slice(random: Random, case: Case) -> None:
    shape, parameters = case["shape"], case["parameters"]
    axes = random.sample(
        range(len(shape)), random.randint(0 if random.random() < 0.1 else min(1, len(shape)), len(shape))
    )
    if random.random() < 0.3:
        axes = list(range(len(axes)))
    parameters["starts"] = [bound(random, shape[axis]) for axis in axes]
    parameters["ends"] = [bound(random, shape[axis]) for axis in axes]
    if axes != list(range(len(axes))) or random.random() < 0.5:
        parameters["axes"] = [axis - len(shape) if random.random() < 0.3 else axis for axis in axes]
    if case["opset"] >= 10 and random.random() < 0.7:
        parameters["steps"] = [step(random, shape[axis]) for axis in axes]


def _split(random: Random, case: Case) -> None:
    shape, opset = case["shape"], case["opset"]
    axis = random.randrange(len(shape)) if shape else 0
    size = shape[axis] if shape else 1
    if axis or random.random() < 0.5:
        case["attributes"]["axis"] = axis - len(shape) if random.random() < 0.3 else axis
    if random.random() < 0.6:
        sizes = drawing.parts(random, size, random.choice((1, 2, 2, 3, 4, 6)))
        case["parameters"]["split"] = sizes
        case["outputs"] = len(sizes)
    else:
        divisors = [n for n in range(1, 9) if size % n == 0]
        case["outputs"] = random.choice(divisors if random.random() < 0.6 else range(1, size + 3))
        if opset >= 18:
            case["attributes"]["num_outputs"] = case["outputs"]
    if random.random() < 0.2:
        case["unnamed"] = sorted(random.sample(range(case["outputs"]), random.randrange(case["outputs"])))


def _strided_slice(random: Random, case: Case) -> None:
    shape, parameters = case["shape"], case["parameters"]
    count = random.randint(0, len(shape) + 2)
    sizes = [random.choice(shape) if shape else 1 for _ in range(count)]
    parameters["begin"] = [bound(random, size) for size in sizes]
    parameters["end"] = [bound(random, size) for size in sizes]
    if random.random() < 0.7:
        parameters["strides"] = [step(random, size) for size in sizes]
    case["attributes"] = drawing.masks(random, count)


def _spoil(random: Random, case: Case, rule: str) -> None:
    op, shape, parameters, attributes = case["op"], case["shape"], case["parameters"], case["attributes"]
    name = random.choice([*parameters, ""])
    if rule == "missing" and name:
        del parameters[name]
    elif rule == "longer" and name:
        parameters[name].append(random.choice((0, 1, -1)))
    elif rule == "shorter" and name and parameters[name]:
        parameters[name].pop()
    elif rule == "replaced" and name and parameters[name]:
        parameters[name][random.randrange(len(parameters[name]))] = random.choice((0, -1, 9, -9, INT64_MIN, INT64_MAX))
    elif rule == "an axis twice" and parameters.get("axes"):
        for each in parameters.values():
            each.append(each[0])
        parameters["axes"][-1] = random.choice((0, len(shape))) + parameters["axes"][0] % len(shape) - len(shape)
    elif rule == "more than axes" and "axes" in parameters:
        del parameters["axes"]
        parameters |= {each: [1] * (len(shape) + 1) for each in parameters}
    elif rule == "negative":
        parameters["split"] = random.choice(([INT64_MAX, -1], [-2, 2 + sum(shape)], [-1, 1 + sum(shape[:1])]))
        case["outputs"], case["unnamed"] = 2, []
    elif rule == "outputs":
        case["outputs"] += 1
    elif rule == "axis":
        attributes["axis"] = random.choice((len(shape), -len(shape) - 1, 2**31, INT64_MIN))
    elif rule == "num_outputs" and case["opset"] >= 18:
        attributes["num_outputs"] = random.choice((0, 1, 2, 5, -1, INT64_MAX))
    elif rule == "mask" and op == "StridedSlice":
        attributes[random.choice(MASKS)] = [random.choice((0, 1, 2, -1)) for _ in range(3)]


def attributes_hold_parameters(case: Case) -> bool:
    """Whether the operator set writes the parameters as attributes."""
    return bool(case["opset"] < {"Slice": 10, "Split": 13}.get(case["op"], 0))


def output_names(case: Case) -> list[str]:
    return ["" if i in case["unnamed"] else f"y{i}" for i in range(case["outputs"])]


def model_of(case: Case) -> onnx.ModelProto:
    """Return the model of a case, its outputs' types and shapes left out."""
    element = getattr(TensorProto, case["element"])
    open_sizes: list[int | str] = [f"d{axis}" for axis in range(len(case["shape"]))]
    inputs = [] if case["constant"] else [
        helper.make_tensor_value_info("x", element, open_sizes if case["open"] else case["shape"])
    ]  # fmt: skip
    initializers = [data_tensor(case)] if case["constant"] else []
    nodes: list[onnx.NodeProto] = []
    attributes = dict(case["attributes"])
    read = ["x"]
    if attributes_hold_parameters(case):
        attributes |= case["parameters"]
    else:
        for name in PARAMETERS[case["op"]]:
            read.append(name if name in case["parameters"] else "")
            if name in case["parameters"]:
                _add_parameter(case, name, nodes, inputs, initializers)
        while not read[-1]:
            read.pop()
    domain = "ov_ext" if case["op"] == "StridedSlice" else ""
    node = helper.make_node(case["op"], read, output_names(case), "node", domain=domain)
    for name, value in attributes.items():  # helper drops empty lists
        kind = onnx.AttributeProto.INTS if isinstance(value, list) else onnx.AttributeProto.INT
        node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    nodes.append(node)
    if case["ir_version"] < OVERRIDABLE_FROM:  # then every initializer has to be an input
        listed = {value.name for value in inputs}
        inputs += [
            helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            for tensor in initializers
            if tensor.name not in listed
        ]
    results = [helper.make_tensor_value_info(name, element, None) for name in output_names(case) if name]
    graph = helper.make_graph(nodes, "one_node", inputs, results, initializers)
    opsets = [helper.make_opsetid("", case["opset"])]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=case["ir_version"])


def _add_parameter(
    case: Case,
    name: str,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    initializers: list[onnx.TensorProto],
) -> None:
    values, how = case["parameters"][name], case["how"][name]
    kind = getattr(TensorProto, case["index_type"])
    raw = helper.make_tensor(name, kind, [len(values)], parameter_array(case, name).tobytes(), raw=True)
    if how in ("initializer", "overridable"):
        initializers.append(raw)
    elif how == "typed":
        initializers.append(helper.make_tensor(name, kind, [len(values)], values))
    elif how == "value_ints" and case["index_type"] == "INT64" and case["opset"] >= 12:
        nodes.append(helper.make_node("Constant", [], [name]))
        nodes[-1].attribute.append(
            helper.make_attribute("value_ints", values, attr_type=onnx.AttributeProto.INTS)  # the list may be empty
        )
    elif how == "identity":
        raw.name = f"{name}_before"
        initializers.append(raw)
        nodes.append(helper.make_node("Identity", [raw.name], [name]))
    elif how in ("constant", "value_ints"):
        nodes.append(helper.make_node("Constant", [], [name], value=raw))
    if how in ("input", "overridable"):
        inputs.append(helper.make_tensor_value_info(name, kind, [len(values)]))


def parameter_array(case: Case, name: str) -> npt.NDArray[Any]:
    return np.array(case["parameters"][name], np.int64 if case["index_type"] == "INT64" else np.int32)


def at_run_time(case: Case) -> list[str]:
    """Return the parameters that the caller of the model may choose."""
    if attributes_hold_parameters(case):
        return []
    hows = ("input", "overridable") if case["ir_version"] >= OVERRIDABLE_FROM else ("input",)
    return [name for name in PARAMETERS[case["op"]] if case["how"].get(name) in hows]


# The data and what is right.


def data_bits(case: Case) -> Bytes:
    """Return the bits of each element, the lowest first: different elements as far as the type has different ones."""
    count, bits = prod(case["shape"]), BITS[case["element"]]
    if case["element"] == "BOOL":
        return np.array([[(i * 2654435761 >> 7) & 1] + [0] * 7 for i in range(count)], np.uint8).reshape(count, bits)
    values = [(i + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**bits for i in range(count)]
    return np.array([[value >> bit & 1 for bit in range(bits)] for value in values], np.uint8).reshape(count, bits)


def pack(bits: Bytes) -> Bytes:
    return np.packbits(bits.reshape(-1), bitorder="little")


def data_tensor(case: Case) -> onnx.TensorProto:
    kind = getattr(TensorProto, case["element"])
    return onnx.TensorProto(name="x", data_type=kind, dims=case["shape"], raw_data=pack(data_bits(case)).tobytes())


def expected_indices(case: Case) -> list[oracle.Array]:
    """Return the positions in the data of each output's elements.

    Raises:
        OracleError: The node breaks its specification.
    """
    data = np.arange(prod(case["shape"])).reshape(case["shape"])
    given, attributes = case["parameters"], case["attributes"]
    if any(name not in given for name in PARAMETERS[case["op"]][:2]) and case["op"] != "Split":
        raise oracle.OracleError("missing")
    if case["op"] == "Slice":
        return [oracle.onnx_slice(data, *(given.get(name) for name in PARAMETERS["Slice"]))]
    if case["op"] == "StridedSlice":
        masks = {name: mask for name, mask in attributes.items() if name in MASKS}
        if any(bit not in (0, 1) for mask in masks.values() for bit in mask):
            raise oracle.OracleError("mask")
        lists = [given.get(name) for name in PARAMETERS["StridedSlice"]]
        if len({len(values) for values in lists if values is not None}) > 1:
            raise oracle.OracleError("lengths")
        return [oracle.strided_slice(data, *lists, **masks)]
    return oracle.onnx_split(data, attributes.get("axis", 0), split_sizes(case))


def split_sizes(case: Case) -> list[int]:
    """Return the sizes of a Split's parts as its version's page has them."""
    axis, rank, parts = case["attributes"].get("axis", 0), len(case["shape"]), case["outputs"]
    if not -rank <= axis < rank:
        raise oracle.OracleError("axis")
    dim = case["shape"][axis]
    named = case["attributes"].get("num_outputs") if case["opset"] >= 18 else None
    sizes = case["parameters"].get("split")
    if sizes is not None and not attributes_hold_parameters(case) and case["index_type"] != "INT64":
        raise oracle.OracleError("sizes are int64")
    if sizes is not None:
        if named is not None or len(sizes) != parts:
            raise oracle.OracleError("both, or not one for each output")
        return list(sizes)
    if case["opset"] >= 18:
        if named != parts:
            raise oracle.OracleError("neither, or not one for each output")
        chunk = (dim + parts - 1) // parts
        if chunk * (parts - 1) > dim:
            raise oracle.OracleError("more parts than there are chunks")
        return [chunk] * (parts - 1) + [dim - chunk * (parts - 1)]
    if dim % parts:
        raise oracle.OracleError("parts are not equal")
    return [dim // parts] * parts


# Checks.


def check(case: Case) -> str | None:
    model = model_of(case)
    try:
        expected: list[oracle.Array] | None = expected_indices(case)
    except oracle.OracleError:
        expected = None
    for one in (check_lowering, check_inference, check_onnxruntime):
        said = one(case, model, expected)
        if said is not None:
            return said
    return None


Expected = list[oracle.Array] | None


def check_lowering(case: Case, model: onnx.ModelProto, expected: Expected) -> str | None:
    """Whether the node is lowered to what moves the right bits, or refused for a reason that holds."""
    program = sliceport.lower(
        model,
        input_shapes={"x": case["shape"]} if case["open"] and not case["constant"] else None,
        feature_level=case["level"],
        input_layout=case["input_layout"],
        output_layout=case["output_layout"],
        views=case["views"],
    )
    json.dumps(program.to_json())
    (lowered,) = program.nodes
    if lowered.reason is not None:
        return check_refusal(case, lowered.reason, expected)
    if expected is None:
        return f"lowers a node that is not allowed: verdict {lowered.verdict}"
    if at_run_time(case):
        return f"takes a parameter of the caller for a constant: {at_run_time(case)}"
    bits = data_bits(case)
    if isinstance(lowered.node, Folded):
        found = list(map(to_bits, lowered.node.constants))
        return check_bits(found, [bits[indices.reshape(-1)] for indices in expected], "a folded node has other bits")
    for cut, indices in zip(lowered.resolved.cuts, expected, strict=True):
        if cut.region.output_shape != indices.shape:
            return f"another shape: {list(cut.region.output_shape)} instead of {list(indices.shape)}"
    positions = np.arange(prod(case["shape"])).reshape(case["shape"])
    data = pack(bits[in_memory(case["input_layout"], positions).reshape(-1)])
    got = run_node(lowered, data)
    aliases = {alias.output: alias for alias in lowered.aliases}
    for name, indices in zip(output_names(case), expected, strict=True):
        if not name:
            continue
        if name not in got:
            return f"an output is not written: {name}"
        wanted = indices if name in aliases and aliases[name].tensor else in_memory(case["output_layout"], indices)
        said = check_bits([to_bits(got[name])], [bits[wanted.reshape(-1)]], "other bits")
        if said is not None:
            return f"{said} in {name}"
    return None


def to_bits(data: Bytes | bytes) -> Bytes:
    return np.unpackbits(np.frombuffer(bytes(data), np.uint8), bitorder="little")


def check_bits(got: list[Bytes], wanted: list[Bytes], kind: str) -> str | None:
    for one, other in zip(got, wanted, strict=True):
        flat = other.reshape(-1)
        if one.size < flat.size:
            return f"{kind}: only {one.size} of {flat.size}"
        if not np.array_equal(one[: flat.size], flat):
            return f"{kind}: first at bit {int(np.argmax(one[: flat.size] != flat))} of {flat.size}"
    return None


LETTERS = "NCDHW"


def in_memory(layout: str | None, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the elements of an array in the order in which a layout has them."""
    if layout is None:
        return array
    if layout[0].isdigit():
        order = list(map(int, layout.split(",")))
    else:
        own = [letter for letter in LETTERS if letter in layout]
        order = [own.index(letter) for letter in layout]
    return array.transpose(order) if len(order) == array.ndim else array


def check_refusal(case: Case, reason: Refusal, expected: Expected) -> str | None:
    """Whether a refusal says what is wrong, and no more is refused than has to be."""
    level, bits, rank = FeatureLevel.parse(case["level"]), BITS[case["element"]], len(case["shape"])
    if "\n" in reason.message or not reason.message.endswith("."):
        return f"a refusal is not a sentence: {reason.message!r}"
    if at_run_time(case):
        allowed = {"dynamic_parameter"} | ({"invalid"} if expected is None else set())
    elif expected is None:
        allowed = {"invalid"}
    else:
        allowed = {"unaligned_type", "feature_level", "rank_limit"} if level < FeatureLevel.V3_0 else set()
        allowed |= {"unaligned_type"} if bits < 8 else set()
        allowed |= {"rank_limit"} if rank == 8 and bits == 128 else set()
    if reason.code not in allowed:
        return f"refuses by a reason that does not hold: {reason.code}, {reason.message}"
    return None


def check_inference(case: Case, model: onnx.ModelProto, expected: Expected) -> str | None:
    """Whether inferred shapes are those that come out; all of them, where all is known."""
    inferred = read_view(model)
    infer_shapes(inferred)
    if expected is None:
        return None
    values = {value.name: value for value in inferred.graph.outputs}
    hows = set() if attributes_hold_parameters(case) else set(case["how"].values())
    is_split_1 = case["op"] == "Split" and case["opset"] < 2  # onnx infers no shapes of Split-1
    is_known = not (is_split_1 or case["open"] or hows & {"identity", "input", "overridable"})
    for name, indices in zip(output_names(case), expected, strict=True):
        shape = values[name].shape if name else None
        if shape is None:
            if name and is_known:
                return f"no shape is inferred: that of {name} is {list(indices.shape)}"
            continue
        sizes = [dim if isinstance(dim, int) else None for dim in shape]
        fits = len(sizes) == indices.ndim and all(a in (None, b) for a, b in zip(sizes, indices.shape, strict=True))
        if not fits or (is_known and None in sizes):
            return f"another shape is inferred: {sizes} instead of {list(indices.shape)}"
    return None


def ends_onnxruntime(case: Case) -> bool:
    """Return whether a Split ends the process: onnx's shape inference, which onnxruntime contains, crashes on it."""
    return bool(case["attributes"].get("num_outputs", case["outputs"]) != case["outputs"])


NOT_HERE = (
    "NOT_IMPLEMENTED",
    "Could not find an implementation",
    "Type Error",
    "not currently registered or supported",
    "InsertedPrecisionFreeCast",
    "is under development",
)
"""In what onnxruntime says of element types and operator sets that it does not have."""


def check_onnxruntime(case: Case, model: onnx.ModelProto, expected: Expected) -> str | None:
    """Whether onnxruntime's CPU provider computes what the oracle says, and refuses what it refuses."""
    if BITS[case["element"]] < 8 or is_known_divergence(case, expected) or ends_onnxruntime(case):
        return None
    named = onnx.ModelProto()
    named.CopyFrom(model)
    names = [f"y{i}" for i in range(case["outputs"])]
    named.graph.node[-1].output[:] = names
    declared = {output.name for output in named.graph.output}
    named.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in declared)
    if case["op"] == "StridedSlice":
        if case["opset"] < 14 or expected is None:
            return None
        with_function = ir.from_proto(named)
        strided_slice_op.embed_function(with_function)
        named = ir.to_proto(with_function)
    bits = data_bits(case)
    data = pack(bits).view(ir.DataType[case["element"]].numpy()).reshape(case["shape"])
    feeds = {} if case["constant"] else {"x": data}
    feeds |= {name: parameter_array(case, name) for name in at_run_time(case) if case["how"][name] == "input"}
    try:
        got: Any = onnxruntime_cpu.side().run(onnxruntime_cpu.build_whole_model(named, names), feeds)
    except RunFailed as error:
        if expected is None or any(words in str(error) for words in NOT_HERE):
            return None
        return f"onnxruntime refuses what is allowed: {error}"
    if expected is None:
        return f"onnxruntime takes what is not allowed: shapes {[list(value.shape) for value in got.values()]}"
    for name, indices in zip(names, expected, strict=True):
        if got[name].shape != indices.shape:
            return f"onnxruntime gives another shape: {list(got[name].shape)} instead of {list(indices.shape)}"
        if not np.array_equal(to_bits(Captured.of(got[name]).data), bits[indices.reshape(-1)].reshape(-1)):
            return f"onnxruntime gives other bits: {name}"
    return None


def is_known_divergence(case: Case, expected: Expected) -> bool:
    """Whether onnxruntime is known to do something else (`onnxruntime.toml` in `sliceport/defects`)."""
    given = case["parameters"]
    if case["op"] == "Slice":
        pairs = zip(given.get("ends", ()), given.get("steps", ()), strict=False)
        return any(step < 0 and end in (_INT32_MAX, INT64_MAX) for end, step in pairs)
    if given.get("split") == []:  # onnxruntime takes it for none where it does not know the shape before it runs
        return True
    if case["op"] == "Split" and case["opset"] >= 18 and "split" not in given:
        return bool(expected and not expected[-1].size) or "num_outputs" not in case["attributes"]
    return False
