"""The examples in the docstrings of passes, as models: `y = Slice(x[10], [1], [9], [0])` is a line of Python."""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from onnx_ops import strided_slice_op
from onnx_ops.model.io import from_proto
from onnx_ops.passes.base import SlicingPass

OPSET = 13
_STRIDED_OPSET = 17
_NAMES = {"M": str(2**63 - 1), "L": str(-(2**63))}
_OUTPUTS = frozenset("wyz")
_SLICE_INPUTS_OPSET = 10
_PARAMETERS = ("data", "starts", "ends", "axes", "steps")


def examples(kind: type[SlicingPass]) -> list[tuple[str, str]]:
    """Return the model before and the model after each example of a pass."""
    text = " ".join((kind.__doc__ or "").split())
    return re.findall(r"Given: (.*?) Result: (.*?\))(?= [A-Z]|$)", text)


class _Writer:
    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, onnx.ValueInfoProto] = {}
        self.initializers: list[onnx.TensorProto] = []
        self.read: set[str] = set()
        self.assigned: list[str] = []
        self.count = 0

    def value(self, expression: ast.expr) -> str:
        """Return the name of a value: a name, an input with its shape, a list or integer, or a call."""
        match expression:
            case ast.Name(id=name):
                self.read.add(name)
                if not any(name in node.output for node in self.nodes):
                    self.inputs.setdefault(name, helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
                return name
            case ast.Subscript(value=ast.Name(id=name), slice=shape):
                dims = shape.elts if isinstance(shape, ast.Tuple) else [shape]
                sizes = [dim.id if isinstance(dim, ast.Name) else ast.literal_eval(dim) for dim in dims]
                self.inputs[name] = helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
                self.read.add(name)
                return name
            case ast.Call(func=ast.Name(id="floats"), args=[ast.Constant(value=int(count))]):
                name = f"floats{count}"  # one constant, however often it is read
                is_there = any(tensor.name == name for tensor in self.initializers)
                return name if is_there else self._add_constant(np.arange(count, dtype=np.float32), name)
            case ast.Call():
                self.count += 1
                name = f"v{self.count}"
                self.call(expression, [name])
                return name
        array = np.array(ast.literal_eval(expression))
        return self._add_constant(array.astype({"f": np.float32, "b": np.bool_}.get(array.dtype.kind, np.int64)))

    def _add_constant(self, array: npt.NDArray[Any], name: str = "") -> str:
        self.initializers.append(numpy_helper.from_array(array, name or f"c{len(self.initializers)}"))
        return self.initializers[-1].name

    def call(self, expression: ast.expr, outputs: list[str]) -> None:
        """Return a node; keywords are attributes, but for the parameters of Slice."""
        assert isinstance(expression, ast.Call)
        assert isinstance(expression.func, ast.Name)
        op_type = expression.func.id
        inputs = [self.value(argument) for argument in expression.args]
        attributes: dict[str, Any] = {}
        for keyword in expression.keywords:
            if op_type == "Slice" and self.opset >= _SLICE_INPUTS_OPSET:
                assert _PARAMETERS[len(inputs)] == keyword.arg
                inputs.append(self.value(keyword.value))
            else:
                attribute = ast.literal_eval(keyword.value)
                attributes[str(keyword.arg)] = (
                    onnx.parser.parse_graph(f"body {attribute}") if keyword.arg == "body" else attribute
                )
        domain = "ov_ext" if op_type == "StridedSlice" else None
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name, domain=domain, **attributes))


def models(given: str, result: str) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Return the models of an example; what both assign and neither reads comes out."""
    before, after = (_write(text, _STRIDED_OPSET) for text in (given, result))
    read = before.read | after.read
    outputs = [name for name in before.assigned if name in after.assigned and name not in read]
    return _build(before, outputs), _build(after, outputs)


def build_model(text: str, *, opset: int = OPSET, outputs: str = "") -> onnx.ModelProto:
    """Build a model; its outputs are the values w, y and z, or those named in `outputs`."""
    writer = _write(text, _STRIDED_OPSET if "StridedSlice" in text else opset)
    names = outputs.split() or [name for name in writer.assigned if name in _OUTPUTS]
    proto = _build(writer, names)
    if "StridedSlice" in text:
        model = from_proto(proto)
        strided_slice_op.embed_function(model)
        proto = ir.serde.serialize_model(model)
    return proto


def _write(text: str, opset: int) -> _Writer:
    writer = _Writer(opset)
    for statement in ast.parse(re.sub(r"\b[ML]\b", lambda match: _NAMES[match[0]], text)).body:
        assert isinstance(statement, ast.Assign)
        (target,) = statement.targets
        names = [ast.unparse(name) for name in (target.elts if isinstance(target, ast.Tuple) else [target])]
        writer.assigned += names
        writer.call(statement.value, names)
    return writer


def _build(writer: _Writer, outputs: list[str]) -> onnx.ModelProto:
    graph = helper.make_graph(
        writer.nodes,
        "example",
        list(writer.inputs.values()),
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        writer.initializers,
    )
    opsets = [helper.make_opsetid("", writer.opset), helper.make_opsetid("ov_ext", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    strided_slice_op.register()
    try:
        return onnx.shape_inference.infer_shapes(proto, data_prop=True)
    except onnx.shape_inference.InferenceError:  # raised for a StridedSlice that is meant to be invalid
        return proto
    finally:
        strided_slice_op.deregister()


def meaning(proto: onnx.ModelProto) -> list[Any]:
    """Return the expression of each output without names: operator, attributes, and inputs."""
    constants = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in proto.graph.initializer}
    made: dict[str, Any] = {name: ("constant", repr(value)) for name, value in constants.items()}
    for node in proto.graph.node:
        attributes = tuple(sorted((attribute.name, _describe_value(attribute)) for attribute in node.attribute))
        if node.op_type == "Constant":
            tensor = numpy_helper.to_array(node.attribute[0].t)
            made[node.output[0]] = ("constant", repr(tensor.tolist()))
            continue
        read = tuple(made.get(name, name) for name in node.input)
        for i, name in enumerate(node.output):
            made[name] = (node.op_type, attributes, read, i)
    return [made[output.name] for output in proto.graph.output]


def _describe_value(attribute: onnx.AttributeProto) -> str:
    if attribute.HasField("g"):  # onnx's inference names open sizes
        return re.sub(r"unk__\d+", "?", onnx.printer.to_text(attribute.g))
    return repr(helper.get_attribute_value(attribute))
