"""The bytes of ONNX files, written field by field without the onnx package, so that its version cannot change them.

Field numbers are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from sliceport.cases.case import ELEMENTS, INPUTS, Array, Case

_OPSETS = {("Slice", 1): 9, ("Split", 2): 10}
"""The last operator set that has this version of the operator. For any other version, the model has the operator set
that introduced the version."""
_IR_VERSION, _INT, _INTS = 8, 2, 7  # _INT and _INTS are values of AttributeProto.AttributeType


def to_tensor(array: Array, name: str) -> bytes:
    """Return an array as a serialized TensorProto."""
    number = next(element.number for element in ELEMENTS.values() if element.dtype == array.dtype)
    # TensorProto: dims, data_type, name, raw_data, which is little-endian
    raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return _encode((1, array.shape), (2, number), (8, name), (9, raw))


def to_model(case: Case) -> bytes:
    """Return the serialized ModelProto of a case."""
    outputs = case.output_names
    # The parameters that are inputs of the node in this version of the operator. All others are attributes.
    indices = {} if case.version < 10 or (case.operator == "Split" and case.version < 13) else case.index_inputs
    names = [name if name in indices else "" for name in INPUTS[case.operator]]  # an absent input has an empty name
    while names and not names[-1]:
        names.pop()
    attributes = {name: value for name, value in case.parameters.items() if value is not None and name not in indices}
    if case.version < 18:  # older versions of Split divide by the number of outputs that the node has
        attributes.pop("num_outputs", None)
    # NodeProto: input, output, name, op_type, attribute
    node = _encode(
        (1, ("x", *names)), (2, outputs), (3, "cut"), (4, case.operator),
        (5, [_to_attribute(name, value) for name, value in sorted(attributes.items())]),
    )  # fmt: skip
    number = ELEMENTS[case.element].number
    data = _to_value_info("x", number, [f"d{i}" if i in case.open_axes else size for i, size in enumerate(case.shape)])
    index_number = ELEMENTS[case.index_type].number
    index_infos = [_to_value_info(name, index_number, value.shape) for name, value in indices.items()]
    initializers = [to_tensor(value, name) for name, value in indices.items()]
    # GraphProto: node, name, initializer, doc_string, input, output
    graph = _encode(
        (1, node), (2, case.name), (5, [] if case.has_inputs else initializers), (10, case.sentence),
        (11, [data, *index_infos] if case.has_inputs else [data]),
        (12, [_to_value_info(*output) for output in zip(outputs, repeat(number), _list_output_sizes(case))]),
    )  # fmt: skip
    # OperatorSetIdProto: domain, version. ModelProto: ir_version, producer_name, graph, opset_import.
    opset = _encode((1, ""), (2, _OPSETS.get((case.operator, case.version), case.version)))
    return _encode((1, _IR_VERSION), (2, "sliceport"), (7, graph), (8, opset))


def _list_output_sizes(case: Case) -> list[Sequence[int | str]]:
    """Return the sizes that the model declares for each output.

    Sizes are symbols if the parameters are inputs, if an axis is open, if the standard forbids the node, or if readers
    of the standard disagree about it.
    """
    if case.is_refused:
        return [[f"n{i}" for i in range(len(case.shape))]] * len(case.output_names)
    shapes = [output.shape for output in case.outputs()]
    if case.has_inputs or case.open_axes or case.reading:
        return [[f"y{k}_{i}" for i in range(len(shape))] for k, shape in enumerate(shapes)]
    return list(shapes)


def _to_attribute(name: str, value: int | Sequence[int]) -> bytes:
    """Return a serialized AttributeProto."""
    # In onnx.proto, field 3 is `i`, 8 is `ints`, and 20 is `type`.
    field, kind = (3, _INT) if isinstance(value, int) else (8, _INTS)
    return _encode((1, name), (field, value), (20, kind))


def _to_value_info(name: str, number: int, sizes: Iterable[int | str]) -> bytes:
    """Return a serialized ValueInfoProto. `number` is the element type; each size is a number or a symbol."""
    dims = [_encode((1 if isinstance(size, int) else 2, size)) for size in sizes]  # dim_value or dim_param
    tensor_type = _encode((1, number), (2, _encode((1, dims))))
    return _encode((1, name), (2, _encode((1, tensor_type))))


def _encode(*fields: tuple[int, int | str | bytes | Sequence[int | str | bytes]]) -> bytes:
    """Encode a protobuf message. Each field is a number and its value, or its values if the field is repeated."""
    message = b""
    for number, values in fields:
        for value in [values] if isinstance(values, int | str | bytes) else values:
            if isinstance(value, int):  # wire type 0
                message += _encode_varint(number << 3) + _encode_varint(value)
            else:  # wire type 2: the length goes before the bytes
                encoded = value.encode() if isinstance(value, str) else value
                message += _encode_varint(number << 3 | 2) + _encode_varint(len(encoded)) + encoded
    return message


def _encode_varint(value: int) -> bytes:
    """Encode an integer as groups of 7 bits, the lowest first. Negative integers are in 64-bit two's complement."""
    value %= 2**64
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)  # the highest bit means that another group follows
        value >>= 7
    return bytes([*encoded, value])
