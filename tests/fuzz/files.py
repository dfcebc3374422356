"""Damaged ONNX files: the models of models/ with their fields, nodes, tensors and bytes changed.

Whatever a file holds, every command ends with 0, 1 or 2, within its time and memory, says at most one sentence on
stderr, prints nothing that a terminal would act on, and leaves nothing half-written. `compare` is left out for models
that are large but sound: how long onnxruntime takes to run them is not asked.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import random
import resource
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import AttributeProto, TensorProto

from sliceport.cli.main import main

from .modules import Case

NAME = "files"
BUDGET = 80

Random = random.Random

MODELS = Path(__file__).parents[2] / "models"
MAX_MODEL_BYTES = 30_000
MAX_SECONDS = 10.0
"""Of processor time: the machine may be busy."""
MAX_BYTES = 2**30
MAX_ELEMENTS = 10**6
"""Of one value, for a model that is run."""
COMMANDS = ("lower", "compare", "rewrite", "harden")
UNFORESEEN = "this cannot be done with it"
"""What the last line of defence says: a class of damage that wants a sentence of its own."""

INTEGERS = (
    -1, 0, 1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**32, 10**7, 2**40, 2**62, 2**63 - 1, -2, -(2**31), -(2**63),
)  # fmt: skip
SIZES = (0, 1, 2, 3, 5, 16, 1000, 10**7, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -1, -(2**63))
NAMES = ("", "x", "y", "new", "a\x1b[31mb", "two words", "\u202e", "\x00", "n" * 300, "-x", "\ud7ff", "a/b", "..", "é")
OPERATORS = (
    "Slice", "Split", "Gather", "Concat", "Identity", "Relu", "Constant", "ConstantOfShape", "Shape", "Reshape",
    "Squeeze", "Unsqueeze", "Transpose", "Cast", "Add", "Mul", "Sigmoid", "If", "Loop", "Scan", "Expand", "Range",
    "Pad", "Where", "Size", "Tile", "Flatten", "Div", "NoSuchOperator", "StridedSlice", "",
)  # fmt: skip
DOMAINS = ("", "ai.onnx", "ov_ext", "com.example", "ai.onnx.ml")


@cache
def models() -> list[tuple[str, bytes]]:
    found = [(path.name, path.read_bytes()) for path in sorted(MODELS.glob("*.onnx"))]
    return [(name, data) for name, data in found if len(data) <= MAX_MODEL_BYTES]


def generate(random: Random) -> Case:
    name, data = random.choice(models())
    model = onnx.ModelProto.FromString(data)
    story = [name]
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        mutation = random.choice(MUTATIONS)
        with contextlib.suppress(IndexError, ValueError, TypeError, AttributeError):  # there is nothing of that kind
            mutation(model, random)
            story.append(mutation.__name__)
    data = model.SerializeToString()
    if random.random() < 0.15:
        data = _with_other_bytes(data, random)
        story.append("bytes")
    return {
        "story": story,
        "json": random.random() < 0.2,
        "shapes": random.random() < 0.3,
        "file": base64.b64encode(data).decode("ascii"),
    }


def _with_other_bytes(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    way = random.randrange(4)
    for _ in range(random.choice((1, 1, 2, 8))):
        at = random.randrange(len(changed))
        if way == 0:
            changed[at] = random.randrange(256)
        elif way == 1:
            changed[at] ^= 1 << random.randrange(8)
        elif way == 2:
            del changed[at : at + random.randrange(1, 9)]
        else:
            changed[at:at] = random.randbytes(random.randrange(1, 9))
        if not changed:
            return b""
    return bytes(changed)


# ---- mutations -----------------------------------------------------------------------------------------------------


def _graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    found, waiting = [], [model.graph]
    while waiting:
        graph = waiting.pop()
        found.append(graph)
        waiting += [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return found


def _graph(model: onnx.ModelProto, random: Random) -> Any:
    """A graph, or a function, which has nodes too."""
    return random.choice([*_graphs(model), *model.functions])


def _node(model: onnx.ModelProto, random: Random) -> onnx.NodeProto:
    graph = _graph(model, random)
    slicing = [node for node in graph.node if node.op_type in ("Slice", "Split", "StridedSlice", "Gather")]
    chosen: onnx.NodeProto = random.choice(slicing if slicing and random.random() < 0.5 else graph.node)
    return chosen


def _values(model: onnx.ModelProto) -> list[str]:
    return [name for graph in _graphs(model) for node in graph.node for name in (*node.input, *node.output)] + ["", "q"]


def _tensors(model: onnx.ModelProto) -> list[TensorProto]:
    found = []
    for holder in (*_graphs(model), *model.functions):
        found += list(getattr(holder, "initializer", ()))
        found += [a.t for node in holder.node for a in node.attribute if a.HasField("t")]
    return found


def _tensor(model: onnx.ModelProto, random: Random) -> TensorProto:
    return random.choice(_tensors(model))


def _value_info(model: onnx.ModelProto, random: Random) -> onnx.ValueInfoProto:
    graph = random.choice(_graphs(model))
    kinds = [values for values in (graph.input, graph.output, graph.value_info) if values]
    chosen: onnx.ValueInfoProto = random.choice(random.choice(kinds))
    return chosen


def op_type(model: onnx.ModelProto, random: Random) -> None:
    _node(model, random).op_type = random.choice(OPERATORS)


def domain(model: onnx.ModelProto, random: Random) -> None:
    node = _node(model, random)
    node.domain = random.choice(DOMAINS)
    if random.random() < 0.5:
        model.opset_import.add(domain=node.domain, version=random.choice((1, 13, 18)))


def node_name(model: onnx.ModelProto, random: Random) -> None:
    _node(model, random).name = random.choice(NAMES)


def input_name(model: onnx.ModelProto, random: Random) -> None:
    node = _node(model, random)
    node.input[random.randrange(len(node.input))] = random.choice(_values(model))


def inputs(model: onnx.ModelProto, random: Random) -> None:
    node = _node(model, random)
    way = random.randrange(4)
    if way == 0:
        del node.input[random.randrange(len(node.input)) :]
    elif way == 1:
        node.input.append(random.choice(_values(model)))
    elif way == 2:
        del node.input[random.randrange(len(node.input))]
    else:
        i, j = random.randrange(len(node.input)), random.randrange(len(node.input))
        node.input[i], node.input[j] = node.input[j], node.input[i]


def outputs(model: onnx.ModelProto, random: Random) -> None:
    node = _node(model, random)
    way = random.randrange(4)
    if way == 0:
        node.output.append(random.choice((*NAMES, "more", "more2")))
    elif way == 1:
        del node.output[random.randrange(len(node.output))]
    elif way == 2:
        node.output[random.randrange(len(node.output))] = random.choice(_values(model))
    else:
        node.output[random.randrange(len(node.output))] = ""


def rename(model: onnx.ModelProto, random: Random) -> None:
    """One value by another name, wherever it stands."""
    old, new = random.choice(_values(model)), random.choice(NAMES)
    for holder in (*_graphs(model), *model.functions):
        for node in holder.node:
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    if name == old:
                        names[i] = new
        for kind in ("input", "output", "value_info", "initializer"):
            for item in getattr(holder, kind, ()):
                if not isinstance(item, str) and item.name == old:
                    item.name = new


def drop_node(model: onnx.ModelProto, random: Random) -> None:
    nodes = _graph(model, random).node
    del nodes[random.randrange(len(nodes))]


def double_node(model: onnx.ModelProto, random: Random) -> None:
    nodes = _graph(model, random).node
    nodes.add().CopyFrom(random.choice(nodes))
    if random.random() < 0.7:
        for i in range(len(nodes[-1].output)):
            nodes[-1].output[i] += "_again"


def swap_nodes(model: onnx.ModelProto, random: Random) -> None:
    nodes = _graph(model, random).node
    i, j = random.randrange(len(nodes)), random.randrange(len(nodes))
    first = onnx.NodeProto.FromString(nodes[i].SerializeToString())
    nodes[i].CopyFrom(nodes[j])
    nodes[j].CopyFrom(first)


def bypass_node(model: onnx.ModelProto, random: Random) -> None:
    """A node's readers read what it reads."""
    graph = _graph(model, random)
    i = random.randrange(len(graph.node))
    source, made = graph.node[i].input[0], graph.node[i].output[0]
    del graph.node[i]
    for node in graph.node:
        for j, name in enumerate(node.input):
            if name == made:
                node.input[j] = source


def attribute(model: onnx.ModelProto, random: Random) -> None:
    node = _node(model, random)
    way = random.randrange(6)
    if way == 0 and node.attribute:
        random.choice(node.attribute).type = random.randrange(-1, 17)
    elif way == 1 and node.attribute:
        random.choice(node.attribute).name = random.choice(("axis", "axes", "split", "value", "num_outputs", *NAMES))
    elif way == 2 and node.attribute:
        del node.attribute[random.randrange(len(node.attribute))]
    elif way == 3 and node.attribute:
        node.attribute.add().CopyFrom(random.choice(node.attribute))
    elif way == 4 and node.attribute:
        chosen = random.choice(node.attribute)
        chosen.ref_attr_name = random.choice(("ax", chosen.name))
    else:
        _add_attribute(node, random)


def _add_attribute(node: onnx.NodeProto, random: Random) -> None:
    name = random.choice(
        ("axis", "axes", "starts", "ends", "split", "num_outputs", "keepdims", "to", "value", "shrink_axis_mask")
    )
    for i in reversed(range(len(node.attribute))):
        if node.attribute[i].name == name:
            del node.attribute[i]
    added = node.attribute.add(name=name)
    kind = random.choice((AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT, AttributeProto.STRING))
    added.type = kind
    if kind == AttributeProto.INT:
        added.i = random.choice(INTEGERS)
    elif kind == AttributeProto.INTS:
        added.ints.extend(random.choice(INTEGERS) for _ in range(random.randrange(4)))
    elif kind == AttributeProto.FLOAT:
        added.f = random.choice((0.0, -1.5, float("nan"), float("inf"), 1e30))
    else:
        added.s = random.choice((b"", b"abc", b"\xff\xfe"))


def attribute_value(model: onnx.ModelProto, random: Random) -> None:
    chosen = random.choice([a for node in _graph(model, random).node for a in node.attribute if not a.HasField("g")])
    if chosen.type == AttributeProto.INTS and chosen.ints:
        chosen.ints[random.randrange(len(chosen.ints))] = random.choice(INTEGERS)
    elif chosen.HasField("t"):
        tensor_values(model, random, chosen.t)
    else:
        chosen.i = random.choice(INTEGERS)


def element_type(model: onnx.ModelProto, random: Random) -> None:
    _value_info(model, random).type.tensor_type.elem_type = random.randrange(-1, 31)


def other_type(model: onnx.ModelProto, random: Random) -> None:
    value = _value_info(model, random)
    inner = onnx.TypeProto.FromString(value.type.SerializeToString())
    way = random.randrange(4)
    value.ClearField("type")
    if way == 0:
        value.type.sequence_type.elem_type.CopyFrom(inner)
    elif way == 1:
        value.type.optional_type.elem_type.CopyFrom(inner)
    elif way == 2:
        value.type.sparse_tensor_type.elem_type = 1


def dimension(model: onnx.ModelProto, random: Random) -> None:
    dims = _value_info(model, random).type.tensor_type.shape.dim
    way = random.randrange(5)
    if way <= 1:
        dims[random.randrange(len(dims))].dim_value = random.choice(SIZES)
    elif way == 2:
        dims[random.randrange(len(dims))].dim_param = random.choice(
            (*NAMES, "n", "n + 1", "2*n", "n//0", "__import__('os')")
        )
    elif way == 3:
        del dims[random.randrange(len(dims))]
    else:
        for _ in range(random.choice((1, 1, 9, 70))):
            dims.add(dim_value=random.choice((1, 2, 3)))


def no_shape(model: onnx.ModelProto, random: Random) -> None:
    _value_info(model, random).type.tensor_type.ClearField("shape")


def all_sizes(model: onnx.ModelProto, random: Random) -> None:
    """One size everywhere it is written for a value by another."""
    dims = [
        d for g in _graphs(model) for v in (*g.input, *g.output, *g.value_info) for d in v.type.tensor_type.shape.dim
    ]
    old, new = random.choice(dims).dim_value, random.choice(SIZES)
    for dim in dims:
        if dim.dim_value == old:
            dim.dim_value = new


def tensor_type(model: onnx.ModelProto, random: Random) -> None:
    _tensor(model, random).data_type = random.randrange(-1, 31)


def tensor_dims(model: onnx.ModelProto, random: Random) -> None:
    dims = _tensor(model, random).dims
    if dims and random.random() < 0.6:
        dims[random.randrange(len(dims))] = random.choice(SIZES)
    elif dims and random.random() < 0.5:
        del dims[random.randrange(len(dims))]
    else:
        dims.append(random.choice(SIZES))


def tensor_data(model: onnx.ModelProto, random: Random) -> None:
    tensor = _tensor(model, random)
    data = tensor.raw_data
    way = random.randrange(4)
    if way == 0:
        tensor.raw_data = data[: random.randrange(len(data) + 1)]
    elif way == 1:
        tensor.raw_data = data + random.randbytes(random.randrange(1, 9))
    elif way == 2:
        tensor.raw_data = random.randbytes(len(data))
    else:
        tensor.ClearField("raw_data")


def tensor_values(model: onnx.ModelProto, random: Random, chosen: TensorProto | None = None) -> None:
    """Integers of a tensor of INT64, such as the parameters of a Slice, by far ones."""
    integers = [t for t in _tensors(model) if t.data_type == TensorProto.INT64 and len(t.raw_data) >= 8]
    tensor = random.choice(integers) if chosen is None else chosen
    data = bytearray(tensor.raw_data)
    at = 8 * random.randrange(len(data) // 8)
    data[at : at + 8] = random.choice(INTEGERS).to_bytes(8, "little", signed=True)
    tensor.raw_data = bytes(data)


def typed_data(model: onnx.ModelProto, random: Random) -> None:
    """INT64 data listed by entries, as many as there were or not."""
    tensor = random.choice([t for t in _tensors(model) if t.data_type == TensorProto.INT64])
    count = len(tensor.raw_data) // 8 + random.choice((0, 0, 1, -1))
    tensor.ClearField("raw_data")
    tensor.int64_data.extend(random.choice(INTEGERS) for _ in range(max(count, 0)))


def external_data(model: onnx.ModelProto, random: Random) -> None:
    tensor = _tensor(model, random)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    location = random.choice(("w.bin", "m.onnx", "../x", "/etc/passwd", "", ".", "a\0b", "\x1b[31m"))
    for key, value in (("location", location), ("offset", random.choice(("0", "-1", "9" * 30, "x", "8")))):
        tensor.external_data.add(key=key, value=value)


def overridable(model: onnx.ModelProto, random: Random) -> None:
    """An initializer that is an input, too, or instead."""
    graph = model.graph
    i = random.randrange(len(graph.initializer))
    tensor = graph.initializer[i]
    dims: Sequence[Any] = [*tensor.dims] if random.random() < 0.7 else ["n"] * len(tensor.dims)
    graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, dims))
    if random.random() < 0.5:
        del graph.initializer[i]


def drop_initializer(model: onnx.ModelProto, random: Random) -> None:
    initializers = random.choice(_graphs(model)).initializer
    del initializers[random.randrange(len(initializers))]


def graph_values(model: onnx.ModelProto, random: Random) -> None:
    graph = random.choice(_graphs(model))
    values = random.choice((graph.input, graph.output))
    way = random.randrange(3)
    if way == 0:
        del values[random.randrange(len(values))]
    elif way == 1:
        values.add(name=random.choice(_values(model)))
    else:
        values.add().CopyFrom(random.choice(values))


def opset(model: onnx.ModelProto, random: Random) -> None:
    imports = [entry for holder in (model, *model.functions) for entry in holder.opset_import]
    random.choice(imports).version = random.choice(
        (0, 1, 2, 6, 9, 10, 11, 12, 13, 16, 18, 20, 24, 25, 99, 2**31, -1, 2**62)
    )


def imports(model: onnx.ModelProto, random: Random) -> None:
    if random.random() < 0.5:
        del model.opset_import[random.randrange(len(model.opset_import))]
    else:
        model.opset_import.add(domain=random.choice(DOMAINS), version=random.choice((1, 2, 13, 18)))


def ir_version(model: onnx.ModelProto, random: Random) -> None:
    model.ir_version = random.choice((0, 1, 2, 3, 4, 7, 8, 10, 13, 99, -1, 2**62))


def functions(model: onnx.ModelProto, random: Random) -> None:
    way = random.randrange(4)
    if way == 0:  # nodes of the graph become a function that it calls, or that calls itself
        node = onnx.NodeProto.FromString(random.choice(model.graph.node).SerializeToString())
        function = model.functions.add(name=node.op_type, domain=node.domain)
        function.input.extend(name for name in node.input if name)
        function.output.extend(node.output)
        function.opset_import.extend(model.opset_import)
        function.node.append(node)
    elif way == 1:
        model.functions.add().CopyFrom(random.choice(model.functions))
    elif way == 2:
        random.choice(model.functions).attribute.append("ax")
    else:
        function = random.choice(model.functions)
        random.choice(function.node).op_type = function.name
        random.choice(function.node).domain = function.domain


def text(model: onnx.ModelProto, random: Random) -> None:
    """A name that other text follows may be cut inside a character (see `bytes`); here, any text by any."""
    holder = random.choice([model, model.graph, *model.functions])
    field = random.choice(
        [f for f in holder.DESCRIPTOR.fields if f.type == FieldDescriptor.TYPE_STRING and not _many(f)]
    )
    setattr(holder, field.name, random.choice(NAMES))


def any_field(model: onnx.ModelProto, random: Random) -> None:
    """Any field of any message cleared, or any of its entries dropped or doubled."""
    holders = list(_messages(model))
    holder = random.choice(holders)
    field, _ = random.choice(holder.ListFields())
    if not _many(field) or random.random() < 0.3:
        holder.ClearField(field.name)
        return
    entries = getattr(holder, field.name)
    i = random.randrange(len(entries))
    if random.random() < 0.6:
        del entries[i]
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        entries.add().CopyFrom(entries[i])
    else:
        entries.append(entries[i])


def _many(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if _many(field) else [value]:
                yield from _messages(inner)


MUTATIONS: tuple[Callable[[onnx.ModelProto, Random], None], ...] = (
    op_type, domain, node_name, input_name, inputs, outputs, rename, drop_node, double_node, swap_nodes, bypass_node,
    attribute, attribute, attribute_value, element_type, other_type, dimension, dimension, no_shape, all_sizes,
    tensor_type, tensor_dims, tensor_data, tensor_values, tensor_values, tensor_values, typed_data, external_data,
    overridable, drop_initializer, graph_values, opset, imports, ir_version, functions, text, any_field, any_field,
)  # fmt: skip


# ---- checking ------------------------------------------------------------------------------------------------------


def check(case: Case) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        path.write_bytes(base64.b64decode(case["file"]))
        for command in COMMANDS:
            if command == "compare" and _is_large(path.read_bytes()):
                continue
            said = _check_command(command, case, path)
            if said is not None:
                return said
    return None


def _is_large(data: bytes) -> bool:
    """Whether some size that the file has makes a model large that may be run all the same."""
    try:
        model = onnx.ModelProto.FromString(data)
        dims = [d for g in _graphs(model) for v in (*g.input, *g.output, *g.value_info) for d in _sizes(v)]
        elements = [prod(_sizes(v)) for g in _graphs(model) for v in (*g.input, *g.output, *g.value_info)]
        return max([*elements, *dims, *_far_integers(model)], default=0) > MAX_ELEMENTS
    except Exception:
        return False


def _sizes(value: onnx.ValueInfoProto) -> list[int]:
    return [max(dim.dim_value, 1) for dim in value.type.tensor_type.shape.dim]


def _far_integers(model: onnx.ModelProto) -> Iterator[int]:
    """Integers that may be sizes: of ConstantOfShape, Expand, Tile, Range and the like."""
    if not {node.op_type for g in _graphs(model) for node in g.node} & {
        "ConstantOfShape",
        "Expand",
        "Tile",
        "Range",
        "Pad",
    }:
        return
    for tensor in _tensors(model):
        if tensor.data_type == TensorProto.INT64:
            data = tensor.raw_data
            at = range(0, len(data) - 7, 8)
            yield from (abs(int.from_bytes(data[i : i + 8], "little", signed=True)) for i in at)
            yield from map(abs, tensor.int64_data)


def _check_command(command: str, case: Case, path: Path) -> str | None:
    out = path.parent / ("out" if command == "lower" else "out.onnx")
    words = [command, str(path), "--format", "json" if case["json"] else "text"]
    words += ["-o", str(out)] if command != "compare" else []
    if case["shapes"] and command in ("lower", "compare"):
        words[1:1] = _given_shapes(path)
    _forget_peak()
    begun = _seconds()
    code, stdout, stderr = _run(words)
    seconds, peak = _seconds() - begun, _peak()
    is_there = out.exists()
    for left in (*path.parent.glob("out*"), *path.parent.glob(".sliceport-*")):
        _remove(left)
    if isinstance(code, str):
        return f"{command} raises: {code}"
    if code not in (0, 1, 2):
        return f"{command} ends with exit code {code}: {stderr[-300:]}"
    if seconds > MAX_SECONDS:
        return f"{command} takes long: {seconds:.1f} s"
    if peak > MAX_BYTES:
        return f"{command} takes much memory: {peak / 2**20:.0f} MiB"
    if code == 2 and is_there and command != "compare":
        return f"{command} writes in spite of exit code 2: {stderr}"
    return _check_text(command, code, stdout, stderr, case["json"])


def _given_shapes(path: Path) -> list[str]:
    """Sizes for an input or two, as a user would give them."""
    try:
        model = onnx.ModelProto.FromString(path.read_bytes())
        values = [(v.name, [d.dim_value or 2 for d in v.type.tensor_type.shape.dim]) for v in model.graph.input[:2]]
        words = [f"--input-shapes={name}:{','.join(map(str, dims))}" for name, dims in values if isinstance(name, str)]
        return [word for word in words if "-" not in word[2:].partition("=")[2] and "\0" not in word]
    except Exception:
        return []


def _check_text(command: str, code: int, stdout: str, stderr: str, is_json: bool) -> str | None:
    lines = stderr.splitlines()
    said = [line for line in lines if not line.startswith("sliceport: wrote ")]
    if len(said) > 1 or (said and not said[0].startswith("sliceport: ")) or (code == 2) != bool(said):
        return f"{command} says other than one sentence: code {code}, {stderr[-500:]!r}"
    if said and not said[0].endswith("."):
        return f"{command} says no sentence: {said[0][-300:]}"
    if said and UNFORESEEN in said[0]:
        return f"{command} did not foresee {said[0].partition(UNFORESEEN)[2][2:].partition(':')[0]}: {said[0][-400:]}"
    if code == 2 and stdout:
        return f"{command} prints in spite of exit code 2: {stdout[:300]!r}"
    raw = next((line for line in (*stdout.split("\n"), *lines) if not line.isprintable()), None)
    if raw is not None:
        return f"{command} prints what a terminal acts on: {raw!r}"
    if is_json and code != 2:
        try:
            json.loads(stdout, parse_constant=lambda name: json.loads(f"no {name}"))
        except ValueError as error:
            return f"{command} prints no JSON: {error}"
    return None


def _run(words: list[str]) -> tuple[int | str, str, str]:
    """A command line in this process: its exit code, or the traceback, and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code: int | str
        try:
            code = main(words)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else str(error.code)
        except BaseException:
            code = " ".join(traceback.format_exc().split())[-600:]
    return code, out.getvalue(), err.getvalue()


def _seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """The most memory that this process had since `_forget_peak`, where the platform tells."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            _remove(inner)
        path.rmdir()
    else:
        os.unlink(path)


# ---- shrinking -----------------------------------------------------------------------------------------------------


def shrink(case: Case) -> Iterator[Case]:
    """The case with less in its file, the largest parts first."""
    yield from ({**case, option: False} for option in ("json", "shapes") if case[option])
    data = base64.b64decode(case["file"])
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception:
        yield from ({**case, "file": _encoded(part)} for part in _cut(data))
        return
    smaller = sorted({part for part in _without_one_part(model) if len(part) < len(data)}, key=len)
    for part in smaller:
        yield {**case, "file": _encoded(part)}


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _cut(data: bytes) -> Iterator[bytes]:
    size = len(data) // 2
    while size:
        for at in range(0, len(data), size):
            yield data[:at] + data[at + size :]
        size //= 4


def _without_one_part(model: onnx.ModelProto) -> Iterator[bytes]:
    """The model without one field, or one entry of one, or without half of its entries."""
    for message in list(_messages(model)):
        for field, value in message.ListFields():
            kept = message.SerializeToString()
            if _many(field):
                for start, stop in _parts(len(value)):
                    del getattr(message, field.name)[start:stop]
                    yield model.SerializeToString()
                    message.ParseFromString(kept)
            else:
                message.ClearField(field.name)
                yield model.SerializeToString()
                message.ParseFromString(kept)


def _parts(count: int) -> Iterator[tuple[int, int]]:
    if count > 3:
        yield 0, count // 2
        yield count // 2, count
    yield from ((i, i + 1) for i in range(min(count, 40)))
