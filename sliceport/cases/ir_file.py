"""The text and the weights of OpenVINO's IR, written without the openvino package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import quoteattr

from sliceport.cases.case import ELEMENTS, INPUTS, Case
from sliceport.slicing.masks import MASK_ATTRIBUTES

_PRECISIONS = {"boolean": "BOOL", "f32": "FP32", "f16": "FP16", "f64": "FP64"}


def to_ir(case: Case) -> tuple[str, bytes]:
    """Return the text of a case's IR file, and the bytes of its weights."""
    element, index_element = ELEMENTS[case.element].ir_name, ELEMENTS[case.index_type].ir_name
    sizes = [-1 if i in case.open_axes else size for i, size in enumerate(case.shape)]
    x_data = {"shape": _join(sizes), "element_type": element}
    layers = [_format_layer(0, "x", "Parameter", x_data, outputs=[_format_port(0, element, sizes, "x")])]
    input_ports, weights = [_format_port(0, element, sizes)], b""
    # The inputs of Slice-8 are in another order than those of ONNX's Slice: the steps are before the axes.
    names = ("starts", "ends", "steps", "axes") if case.operator == "Slice" else INPUTS[case.operator]
    for name in names:
        if name not in case.index_inputs:
            continue
        values, number = case.index_inputs[name], len(input_ports)
        data = {"shape": _join(values.shape), "element_type": index_element}
        if not case.has_inputs:
            data |= {"offset": str(len(weights)), "size": str(values.nbytes)}
            weights += values.tobytes()
        kind = "Parameter" if case.has_inputs else "Const"
        port = _format_port(0, index_element, values.shape, name)
        layers.append(_format_layer(number, name, kind, data, outputs=[port]))
        input_ports.append(_format_port(number, index_element, values.shape))
    node_id, masks = len(input_ports), {}
    if case.operator == "StridedSlice":  # OpenVINO refuses masks of different lengths, so short ones get zeros
        entries = {name: case.parameters.get(name, ()) for name in MASK_ATTRIBUTES}
        length = max(map(len, entries.values()))
        masks = {name: _join([*mask, *[0] * (length - len(mask))]) for name, mask in entries.items()}
    # OpenVINO infers the output's shape when it reads the file, so the output's ports declare no sizes.
    node_output = _format_port(node_id, element, (), "y")
    version = f"opset{case.version}"
    layers.append(_format_layer(node_id, "cut", case.operator, masks, input_ports, [node_output], version))
    layers.append(_format_layer(node_id + 1, "y", "Result", {}, [_format_port(0, element, ())]))
    # The node is layer `node_id`. Port 0 of each earlier layer i leads to input port i of the node. The output port of
    # the node comes after its input ports, so its number is also `node_id`. It leads to the Result, the last layer.
    edges = [(i, 0, node_id, i) for i in range(node_id)] + [(node_id, node_id, node_id + 1, 0)]
    keys = ("from-layer", "from-port", "to-layer", "to-port")
    links = [_format_element("edge", dict(zip(keys, map(str, edge), strict=True))) for edge in edges]
    content = _format_element("layers", {}, *layers), _format_element("edges", {}, *links)
    return f'<?xml version="1.0"?>\n{_format_element("net", {"name": case.name, "version": "11"}, *content)}', weights


def _format_layer(
    number: int,
    name: str,
    kind: str,
    data: Mapping[str, str],
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    version: str = "opset1",
) -> str:
    port_lists = [_format_element(tag, {}, *ports) for tag, ports in (("input", inputs), ("output", outputs)) if ports]
    head = {"id": str(number), "name": name, "type": kind, "version": version}
    return _format_element("layer", head, *([_format_element("data", data)] if data else []), *port_lists)


def _format_port(number: int, element: str, sizes: Sequence[int], name: str = "") -> str:
    attributes = {"id": str(number), "precision": _PRECISIONS.get(element, element.upper())}
    dims = [f"<dim>{size}</dim>\n" for size in sizes]
    return _format_element("port", attributes | ({"names": name} if name else {}), *dims)


def _format_element(tag: str, attributes: Mapping[str, str], *children: str) -> str:
    """Format an XML element. It ends with a newline, and each of the `children` must end with one, too."""
    head = "".join((tag, *(f" {name}={quoteattr(value)}" for name, value in attributes.items())))
    return f"<{head}>\n{''.join(children)}</{tag}>\n" if children else f"<{head}/>\n"


def _join(values: Sequence[int]) -> str:
    return ",".join(map(str, values))
