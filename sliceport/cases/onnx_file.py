"""The bytes of ONNX files, written field by field: the same for every version of the onnx package, which is not needed.

Field numbers are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sliceport.cases.case import ELEMENTS, Array, Case

_OPSETS = {("Slice", 1): 9, ("Split", 2): 10}
"""The operator set that a version of an operator is written in, if it is not the one that introduced it."""
_IR_VERSION, _INT, _INTS = 8, 2, 7


def tensor(array: Array, name: str) -> bytes:
    """Return a TensorProto."""
    number = next(one.number for one in ELEMENTS.values() if one.dtype == array.dtype)
    raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return _fields((1, array.shape), (2, number), (8, name), (9, raw))


def model(case: Case) -> bytes:
    """Return the ModelProto of a case."""
    outputs = [f"y{i}" if case.operator == "Split" else "y" for i in range(case.output_count)]
    indices = {} if case.version < 10 or (case.operator == "Split" and case.version < 13) else case.index_inputs
    order = list(case.index_inputs) if case.operator == "Split" else ["starts", "ends", "axes", "steps"]
    names = [name if name in indices else "" for name in order]
    while names and not names[-1]:
        names.pop()
    attributes = {name: value for name, value in case.parameters.items() if value is not None and name not in indices}
    if case.version < 18:
        attributes.pop("num_outputs", None)
    node = _fields(
        (1, ("x", *names)), (2, outputs), (3, "cut"), (4, case.operator),
        (5, [_attribute(name, value) for name, value in sorted(attributes.items())]),
    )  # fmt: skip
    number = ELEMENTS[case.element].number
    data = _value("x", number, [f"d{i}" if i in case.open_axes else size for i, size in enumerate(case.shape)])
    late = [_value(name, ELEMENTS[case.index_type].number, value.shape) for name, value in indices.items()]
    graph = _fields(
        (1, node), (2, case.name),
        (5, [] if case.has_inputs else [tensor(value, name) for name, value in indices.items()]),
        (10, case.sentence), (11, [data, *(late if case.has_inputs else [])]),
        (12, [_value(name, number, sizes) for name, sizes in zip(outputs, _output_sizes(case), strict=True)]),
    )  # fmt: skip
    opset = _fields((1, ""), (2, _OPSETS.get((case.operator, case.version), case.version)))
    return _fields((1, _IR_VERSION), (2, "sliceport"), (7, graph), (8, opset))


def _output_sizes(case: Case) -> list[Sequence[int | str]]:
    """Return the declared sizes of each output: symbols unless the model must have these."""
    if case.is_refused:
        return [[f"n{i}" for i in range(len(case.shape))]] * case.output_count
    shapes = [output.shape for output in case.outputs()]
    if case.has_inputs or case.open_axes or case.reading:
        return [[f"y{k}_{i}" for i in range(len(shape))] for k, shape in enumerate(shapes)]
    return list(shapes)


def _attribute(name: str, value: int | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return _fields((1, name), (3, value), (20, _INT))
    return _fields((1, name), (8, value), (20, _INTS))


def _value(name: str, number: int, sizes: Iterable[int | str]) -> bytes:
    """Return a ValueInfoProto of a tensor."""
    dims = [_fields((1, size)) if isinstance(size, int) else _fields((2, size)) for size in sizes]
    return _fields((1, name), (2, _fields((1, _fields((1, number), (2, _fields((1, dims))))))))


def _fields(*fields: tuple[int, int | str | bytes | Sequence[int | str | bytes]]) -> bytes:
    """Return the fields of a message, each a number and one or several values."""
    message = b""
    for number, values in fields:
        for value in [values] if isinstance(values, int | str | bytes) else values:
            if isinstance(value, int):
                message += _varint(number << 3) + _varint(value)
            else:
                encoded = value.encode() if isinstance(value, str) else value
                message += _varint(number << 3 | 2) + _varint(len(encoded)) + encoded
    return message


def _varint(value: int) -> bytes:
    value %= 2**64
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])
