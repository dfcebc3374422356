"""Random descriptors, good ones and ones that are bad in one field."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

from sliceport.directml.operators import ElementWiseIdentity, Operator, Slice, Slice1, Split, struct_fields
from sliceport.directml.tensor import BufferTensor, DataType, buffer_size

TYPES = [data_type for data_type in DataType if data_type.bits >= 8]
EDGES = (0, 1, 2, 3, 5, 8, 9, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
STEPS = (1, 1, 2, 3, -1, -2, 2**31 - 1, -(2**31))


def strides(pick: random.Random, sizes: tuple[int, ...], *, written: bool) -> tuple[int, ...] | None:
    """Choose strides: packed (None), permuted, padded or, for an input, broadcast."""
    if pick.random() < 0.6:
        return None
    order = list(range(len(sizes)))
    pick.shuffle(order)
    out = [0] * len(sizes)
    step = 1
    for axis in reversed(order):
        out[axis] = step
        step = step * sizes[axis] + pick.choice((0, 0, 1, 3))
    if not written and pick.random() < 0.3:
        out[pick.randrange(len(out))] = 0
    return tuple(out)


def tensor(pick: random.Random, data_type: DataType, sizes: tuple[int, ...], *, written: bool = False) -> BufferTensor:
    alignment = pick.choice((0, 0, 0, 16, 32, 256))
    return BufferTensor.of(data_type, sizes, strides(pick, sizes, written=written), alignment=alignment)


def good(
    pick: random.Random, kind: type[Operator] | None = None, data_type: DataType | None = None, rank: int | None = None
) -> Operator:
    """Build an operator that keeps every rule; kind, type and rank are random by default."""
    kind = kind or pick.choice((Slice1, Slice1, Slice, Split, ElementWiseIdentity))
    data_type = data_type or pick.choice(TYPES)
    sizes = tuple(pick.randint(1, 4) for _ in range(rank or pick.randint(1, 8)))
    source = tensor(pick, data_type, sizes)
    if kind is ElementWiseIdentity:
        return ElementWiseIdentity(source, tensor(pick, data_type, sizes, written=True))
    if kind is Split:
        axis = pick.randrange(len(sizes))
        cuts = [0, *sorted(pick.sample(range(1, sizes[axis]), pick.randint(0, sizes[axis] - 1))), sizes[axis]]
        parts = [(*sizes[:axis], b - a, *sizes[axis + 1 :]) for a, b in itertools.pairwise(cuts)]
        outputs = tuple(tensor(pick, data_type, part, written=True) for part in parts)
        return Split(source, len(outputs), outputs, axis)
    offsets = tuple(pick.randrange(size) for size in sizes)
    extents = tuple(pick.randint(1, size - offset) for size, offset in zip(sizes, offsets, strict=True))
    steps = tuple(pick.choice(STEPS) for _ in sizes)
    if kind is Slice:
        steps = tuple(min(abs(step), 2**31 - 1) for step in steps)
    counts = tuple(pick.randint(1, 1 + (n - 1) // abs(s)) for n, s in zip(extents, steps, strict=True))
    output = tensor(pick, data_type, counts, written=True)
    if kind is Slice:
        return Slice(source, output, len(sizes), offsets, counts, steps)
    return Slice1(source, output, len(sizes), offsets, extents, steps)


def spoilt(pick: random.Random, operator: Operator) -> tuple[str, Operator]:
    """Change the value of one field, which may break a rule, and return the field and the operator."""
    field = pick.choice([field for field in struct_fields(operator) if field.kind != "null"])
    value = getattr(operator, field.attribute)
    if field.kind == "tensor":
        name, other = spoilt_tensor(pick, value)
        return f"{field.name}.{name}", _changed(operator, field.attribute, other)
    if field.kind == "tensors":
        i = pick.randrange(len(value))
        name, other = spoilt_tensor(pick, value[i])
        return f"{field.name}.{name}", _changed(operator, field.attribute, (*value[:i], other, *value[i + 1 :]))
    if field.kind == "uint":
        choices = {
            "OutputCount": (0, max(0, value - 1)),
            "DimensionCount": (0, 1, 2, 4, 8, 9, value + 1, max(0, value - 1)),
        }.get(field.name, EDGES)
        return field.name, _changed(operator, field.attribute, pick.choice(choices))
    values = list(value)
    choices = EDGES if field.kind == "uints" else (0, *STEPS, 3, -3)
    values[pick.randrange(len(values))] = pick.choice(choices)
    return field.name, _changed(operator, field.attribute, tuple(values))


def _changed(operator: Operator, attribute: str, value: object) -> Operator:
    values: dict[str, Any] = {attribute: value}
    return replace(operator, **values)


def spoilt_tensor(pick: random.Random, good_one: BufferTensor) -> tuple[str, BufferTensor]:
    kind = pick.choice(("DataType", "Sizes", "Strides", "Total", "Alignment", "rank", "rank 9", "Flags"))
    total = good_one.total_tensor_size_in_bytes
    if kind == "DataType":
        return kind, replace(good_one, data_type=pick.choice(list(DataType)))
    if kind == "Sizes":
        changed = list(good_one.sizes)
        changed[pick.randrange(len(changed))] = pick.choice(EDGES)
        total = pick.choice((total, buffer_size(good_one.data_type, changed, good_one.strides)))
        return kind, replace(good_one, sizes=tuple(changed), total_tensor_size_in_bytes=total)
    if kind == "Strides":
        return kind, replace(good_one, strides=tuple(pick.choice((0, 1, 2, 3, 7, 64)) for _ in good_one.sizes))
    if kind == "Total":
        return kind, replace(good_one, total_tensor_size_in_bytes=max(0, total + pick.choice((-4, -1, 1, 2, 4, 1000))))
    if kind == "Alignment":
        alignment = pick.choice((1, 2, 3, 4, 5, 8, 12, 16, 24, 2**31, 2**32 - 1))
        return kind, replace(good_one, guaranteed_base_offset_alignment=alignment)
    if kind == "Flags":
        return kind, replace(good_one, flags=1)
    sizes = good_one.sizes[1:] or (1, 1) if kind == "rank" else (1,) * (9 - good_one.rank) + good_one.sizes
    return kind, BufferTensor(good_one.data_type, sizes, None, buffer_size(good_one.data_type, sizes))
