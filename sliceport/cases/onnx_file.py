"""The bytes of ONNX files, written field by field without the onnx package, so that its version cannot change them.

Field numbers are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sliceport.cases.graph import Array, Graph, Node, TensorType, element_of

_IR_VERSION = 8
_FIELDS = {int: 3, str: 4, Graph: 6}
"""The field of AttributeProto for a value of a type; any other value is a list of integers, in field 8."""
_TYPES = {3: 2, 4: 3, 6: 5, 8: 7}
"""The value of AttributeProto.AttributeType by field."""


def to_tensor(array: Array, name: str) -> bytes:
    """Return an array as a serialized TensorProto."""
    # TensorProto: dims, data_type, name, raw_data, which is little-endian
    raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return _encode((1, array.shape), (2, element_of(array).number), (8, name), (9, raw))


def to_model(graph: Graph, opset: int) -> bytes:
    """Return the serialized ModelProto of a graph."""
    # OperatorSetIdProto: domain, version. ModelProto: ir_version, producer_name, graph, opset_import.
    return _encode(
        (1, _IR_VERSION), (2, "sliceport"), (7, _to_graph(graph)), (8, _encode((1, ""), (2, opset)))
    )  # fmt: skip


def _to_graph(graph: Graph) -> bytes:
    """Return a serialized GraphProto."""
    # GraphProto: node, name, initializer, doc_string, input, output
    return _encode(
        (1, [_to_node(node) for node in graph.nodes]), (2, graph.name),
        (5, [to_tensor(array, name) for name, array in graph.constants.items()]), (10, graph.text),
        (11, [_to_value_info(*each) for each in graph.inputs.items()]),
        (12, [_to_value_info(*each) for each in graph.outputs.items()]),
    )  # fmt: skip


def _to_node(node: Node) -> bytes:
    """Return a serialized NodeProto."""
    # NodeProto: input, output, name, op_type, attribute
    attributes = [_to_attribute(name, value) for name, value in sorted(node.attributes.items())]
    return _encode((1, node.inputs), (2, node.outputs), (3, node.name), (4, node.operator), (5, attributes))


def _to_attribute(name: str, value: Any) -> bytes:
    """Return a serialized AttributeProto."""
    field = _FIELDS.get(type(value), 8)
    return _encode((1, name), (field, _to_graph(value) if isinstance(value, Graph) else value), (20, _TYPES[field]))


def _to_value_info(name: str, type_: TensorType) -> bytes:
    """Return a serialized ValueInfoProto."""
    # dim_value or dim_param
    dims = [_encode((1 if isinstance(size, int) else 2, size)) for size in type_.sizes]
    tensor_type = _encode((1, type_.element.number), (2, _encode((1, dims))))
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
