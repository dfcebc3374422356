"""The text and the weights of OpenVINO's IR, written without the openvino package."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from sliceport.cases.case import ELEMENTS, Case, Parameters
from sliceport.slicing.masks import MASK_ATTRIBUTES

_PRECISIONS = {"boolean": "BOOL", "f32": "FP32", "f16": "FP16", "f64": "FP64"}


def model(case: Case) -> tuple[str, bytes]:
    """Return the IR of a case, and its file of weights."""
    element, index = ELEMENTS[case.element].ir_name, ELEMENTS[case.index_type].ir_name
    sizes = [-1 if i in case.open_axes else size for i, size in enumerate(case.shape)]
    data = {"shape": _join(sizes), "element_type": element}
    layers = [_layer(0, "x", "Parameter", "opset1", data, [], [_port(0, element, sizes, "x")])]
    ports, weights = [_port(0, element, sizes)], b""
    names = ("starts", "ends", "steps", "axes") if case.operator == "Slice" else tuple(case.index_inputs)
    inputs = {name: case.index_inputs[name] for name in names if name in case.index_inputs}
    for number, (name, values) in enumerate(inputs.items(), 1):
        data = {"shape": _join(values.shape), "element_type": index}
        if not case.has_inputs:
            data |= {"offset": str(len(weights)), "size": str(values.nbytes)}
            weights += values.tobytes()
        kind = "Parameter" if case.has_inputs else "Const"
        layers.append(_layer(number, name, kind, "opset1", data, [], [_port(0, index, values.shape, name)]))
        ports.append(_port(number, index, values.shape))
    count = len(ports)
    masks = _masks(case.parameters) if case.operator == "StridedSlice" else {}
    # OpenVINO infers the output's shape when it reads the file, so the ports state none.
    layers.append(
        _layer(count, "cut", case.operator, f"opset{case.version}", masks, ports, [_port(count, element, (), "y")])
    )
    layers.append(_layer(count + 1, "y", "Result", "opset1", {}, [_port(0, element, ())], []))
    edges = [(i, 0, count, i) for i in range(count)] + [(count, count, count + 1, 0)]
    keys = ("from-layer", "from-port", "to-layer", "to-port")
    links = "".join(f"<edge{_attributes(dict(zip(keys, map(str, edge), strict=True)))}/>\n" for edge in edges)
    body = f"<layers>\n{''.join(layers)}</layers>\n<edges>\n{links}</edges>\n"
    return f'<?xml version="1.0"?>\n<net name="{case.name}" version="11">\n{body}</net>\n', weights


def _masks(parameters: Parameters) -> dict[str, str]:
    """Return the masks as attributes; OpenVINO refuses masks of different lengths, so zeros fill the others."""
    length = max((len(parameters[name]) for name in MASK_ATTRIBUTES if name in parameters), default=0)
    return {name: _join(parameters.get(name, (0,) * length)) for name in MASK_ATTRIBUTES}


def _layer(
    number: int, name: str, kind: str, version: str, data: dict[str, str], inputs: list[str], outputs: list[str]
) -> str:
    head = _attributes({"id": str(number), "name": name, "type": kind, "version": version})
    lines = [f"<data{_attributes(data)}/>\n"] if data else []
    for side, ports in (("input", inputs), ("output", outputs)):
        lines += [f"<{side}>\n", *ports, f"</{side}>\n"] if ports else []
    return f"<layer{head}>\n{''.join(lines)}</layer>\n"


def _port(number: int, element: str, sizes: Sequence[int], name: str = "") -> str:
    attributes = {"id": str(number), "precision": _PRECISIONS.get(element, element.upper())}
    dims = "".join(f"<dim>{size}</dim>" for size in sizes)
    return f"<port{_attributes(attributes | ({'names': name} if name else {}))}>{dims}</port>\n"


def _attributes(values: dict[str, str]) -> str:
    return "".join(f" {name}={quoteattr(value)}" for name, value in values.items())


def _join(values: Sequence[int]) -> str:
    return ",".join(map(str, values))
