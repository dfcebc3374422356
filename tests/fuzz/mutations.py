"""Changes of ONNX models that damage them: of fields, nodes, tensors, sizes and names."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto

Random = random.Random
Mutation = Callable[[onnx.ModelProto, Random], None]
SLICING = ("Slice", "Split", "StridedSlice", "Gather")
INTEGERS = (
    *range(-2, 32), 255, 1000, 10**7, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**31), -(2**63),
)  # fmt: skip
FLOATS = (0.0, -1.5, float("nan"), float("inf"), 1e30)
NAMES = ("", "x", "y", "new", "a\x1b[31mb", "two words", "\u202e", "\x00", "n" * 300, "-x", "\ud7ff", "a/b", "..", "é")
OPERATORS = (
    "Slice", "Split", "Gather", "Concat", "Identity", "Relu", "Constant", "ConstantOfShape", "Shape", "Reshape",
    "Squeeze", "Unsqueeze", "Transpose", "Cast", "Add", "Mul", "Sigmoid", "If", "Loop", "Scan", "Expand", "Range",
    "Pad", "Where", "Size", "Tile", "Flatten", "Div", "NoSuchOperator", "StridedSlice",
)  # fmt: skip
DOMAINS = ("ai.onnx", "ov_ext", "com.example", "ai.onnx.ml")
ATTRIBUTES = ("axis", "axes", "starts", "ends", "split", "num_outputs", "keepdims", "to", "value", "shrink_axis_mask")
SYMBOLS = ("n", "n + 1", "2*n", "n//0", "__import__('os')")
LOCATIONS = ("w.bin", "m.onnx", "../x", "/etc/passwd", "", ".", "a\0b", "\x1b[31m")


def messages(message: Message) -> Iterator[Message]:
    """Yield a message and every message inside it."""
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from messages(inner)


def graphs_and_functions_of(model: onnx.ModelProto) -> list[Any]:
    """Return every graph and function, which all have nodes."""
    return [each for each in messages(model) if isinstance(each, onnx.GraphProto | onnx.FunctionProto)]


def nodes_of(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return the nodes of all graphs and functions."""
    return [node for holder in graphs_and_functions_of(model) for node in holder.node]


def choose_node(model: onnx.ModelProto, random: Random) -> onnx.NodeProto:
    """Choose a node, a slicing one half of the time."""
    nodes = nodes_of(model)
    slicing = [node for node in nodes if node.op_type in SLICING]
    return random.choice(slicing if slicing and random.random() < 0.5 else nodes)


def tensors_of(model: onnx.ModelProto) -> list[TensorProto]:
    """Return all tensors, those of attributes too."""
    return [each for each in messages(model) if isinstance(each, TensorProto)]


def dimensions_of(model: onnx.ModelProto) -> list[Any]:
    return [each for each in messages(model) if isinstance(each, onnx.TensorShapeProto.Dimension)]


def value_names_of(model: onnx.ModelProto) -> list[str]:
    return [name for node in nodes_of(model) for name in (*node.input, *node.output)] + ["", "q"]


def field(model: onnx.ModelProto, random: Random) -> None:
    """Clear or set a field, or drop, double, swap or add entries: each type of message is as likely as the others."""
    kinds: dict[str, list[Any]] = {}
    for message in messages(model):
        kinds.setdefault(message.DESCRIPTOR.name, []).append(message)
    kind = random.choice(sorted(kinds))
    holder = choose_node(model, random) if kind == "NodeProto" else random.choice(kinds[kind])
    present = [descriptor for descriptor, _ in holder.ListFields()]
    chosen = random.choice(present if random.random() < 0.7 else list(holder.DESCRIPTOR.fields))
    if random.random() < 0.15:
        holder.ClearField(chosen.name)
    elif chosen.is_repeated:
        _change_entries(holder, chosen, model, random)
    elif chosen.type == FieldDescriptor.TYPE_MESSAGE:
        inner = getattr(holder, chosen.name)
        same = [each for each in messages(model) if each.DESCRIPTOR is inner.DESCRIPTOR] or [inner]
        inner.ParseFromString(random.choice(same).SerializeToString())  # CopyFrom crashes on a message inside another
    else:
        setattr(holder, chosen.name, _any_value(chosen, getattr(holder, chosen.name), model, random))


def _change_entries(holder: Any, chosen: FieldDescriptor, model: onnx.ModelProto, random: Random) -> None:
    """Change the entries of a repeated field."""
    entries = getattr(holder, chosen.name)
    way = random.choice(("drop", "cut", "double", "swap", "set", "add"))
    is_message = chosen.type == FieldDescriptor.TYPE_MESSAGE
    i, j = (random.randrange(max(len(entries), 1)) for _ in range(2))
    if way == "drop":
        del entries[i]
    elif way == "cut":
        del entries[i:]
    elif way == "double":
        entries.extend(list(entries[i : i + 1]))
        if isinstance(entries[-1], onnx.NodeProto) and random.random() < 0.7:
            entries[-1].output[:] = [f"{name}_again" for name in entries[-1].output]
    elif way == "swap":
        copies = list(getattr(type(holder).FromString(holder.SerializeToString()), chosen.name))
        copies[i], copies[j] = copies[j], copies[i]
        del entries[:]
        entries.extend(copies)
    elif is_message:
        entries.add()
    elif way == "set":
        entries[i] = _any_value(chosen, entries[i], model, random)
    else:
        for _ in range(random.choice((1, 1, 2, 9, 70))):
            entries.append(_any_value(chosen, None, model, random))


def _any_value(chosen: FieldDescriptor, old: Any, model: onnx.ModelProto, random: Random) -> Any:
    """Return a value for a scalar field."""
    if chosen.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return random.choice(FLOATS)
    if chosen.type == FieldDescriptor.TYPE_BYTES:
        data = bytes(old or b"")
        cut = data[: random.randrange(len(data) + 1)]
        return random.choice((cut, data + random.randbytes(3), random.randbytes(len(data)), b"\xff\xfe"))
    if chosen.type != FieldDescriptor.TYPE_STRING:
        return random.choice(INTEGERS)
    if random.random() < 0.3:
        return random.choice(NAMES)
    values_by_field = {"op_type": OPERATORS, "domain": DOMAINS, "dim_param": SYMBOLS, "name": (*ATTRIBUTES, *NAMES)}
    return random.choice(values_by_field.get(chosen.name, value_names_of(model)))


def rename(model: onnx.ModelProto, random: Random) -> None:
    """Rename one value wherever its name stands."""
    old, new = random.choice(value_names_of(model)), random.choice(NAMES)
    for node in nodes_of(model):
        for names in (node.input, node.output):
            names[:] = [new if name == old else name for name in names]
    for each in messages(model):
        if isinstance(each, onnx.ValueInfoProto | TensorProto) and each.name == old:
            each.name = new


def bypass(graph: Any, index: int) -> None:
    """Remove a node of a graph or function; its readers, and outputs of the graph, read its first input."""
    removed = graph.node[index]
    del graph.node[index]
    if not removed.input:
        return
    for node in graph.node:
        node.input[:] = [removed.input[0] if name in removed.output else name for name in node.input]
    for i, output in reversed(list(enumerate(graph.output))):
        if isinstance(output, onnx.ValueInfoProto) and output.name in removed.output:
            output.name = removed.input[0]
            output.type.tensor_type.ClearField("shape")
            if [other.name for other in graph.output].count(output.name) > 1:
                del graph.output[i]


def bypass_node(model: onnx.ModelProto, random: Random) -> None:
    graph = random.choice(graphs_and_functions_of(model))
    bypass(graph, random.randrange(len(graph.node)))


def attribute(model: onnx.ModelProto, random: Random) -> None:
    """Give a node an attribute in the place of the one of that name."""
    node = choose_node(model, random)
    name = random.choice(ATTRIBUTES)
    others = [each for each in node.attribute if each.name != name]
    value: Any = random.choice((random.choice(INTEGERS), [random.choice(INTEGERS)] * 2, random.choice(FLOATS), b"abc"))
    del node.attribute[:]
    node.attribute.extend([*others, onnx.helper.make_attribute(name, value)])


def sizes(model: onnx.ModelProto, random: Random) -> None:
    """Replace one size wherever it stands, or only once."""
    old, new = random.choice(dimensions_of(model)), random.choice(INTEGERS)
    size = old.dim_value
    for dim in dimensions_of(model) if random.random() < 0.5 else [old]:
        if dim.dim_value == size:
            dim.dim_value = new


def far_integer(model: onnx.ModelProto, random: Random) -> None:
    """Replace an entry of an INT64 tensor, such as a parameter of a Slice."""
    tensor = random.choice(
        [each for each in tensors_of(model) if each.data_type == TensorProto.INT64 and len(each.raw_data) >= 8]
    )
    position = 8 * random.randrange(len(tensor.raw_data) // 8)
    entry = random.choice(INTEGERS).to_bytes(8, "little", signed=True)
    tensor.raw_data = tensor.raw_data[:position] + entry + tensor.raw_data[position + 8 :]


def typed_data(model: onnx.ModelProto, random: Random) -> None:
    """List the entries of an INT64 tensor, perhaps one too many or one too few."""
    tensor = random.choice([each for each in tensors_of(model) if each.data_type == TensorProto.INT64])
    count = len(tensor.raw_data) // 8 + random.choice((0, 0, 1, -1))
    tensor.ClearField("raw_data")
    tensor.int64_data.extend(random.choice(INTEGERS) for _ in range(count))


def external_data(model: onnx.ModelProto, random: Random) -> None:
    tensor = random.choice(tensors_of(model))
    tensor.data_location = TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    offset = random.choice(("0", "-1", "9" * 30, "x", "8"))
    for key, value in (("location", random.choice(LOCATIONS)), ("offset", offset)):
        tensor.external_data.add(key=key, value=value)


def overridable(model: onnx.ModelProto, random: Random) -> None:
    """Make an initializer an input, too, or instead."""
    initializers = model.graph.initializer
    i = random.randrange(len(initializers))
    tensor = initializers[i]
    dims: list[Any] = [*tensor.dims] if random.random() < 0.7 else ["n"] * len(tensor.dims)
    model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, dims))
    if random.random() < 0.5:
        del initializers[i]


def function(model: onnx.ModelProto, random: Random) -> None:
    """Make a node a function that the graph calls, or let a function call itself."""
    if model.functions and random.random() < 0.5:
        chosen = random.choice(model.functions)
        node = random.choice(chosen.node)
        node.op_type, node.domain = chosen.name, chosen.domain
    else:
        node = random.choice(model.graph.node)
        added = model.functions.add(name=node.op_type, domain=node.domain, opset_import=model.opset_import)
        added.input.extend(name for name in node.input if name)
        added.output.extend(node.output)
        added.node.add().CopyFrom(node)


MUTATIONS: tuple[Mutation, ...] = (
    *[field] * 20, *[far_integer] * 3, *[sizes] * 2,
    rename, bypass_node, attribute, typed_data, external_data, overridable, function,
)  # fmt: skip
