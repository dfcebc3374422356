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
from collections.abc import Iterator
from functools import cache
from math import prod
from pathlib import Path

import onnx
from onnx import TensorProto

from sliceport.cli.main import main

from .modules import Case
from .mutations import MUTATIONS, messages, nodes_of, tensors_of

BUDGET = 80

Random = random.Random

MODELS = Path(__file__).parents[2] / "models"
MAX_MODEL_BYTES = 30_000
MAX_ELEMENTS = 10**6
"""The most elements of one value in a model that is run."""
COMMANDS = ("lower", "compare", "rewrite", "harden")
UNFORESEEN = re.compile(r"\((\w+(?:Error|Exception))\b")
"""The name of an exception in a message: a class of damage that needs a sentence of its own."""
SIZING = {"ConstantOfShape", "Expand", "Tile", "Range", "Pad"}


@cache
def models() -> list[tuple[str, bytes]]:
    contents = [(path.name, path.read_bytes()) for path in sorted(MODELS.glob("*.onnx"))]
    return [(name, data) for name, data in contents if len(data) <= MAX_MODEL_BYTES]


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
        position, count = random.randrange(len(data) + 1), random.randrange(1, 9)
        changed = data[position : position + 1]
        if way == 0:
            changed = random.randbytes(1)
        elif way == 1:
            changed = bytes(byte ^ 1 << random.randrange(8) for byte in changed)
        elif way == 2:
            changed += random.randbytes(count)
        data = data[:position] + changed + data[position + (count if way == 3 else 1) :]
    return data


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
        is_sizing = any(node.op_type in SIZING for node in nodes_of(model))
        integers = [entry for tensor in tensors_of(model) for entry in _integers(tensor)] if is_sizing else []
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
    """Return a complaint if a command breaks a promise on a file."""
    out = path.parent / ("out" if command == "lower" else "out.onnx")
    words = [command, str(path), "--format", "json" if case["json"] else "text"]
    words += ["-o", str(out)] if command != "compare" else []
    if case["shapes"] and command in ("lower", "compare"):
        words[1:1] = _given_shapes(path)
    code, stdout, stderr = _run(words)
    is_there = out.exists()
    for entry in path.parent.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry != path:
            entry.unlink()
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
        values = [
            (value.name, [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim])
            for value in model.graph.input[:2]
        ]
        words = [f"--input-shapes={name}:{','.join(map(str, dims))}" for name, dims in values]
        return [word for word in words if "-" not in word[2:].partition("=")[2] and "\0" not in word]
    except Exception:
        return []


def _check_text(command: str, code: int, stdout: str, stderr: str, is_json: bool) -> str | None:
    """Return a complaint if the output of a command is not as promised."""
    lines = stderr.splitlines()
    errors = [line for line in lines if not line.startswith(("sliceport: wrote ", "sliceport: sizes: "))]
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


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
