"""Smaller cases to try in the place of one that fails: of JSON values and of ONNX models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from .modules import Case

MANY = 40
"""The number of entries of one field that are left out one by one."""


def smaller_cases(case: Case, plain: Mapping[str, Any]) -> Iterator[Case]:
    """Yield cases with one option as in `plain`, one entry less, or one integer nearer to 0."""
    for name, value in plain.items():
        if name in case and case[name] != value:
            yield {**case, name: value}
    # The lists of one length often belong together, as starts and ends do.
    for length in sorted({len(each) for each in _lists(case)}):
        for i in range(length):
            yield _without_entry(case, length, i)
    yield from _smaller(case)


def _lists(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _lists(inner)


def _without_entry(value: Any, length: int, index: int) -> Any:
    """Leave out entry `index` of every list of integers or text that has `length` entries."""
    if isinstance(value, dict):
        return {name: _without_entry(inner, length, index) for name, inner in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) == length and not any(isinstance(inner, list) for inner in value):
        return value[:index] + value[index + 1 :]
    return [_without_entry(inner, length, index) for inner in value]


def _smaller(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        if value:
            yield False
    elif isinstance(value, int):
        nearer = (0, 1, -1, int(value / 2), value - 1 if value > 0 else value + 1)
        yield from (number for number in dict.fromkeys(nearer) if abs(number) < abs(value))
    elif isinstance(value, list):
        yield from (value[:i] + value[i + 1 :] for i in range(len(value)))
        yield from (
            [*value[:i], smaller, *value[i + 1 :]] for i, inner in enumerate(value) for smaller in _smaller(inner)
        )
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: smaller} for smaller in _smaller(inner))
            if isinstance(inner, dict):
                yield from ({**value, name: {k: v for k, v in inner.items() if k != key}} for key in inner)


def smaller_models(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Yield models without one node, whose readers read the node's input, then models without one field or entry."""
    for i in reversed(range(len(model.graph.node))):
        smaller = onnx.ModelProto.FromString(model.SerializeToString())
        bypass(smaller.graph, i)
        yield smaller
    data = model.SerializeToString()
    parts = {part for part in _without_one_part(model) if len(part) < len(data)}
    for part in sorted(parts, key=lambda part: (len(part), part)):
        yield onnx.ModelProto.FromString(part)


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


def messages(message: Message) -> Iterator[Message]:
    """Yield a message and every message inside it."""
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from messages(inner)


def _without_one_part(model: onnx.ModelProto) -> Iterator[bytes]:
    """Serialize the model without one field, without one entry of a field, or without half of its entries."""
    for message in reversed(list(messages(model))):  # restoring a message replaces those inside it
        for field, value in message.ListFields():
            whole = message.SerializeToString()
            for part in _parts(len(value)) if field.is_repeated else [None]:
                if part is None:
                    message.ClearField(field.name)
                else:
                    del getattr(message, field.name)[part]
                yield model.SerializeToString()
                message.ParseFromString(whole)


def _parts(count: int) -> Iterator[slice]:
    if count > 3:
        yield slice(count // 2)
        yield slice(count // 2, count)
    yield from (slice(i, i + 1) for i in range(min(count, MANY)))
