"""Damaged ONNX files: the models of models/ with their fields, nodes, tensors and bytes changed.

Whatever a file holds, every command ends with 0, 1 or 2, prints at most one sentence on stderr, prints no control
characters, and leaves no file half-written. `compare` is not asked about models that may be large but sound, because
running them takes onnxruntime a long time.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
import re
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from onnx import TensorProto

from sliceport.cli.main import main

from .modules import Case
from .shrinking import bypass, messages, smaller_models

NAME = "files"
BUDGET = 80

Random = random.Random
Mutation = Callable[[onnx.ModelProto, Random], None]

MODELS = Path(__file__).parents[2] / "models"
MAX_MODEL_BYTES = 30_000
MAX_ELEMENTS = 10**6
"""The most elements of one value in a model that is run."""
COMMANDS = ("lower", "compare", "rewrite", "harden")
UNFORESEEN = re.compile(r"\((\w+(?:Error|Exception))\b")
"""The name of an exception in a message: a class of damage that needs a sentence of its own."""
SLICING = ("Slice", "Split", "StridedSlice", "Gather")
SIZING = {"ConstantOfShape", "Expand", "Tile", "Range", "Pad"}

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
        with contextlib.suppress(IndexError, ValueError, TypeError, AttributeError):  # the model has none to change
            mutation(model, random)
            story.append(mutation.__name__)
    data = model.SerializeToString()
    if random.random() < 0.15:
        data = _with_other_bytes(data, random)
        story.append("bytes")
    return {"story": story, "json": random.random() < 0.2, "shapes": random.random() < 0.3, "file": _encode(data)}


def _with_other_bytes(data: bytes, random: Random) -> bytes:
    way = random.randrange(4)
    for _ in range(random.choice((1, 1, 2, 8))):
        at, count = random.randrange(len(data) + 1), random.randrange(1, 9)
        changed = data[at : at + 1]
        if way == 0:
            changed = random.randbytes(1)
        elif way == 1:
            changed = bytes(byte ^ 1 << random.randrange(8) for byte in changed)
        elif way == 2:
            changed += random.randbytes(count)
        data = data[:at] + changed + data[at + (count if way == 3 else 1) :]
    return data


# ---- mutations -----------------------------------------------------------------------------------------------------


def _holders(model: onnx.ModelProto) -> list[Any]:
    """Return every graph and function, which all have nodes."""
    return [each for each in messages(model) if isinstance(each, onnx.GraphProto | onnx.FunctionProto)]


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for holder in _holders(model) for node in holder.node]


def _node(model: onnx.ModelProto, random: Random) -> onnx.NodeProto:
    nodes = _nodes(model)
    slicing = [node for node in nodes if node.op_type in SLICING]
    return random.choice(slicing if slicing and random.random() < 0.5 else nodes)


def _tensors(model: onnx.ModelProto) -> list[TensorProto]:
    return [each for each in messages(model) if isinstance(each, TensorProto)]


def _dims(model: onnx.ModelProto) -> list[Any]:
    return [each for each in messages(model) if isinstance(each, onnx.TensorShapeProto.Dimension)]


def _value_names(model: onnx.ModelProto) -> list[str]:
    return [name for node in _nodes(model) for name in (*node.input, *node.output)] + ["", "q"]


def field(model: onnx.ModelProto, random: Random) -> None:
    """Clear or set a field, or drop, double, swap or add entries: each type of message is as likely as the others."""
    kinds: dict[str, list[Any]] = {}
    for message in messages(model):
        kinds.setdefault(message.DESCRIPTOR.name, []).append(message)
    kind = random.choice(sorted(kinds))
    holder = _node(model, random) if kind == "NodeProto" else random.choice(kinds[kind])
    present = [each for each, _ in holder.ListFields()]
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
    by_name = {"op_type": OPERATORS, "domain": DOMAINS, "dim_param": SYMBOLS, "name": (*ATTRIBUTES, *NAMES)}
    return random.choice(by_name.get(chosen.name, _value_names(model)))


def rename(model: onnx.ModelProto, random: Random) -> None:
    """Rename one value wherever its name stands."""
    old, new = random.choice(_value_names(model)), random.choice(NAMES)
    for node in _nodes(model):
        for names in (node.input, node.output):
            names[:] = [new if name == old else name for name in names]
    for each in messages(model):
        if isinstance(each, onnx.ValueInfoProto | TensorProto) and each.name == old:
            each.name = new


def bypass_node(model: onnx.ModelProto, random: Random) -> None:
    graph = random.choice(_holders(model))
    bypass(graph, random.randrange(len(graph.node)))


def attribute(model: onnx.ModelProto, random: Random) -> None:
    """Give a node an attribute in the place of the one of that name."""
    node = _node(model, random)
    name = random.choice(ATTRIBUTES)
    kept = [each for each in node.attribute if each.name != name]
    value: Any = random.choice((random.choice(INTEGERS), [random.choice(INTEGERS)] * 2, random.choice(FLOATS), b"abc"))
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])


def sizes(model: onnx.ModelProto, random: Random) -> None:
    """Replace one size wherever it stands, or only once."""
    old, new = random.choice(_dims(model)), random.choice(INTEGERS)
    size = old.dim_value
    for dim in _dims(model) if random.random() < 0.5 else [old]:
        if dim.dim_value == size:
            dim.dim_value = new


def far_integer(model: onnx.ModelProto, random: Random) -> None:
    """Replace an entry of an INT64 tensor, such as a parameter of a Slice."""
    tensor = random.choice([t for t in _tensors(model) if t.data_type == TensorProto.INT64 and len(t.raw_data) >= 8])
    at = 8 * random.randrange(len(tensor.raw_data) // 8)
    entry = random.choice(INTEGERS).to_bytes(8, "little", signed=True)
    tensor.raw_data = tensor.raw_data[:at] + entry + tensor.raw_data[at + 8 :]


def typed_data(model: onnx.ModelProto, random: Random) -> None:
    """List the entries of an INT64 tensor, perhaps one too many or one too few."""
    tensor = random.choice([t for t in _tensors(model) if t.data_type == TensorProto.INT64])
    count = len(tensor.raw_data) // 8 + random.choice((0, 0, 1, -1))
    tensor.ClearField("raw_data")
    tensor.int64_data.extend(random.choice(INTEGERS) for _ in range(count))


def external_data(model: onnx.ModelProto, random: Random) -> None:
    tensor = random.choice(_tensors(model))
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


# ---- checking ------------------------------------------------------------------------------------------------------


def check(case: Case) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        path.write_bytes(base64.b64decode(case["file"]))
        for command in COMMANDS:
            if command == "compare" and _is_large(path.read_bytes()):
                continue
            complaint = _check_command(command, case, path)
            if complaint is not None:
                return complaint
    return None


def _is_large(data: bytes) -> bool:
    """Return whether a size that the file holds makes the model large, though perhaps sound."""
    try:
        model = onnx.ModelProto.FromString(data)
        shapes = [_sizes(each) for each in messages(model) if isinstance(each, onnx.TensorShapeProto)]
        is_sizing = any(node.op_type in SIZING for node in _nodes(model))
        integers = [entry for tensor in _tensors(model) for entry in _integers(tensor)] if is_sizing else []
        return max([*map(prod, shapes), *(size for shape in shapes for size in shape), *integers, 0]) > MAX_ELEMENTS
    except Exception:
        return False


def _sizes(shape: onnx.TensorShapeProto) -> list[int]:
    return [max(dim.dim_value, 1) for dim in shape.dim]


def _integers(tensor: TensorProto) -> Iterator[int]:
    """Yield the magnitudes of the integers in a tensor, which may be sizes."""
    if tensor.data_type == TensorProto.INT64:
        data = tensor.raw_data
        yield from (
            abs(int.from_bytes(data[i : i + 8], "little", signed=True)) for i in range(0, len(data) // 8 * 8, 8)
        )
        yield from map(abs, tensor.int64_data)


def _check_command(command: str, case: Case, path: Path) -> str | None:
    out = path.parent / ("out" if command == "lower" else "out.onnx")
    words = [command, str(path), "--format", "json" if case["json"] else "text"]
    words += ["-o", str(out)] if command != "compare" else []
    if case["shapes"] and command in ("lower", "compare"):
        words[1:1] = _given_shapes(path)
    code, stdout, stderr = _run(words)
    is_there = out.exists()
    for left in path.parent.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        elif left != path:
            left.unlink()
    if isinstance(code, str):
        return f"{command} raises: {code}"
    if code not in (0, 1, 2):
        return f"{command} ends with exit code {code}: {stderr[-300:]}"
    if code == 2 and is_there and command != "compare":
        return f"{command} writes in spite of exit code 2: {stderr}"
    return _check_text(command, code, stdout, stderr, case["json"])


def _given_shapes(path: Path) -> list[str]:
    """Return options with shapes for an input or two, as a user would write them."""
    try:
        model = onnx.ModelProto.FromString(path.read_bytes())
        values = [(v.name, [d.dim_value or 2 for d in v.type.tensor_type.shape.dim]) for v in model.graph.input[:2]]
        words = [f"--input-shapes={name}:{','.join(map(str, dims))}" for name, dims in values]
        return [word for word in words if "-" not in word[2:].partition("=")[2] and "\0" not in word]
    except Exception:
        return []


def _check_text(command: str, code: int, stdout: str, stderr: str, is_json: bool) -> str | None:
    lines = stderr.splitlines()
    errors = [line for line in lines if not line.startswith("sliceport: wrote ")]
    if len(errors) > 1 or (errors and not errors[0].startswith("sliceport: ")) or (code == 2) != bool(errors):
        return f"{command} prints other than one sentence: code {code}, {stderr[-500:]!r}"
    if errors and not errors[0].endswith("."):
        return f"{command} prints no sentence: {errors[0][-300:]}"
    unforeseen = UNFORESEEN.search(errors[0]) if errors else None
    if unforeseen:
        return f"{command} did not foresee {unforeseen[1]}: {errors[0]}"
    if code == 2 and stdout and not is_json:
        return f"{command} prints in spite of exit code 2: {stdout[:300]!r}"
    raw = next((line for line in (*stdout.split("\n"), *lines) if not line.isprintable()), None)
    if raw is not None:
        return f"{command} prints control characters: {raw!r}"
    if is_json and stdout:
        try:
            json.loads(stdout, parse_constant=lambda name: json.loads(f"no {name}"))
        except ValueError as error:
            return f"{command} prints no JSON: {error}"
    return None


def _run(words: list[str]) -> tuple[int | str, str, str]:
    """Run a command line in this process; return its exit code, or the traceback, and its output."""
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


# ---- shrinking -----------------------------------------------------------------------------------------------------


def shrink(case: Case) -> Iterator[Case]:
    yield from ({**case, option: False} for option in ("json", "shapes") if case[option])
    data = base64.b64decode(case["file"])
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception:
        yield from ({**case, "file": _encode(part)} for part in _cut(data))
    else:
        yield from ({**case, "file": _encode(smaller.SerializeToString())} for smaller in smaller_models(model))


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _cut(data: bytes) -> Iterator[bytes]:
    size = len(data) // 2
    while size:
        yield from (data[:at] + data[at + size :] for at in range(0, len(data), size))
        size //= 4
