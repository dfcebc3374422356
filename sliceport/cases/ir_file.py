"""The text and the weights of OpenVINO's IR, written without the openvino package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from sliceport.cases.graph import Graph, Node, element_of

_PRECISIONS = {"boolean": "BOOL", "f32": "FP32", "f16": "FP16", "f64": "FP64"}


class _Source(NamedTuple):
    """The port of a layer that writes a value, with its element type, and its sizes or () if OpenVINO infers them."""

    layer: int
    port: int
    element: str
    sizes: Sequence[int] = ()


def to_ir(graph: Graph) -> tuple[str, bytes]:
    """Return the text of an IR file, and the bytes of its weights.

    The inputs of an If behind its condition are those of both bodies, in order. Those of a Loop behind its two counts,
    and those of a TensorIterator, are those of its `body`, and its outputs are those of the body, without the condition
    that a Loop's body returns first. `carried` maps the index of such an output to that of the input that it becomes in
    the next iteration; `cut` and `joined` map the indices of inputs that are cut into iterations, and of outputs that
    are put together of them, to the axis.
    """
    weights = bytearray()
    net = _format_element("net", {"name": graph.name, "version": "11"}, *_format_content(graph, weights))
    return f'<?xml version="1.0"?>\n{net}', bytes(weights)


def _format_content(graph: Graph, weights: bytearray) -> tuple[str, str]:
    """Return the layers and the edges of a graph, and append its constants to the weights."""
    layers: list[str] = []
    edges: list[tuple[int, int, int, int]] = []
    sources: dict[str, _Source] = {}

    def add_source(name: str, kind: str, element: str, sizes: Sequence[int], **place: int) -> None:
        data = {"shape": _join(sizes), "element_type": element, **{key: str(value) for key, value in place.items()}}
        sources[name] = _Source(len(layers), 0, element, sizes)
        layers.append(_format_layer(len(layers), name, kind, data, outputs=[_format_port(0, element, sizes, name)]))

    for name, (element, sizes) in graph.inputs.items():
        add_source(name, "Parameter", element.ir_name, [-1 if isinstance(size, str) else size for size in sizes])
    for name, array in graph.constants.items():
        add_source(name, "Const", element_of(array).ir_name, array.shape, offset=len(weights), size=array.nbytes)
        weights += array.tobytes()
    for node in graph.nodes:
        read = [sources[name] for name in node.inputs]
        edges += [(source.layer, source.port, len(layers), port) for port, source in enumerate(read)]
        inputs = [_format_port(port, source.element, source.sizes) for port, source in enumerate(read)]
        # OpenVINO infers the types of outputs when it reads the file: their ports have the element type of the data.
        wrote = {name: _Source(len(layers), len(read) + k, read[0].element) for k, name in enumerate(node.outputs)}
        outputs = [_format_port(source.port, source.element, (), name) for name, source in wrote.items()]
        sources |= wrote
        bodies = _format_bodies(node, weights)
        data = {} if bodies else {name: _to_text(value) for name, value in node.attributes.items()}
        head = len(layers), node.name, node.operator, data
        layers.append(_format_layer(*head, inputs, outputs, f"opset{node.version}", bodies))
    for name in graph.outputs:
        source = sources[name]
        edges.append((source.layer, source.port, len(layers), 0))
        layers.append(_format_layer(len(layers), name, "Result", {}, [_format_port(0, source.element, source.sizes)]))
    keys = ("from-layer", "from-port", "to-layer", "to-port")
    links = [_format_element("edge", dict(zip(keys, map(str, edge), strict=True))) for edge in edges]
    return _format_element("layers", {}, *layers), _format_element("edges", {}, *links)


def _format_bodies(node: Node, weights: bytearray) -> list[str]:
    """Return the bodies of an If, a Loop or a TensorIterator, each behind the map of its ports; [] for other nodes."""
    leading = {"If": 1, "Loop": 2}.get(node.operator, 0)
    parts: list[str] = []
    for name, body in node.attributes.items():
        if not isinstance(body, Graph):
            continue
        first = len(body.inputs) + len(body.constants) + len(body.nodes)
        ports = [
            _format_mapping("input", leading + i, i, node.attributes.get("cut", {}).get(i))
            for i in range(len(body.inputs))
        ]
        hidden = int(node.operator == "Loop")
        if hidden:
            ports.append(_format_mapping("output", -1, first, purpose="execution_condition"))
        ports += [
            _format_mapping(
                "output", len(node.inputs) + k, first + hidden + k, node.attributes.get("joined", {}).get(k)
            )
            for k in range(len(node.outputs))
        ]
        carried = [
            _format_element("edge", {"from-layer": str(first + hidden + k), "to-layer": str(i)})
            for k, i in node.attributes.get("carried", {}).items()
        ]
        parts += [_format_element(name.replace("body", "port_map"), {}, *ports)]
        parts += [_format_element("back_edges", {}, *carried)] if carried else []
        parts += [_format_element(name, {}, *_format_content(body, weights))]
    return parts


def _format_mapping(tag: str, outer: int, inner: int, axis: int | None = None, **others: str) -> str:
    """Return the element that maps a port of a node to a layer of its body."""
    pieces = {} if axis is None else {"axis": str(axis), "start": "0", "end": "-1", "stride": "1", "part_size": "1"}
    return _format_element(tag, {"external_port_id": str(outer), "internal_layer_id": str(inner), **pieces, **others})


def _format_layer(
    number: int,
    name: str,
    kind: str,
    data: Mapping[str, str],
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    version: str = "opset1",
    bodies: Sequence[str] = (),
) -> str:
    port_lists = [_format_element(tag, {}, *ports) for tag, ports in (("input", inputs), ("output", outputs)) if ports]
    head = {"id": str(number), "name": name, "type": kind, "version": version}
    return _format_element("layer", head, *([_format_element("data", data)] if data else []), *port_lists, *bodies)


def _format_port(number: int, element: str, sizes: Sequence[int], name: str = "") -> str:
    attributes = {"id": str(number), "precision": _PRECISIONS.get(element, element.upper())}
    dims = [f"<dim>{size}</dim>\n" for size in sizes]
    return _format_element("port", attributes | ({"names": name} if name else {}), *dims)


def _format_element(tag: str, attributes: Mapping[str, str], *children: str) -> str:
    """Format an XML element. It ends with a newline, and each of the `children` must end with one, too."""
    head = "".join((tag, *(f" {name}={quoteattr(value)}" for name, value in attributes.items())))
    return f"<{head}>\n{''.join(children)}</{tag}>\n" if children else f"<{head}/>\n"


def _to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, str | int) else _join(value)


def _join(values: Sequence[int]) -> str:
    return ",".join(map(str, values))
