"""A lowered program as a C++ header: the descriptors as constants, for programs that call DirectML themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.lowered import Binding, LoweredNode, list_calls
from sliceport.directml.operators import Operator, struct_fields
from sliceport.directml.tensor import BufferTensor

_HEAD = """\
// The slicing operators of a model for DirectML, in the order in which they run. Written by sliceport.
//
// This header needs C++17 and a DirectML.h whose DML_TARGET_VERSION is at least 0x{level:x}.
#pragma once

#include <DirectML.h>

#include <array>

namespace sliceport_program {{

// The place of an operator's tensor: its start in the buffer of a value of the model.
struct Binding {{
    const char *value;
    UINT64 byte_offset;
}};

// A run of an operator, given by its index in `operators`, with the bindings of its input and outputs.
struct Call {{
    const char *node;
    UINT operator_index;
    Binding input;
    const Binding *outputs;
    UINT output_count;
}};
"""
_TAIL = """\

inline constexpr GUID operator_id = {0x26caae7a, 0x3081, 0x4633, {0x95, 0x81, 0x22, 0x6f, 0xbe, 0x57, 0x69, 0x5d}};

// Create an IDMLOperator for each of `operators`. On failure the earlier ones stay in `created`; the others are null.
inline HRESULT create_operators(IDMLDevice *device, std::array<IDMLOperator *, operators.size()> &created) {
    created.fill(nullptr);
    for (size_t i = 0; i < operators.size(); i++) {
        const HRESULT hr = device->CreateOperator(&operators[i], operator_id, reinterpret_cast<void **>(&created[i]));
        if (FAILED(hr)) return hr;
    }
    return S_OK;
}

}  // namespace sliceport_program
"""


def to_header(nodes: Sequence[LoweredNode], level: FeatureLevel) -> str:
    """Return the text of the header for the nodes of a program. Calls with equal descriptors share an operator.

    Each refused node, and each output that lies in its input's buffer, becomes a comment.
    """
    calls = list_calls(nodes)
    indices = {operator: i for i, operator in enumerate(dict.fromkeys(call.operator for call in calls))}
    # A call that several nodes share gets the name of the first node. In reversed order, this name is stored last.
    names = {call.id: lowered.node.name for lowered in reversed(nodes) for call in lowered.calls}
    lines = [_HEAD.format(level=level)]
    for operator, i in indices.items():
        lines += _define_operator(operator, f"operator_{i}")
    descs = [f"{{{operator.schema.type}, &operator_{i}}}" for operator, i in indices.items()]
    lines += _define_array("DML_OPERATOR_DESC", "operators", descs)
    rows = []
    for call in calls:
        outputs = ", ".join(map(_format_binding, call.outputs))
        lines.append(f"inline constexpr Binding outputs_{call.id}[] = {{{outputs}}};")
        members = f"{_quote(names[call.id])}, {indices[call.operator]}, {_format_binding(call.input)}"
        rows.append(f"{{{members}, outputs_{call.id}, {len(call.outputs)}}}")
    lines += _define_array("Call", "calls", rows)
    lines += (f"// {comment}" for lowered in nodes for comment in _list_comments(lowered))
    return "\n".join(lines) + "\n" + _TAIL


def _define_operator(operator: Operator, name: str) -> Iterator[str]:
    """Yield the definitions of an operator's constants. The struct is last, because it points to other constants."""
    members = []
    for field in struct_fields(operator):
        value = getattr(operator, field.attribute)
        if field.kind == "uint":
            members.append(str(value))
        elif field.kind == "null":
            members.append("nullptr")
        else:
            member = f"{name}_{field.attribute}"
            members.append(member)
            if field.kind in ("uints", "ints"):
                yield _define_numbers("UINT" if field.kind == "uints" else "INT", member, value)
            else:
                yield from _define_tensors(value if field.kind == "tensors" else (value,), member)
    yield f"inline constexpr {operator.schema.struct} {name} = {{{', '.join(members)}}};\n"


def _define_tensors(tensors: Sequence[BufferTensor], name: str) -> Iterator[str]:
    """Define the sizes, strides and descriptor of each tensor, and then the array `name` of DML_TENSOR_DESC."""
    for i, tensor in enumerate(tensors):
        strides = "nullptr"
        yield _define_numbers("UINT", f"{name}_{i}_sizes", tensor.sizes)
        if tensor.strides is not None:
            strides = f"{name}_{i}_strides"
            yield _define_numbers("UINT", strides, tensor.strides)
        flags = "DML_TENSOR_FLAG_OWNED_BY_DML" if tensor.flags else "DML_TENSOR_FLAG_NONE"
        yield (
            f"inline constexpr DML_BUFFER_TENSOR_DESC {name}_{i} = "
            f"{{DML_TENSOR_DATA_TYPE_{tensor.data_type.name}, {flags}, {tensor.rank}, {name}_{i}_sizes, {strides}, "
            f"{tensor.total_tensor_size_in_bytes}, {tensor.guaranteed_base_offset_alignment}}};"
        )
    descs = ", ".join(f"{{DML_TENSOR_TYPE_BUFFER, &{name}_{i}}}" for i in range(len(tensors)))
    yield f"inline constexpr DML_TENSOR_DESC {name}[] = {{{descs}}};"


def _define_numbers(c_type: str, name: str, values: Sequence[int]) -> str:
    return f"inline constexpr {c_type} {name}[] = {{{', '.join(map(str, values))}}};"


def _define_array(c_type: str, name: str, items: Sequence[str]) -> list[str]:
    """Return the lines of a std::array, which may be empty, with one item per line."""
    declaration = f"inline constexpr std::array<{c_type}, {len(items)}> {name}"
    if not items:  # in some libraries, an empty std::array has no C array inside, which the inner braces below need
        return [f"{declaration}{{}};\n"]
    return [f"{declaration} = {{{{", *(f"    {item}," for item in items), "}};\n"]


def _format_binding(binding: Binding) -> str:
    return f"{{{_quote(binding.value)}, {binding.byte_offset}}}"


def _list_comments(lowered: LoweredNode) -> Iterator[str]:
    """Yield a comment if the node is refused, and one for each of its aliases."""
    if lowered.reason is not None:
        yield f"refused: {_quote(lowered.reason.message)}"
    for alias in lowered.aliases:
        text = f"alias: {_quote(alias.output)} is {_quote(alias.value)} from byte {alias.byte_offset} on"
        if alias.tensor is not None:
            text += f", with sizes {[*alias.tensor.sizes]} and strides {[*alias.tensor.effective_strides]}"
        yield text


def _quote(text: str) -> str:
    """Return a C string literal of the UTF-8 bytes of a text.

    Double quotes, backslashes, question marks and all bytes other than printable ASCII become octal escapes. Question
    marks could form trigraphs.
    """
    data = text.encode(errors="surrogatepass")
    characters = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in data)
    return f'"{"".join(characters)}"'
