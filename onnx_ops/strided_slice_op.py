"""`ov_ext::StridedSlice`: OpenVINO's StridedSlice-1 as an ONNX operator, version 1 of domain `ov_ext`.

Inputs: `data`, a tensor of any type and rank; `begin`, `end` and, optionally, `strides` (all 1 by default), which are
lists of the same length, all int32 or all int64. Attributes: the five masks of StridedSlice-1, lists of 0 and 1 aligned
with the entries of `begin`; missing bits are 0, further ones are ignored. Output: the elements that `StridedSliceSpec`
selects.

Source: OpenVINO's StridedSlice-1 page, and OpenVINO itself where it contradicts the page (`docs/strided_slice.md`).
"""

from __future__ import annotations

import atexit
from typing import Any

import onnx
import onnx_ir as ir

from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN as DOMAIN
from onnx_ops.model.domains import standard_opset
from onnx_ops.model.nodes import STRIDED_SLICE_VERSION as VERSION
from onnx_ops.model.nodes import constant, is_strided_slice
from onnx_ops.model.walk import model_nodes
from sliceport.errors import InvalidSlice, UsageError
from sliceport.slicing import Masks, StridedSliceSpec, resolve_axis
from sliceport.slicing.masks import MASK_ATTRIBUTES

_MIN_OPSET = 14
"""The first operator set whose Reshape has allowzero, which the function uses."""
_INPUT_COUNT = 4
"""The number of inputs, including the optional one, strides."""


def register() -> None:
    """Register the operator's schema in `onnx.defs`, once.

    From onnx 1.19 on, its type and shape inference is registered too; onnx 1.18 accepts no inference from Python.
    """
    if onnx.defs.has("StridedSlice", DOMAIN):
        return
    onnx.defs.register_schema(_make_schema())
    # onnx crashes at the end of the process if a schema with inference in Python is still registered.
    atexit.register(deregister)


def deregister() -> None:
    """Remove the schema from `onnx.defs` if it is registered."""
    if onnx.defs.has("StridedSlice", DOMAIN):
        onnx.defs.deregister_schema("StridedSlice", VERSION, DOMAIN)


def build_function() -> onnx.FunctionProto:
    """Return the operator as an ONNX function, which consists of standard operators of opset 17.

    A call must have all four inputs. The function has no error messages of its own: a Reshape in it fails if an index
    is out of range on a shrunk axis, if `begin` needs more axes than the data have, or if there are two ellipses.
    """
    from onnx_ops.strided_slice_body import StridedSlice

    return StridedSlice.to_function_proto()


def embed_function(model: ir.Model) -> bool:
    """Add the operator's function to a model that needs it but lacks it. Return whether the model changed.

    Runtimes without the operator can then run the model. Left-out strides become a list of ones, and left-out masks
    become 0.

    Raises:
        UsageError: The model's standard operator set is below 14. `ExpandStridedSlicePass` may remove the operator.
    """
    nodes = list(filter(is_strided_slice, model_nodes(model)))
    key = (DOMAIN, "StridedSlice", "")
    if not nodes or key in model.functions:
        return False
    if standard_opset(model.opset_imports) < _MIN_OPSET:
        raise UsageError(f"ov_ext::StridedSlice runs from opset {_MIN_OPSET} on; run `sliceport rewrite` first.")
    for node in nodes:
        if len(node.inputs) < _INPUT_COUNT or node.inputs[_INPUT_COUNT - 1] is None:
            _add_unit_strides(node)
        for name in MASK_ATTRIBUTES:  # some runtimes ignore the defaults of a function
            if name not in node.attributes:
                node.attributes[name] = ir.AttrInt64s(name, [0])
    model.functions[key] = ir.serde.deserialize_function(build_function())
    model.opset_imports[DOMAIN] = VERSION
    return True


def _add_unit_strides(node: ir.Node) -> None:
    """Add an explicit `strides` input of ones, as long as `begin` and of its type.

    If the type of `begin` is not known, the strides are INT64. That is enough, as the function casts all lists.
    """
    begin = node.inputs[1]  # None only in an invalid node
    begin_tensor = None if begin is None else constant(begin)
    if begin_tensor is not None:
        new_nodes = [ir.node("Constant", [], {"value": ir.tensor([1] * begin_tensor.size, dtype=begin_tensor.dtype)})]
    else:
        shape = ir.node("Shape", [begin])
        shape.outputs[0].name = f"{node.outputs[0].name}.count"
        one = ir.tensor([1], dtype=(None if begin is None else begin.dtype) or ir.DataType.INT64)
        new_nodes = [shape, ir.node("ConstantOfShape", [shape.outputs[0]], {"value": one})]
    new_nodes[-1].outputs[0].name = f"{node.outputs[0].name}.strides"
    assert node.graph is not None
    node.graph.insert_before(node, new_nodes)
    node.resize_inputs(_INPUT_COUNT)
    node.replace_input_with(_INPUT_COUNT - 1, new_nodes[-1].outputs[0])


def reference_op() -> type:
    """Return the class of the operator for onnx's `ReferenceEvaluator(model, new_ops=[reference_op()])`."""
    from onnx.reference.op_run import OpRun

    class StridedSlice(OpRun):
        """The operator as `StridedSliceSpec` computes it."""

        op_domain = DOMAIN

        def _run(self, data: Any, begin: Any, end: Any, strides: Any = None, **masks: Any) -> tuple[Any]:
            steps = None if strides is None else tuple(map(int, strides))
            spec = StridedSliceSpec(tuple(map(int, begin)), tuple(map(int, end)), steps, Masks.of(masks))
            region = spec.resolve(data.shape)
            return (data[region.slices].reshape(region.output_shape),)

    return StridedSlice


def _make_schema() -> onnx.defs.OpSchema:
    op_schema = onnx.defs.OpSchema
    parameter = op_schema.FormalParameter
    types = onnx.defs.get_schema("Identity").type_constraints[0].allowed_type_strs  # Identity accepts all types
    schema = op_schema(
        "StridedSlice",
        DOMAIN,
        VERSION,
        doc=__doc__,
        inputs=[
            parameter("data", "T"),
            parameter("begin", "Tind"),
            parameter("end", "Tind"),
            parameter("strides", "Tind", param_option=op_schema.FormalParameterOption.Optional),
        ],
        outputs=[parameter("output", "T")],
        type_constraints=[
            ("T", [name for name in types if name.startswith("tensor(")], "Any tensor."),
            ("Tind", ["tensor(int32)", "tensor(int64)"], "Indices."),
        ],
        attributes=[op_schema.Attribute(name, op_schema.AttrType.INTS, "", required=False) for name in MASK_ATTRIBUTES],
    )
    if hasattr(schema, "set_type_and_shape_inference_function"):  # from onnx 1.19 on
        schema.set_type_and_shape_inference_function(_infer_output)
    return schema


def _infer_output(context: Any) -> None:
    """Set the element type of the output, and the sizes that can be inferred. onnx's shape inference calls this.

    Raises:
        onnx.shape_inference.InferenceError: The inputs or masks break the rules of the operator.
    """
    data = context.get_input_type(0)
    if data is None or not data.HasField("tensor_type"):
        return
    output = onnx.TypeProto()
    output.tensor_type.elem_type = data.tensor_type.elem_type
    if data.tensor_type.HasField("shape"):
        try:
            dims = _infer_dims(context, data.tensor_type.shape.dim)
        except InvalidSlice as error:
            raise onnx.shape_inference.InferenceError(f"StridedSlice: {error}.") from None
        if dims is not None:
            output.tensor_type.shape.SetInParent()
            output.tensor_type.shape.dim.extend(dims)
    context.set_output_type(0, output)


def _infer_dims(context: Any, dims: Any) -> list[Any] | None:
    """Return the dims of the output for data of `dims`. Return None if the number of entries is not known.

    This number, the rank of the data and the masks determine the rank. Sizes also depend on the indices themselves.

    Raises:
        InvalidSlice: The inputs or masks break the rules of the operator.
    """
    count = _count_entries(context)
    if count is None:
        return None
    begin, end, strides = [_read_list(context, index) for index in (1, 2, 3)]  # input 0 is the data
    attributes = {name: context.get_attribute(name) for name in MASK_ATTRIBUTES}
    masks = Masks.of({name: tuple(mask.ints) for name, mask in attributes.items() if mask is not None})
    spec = None
    if begin is not None and end is not None and (strides is not None or not context.has_input(3)):
        spec = StridedSliceSpec(begin, end, strides, masks)
        spec.check([dim.dim_value if dim.HasField("dim_value") else None for dim in dims])
    output_dims = []
    for entry in masks.entries(count, len(dims)):
        dim = onnx.TensorShapeProto.Dimension()
        if entry.kind == "keep":
            dim.CopyFrom(dims[entry.axis])
        elif entry.kind == "new":
            dim.dim_value = 1
        elif entry.kind == "slice" and spec is not None and dims[entry.axis].HasField("dim_value"):
            dim.dim_value = len(resolve_axis(*spec.bounds(entry.position), dims[entry.axis].dim_value))
        if entry.kind != "shrink":
            output_dims.append(dim)
    return output_dims


def _count_entries(context: Any) -> int | None:
    """Return the length that `begin`, `end` and `strides` share. Return None if it is known for none of them."""
    for index in (1, 2, 3):
        elements = _read_list(context, index)
        if elements is not None:
            return len(elements)
        type_proto = context.get_input_type(index) if context.has_input(index) else None
        dims: Any = () if type_proto is None else type_proto.tensor_type.shape.dim  # empty if no shape is declared
        if len(dims) == 1 and dims[0].HasField("dim_value"):
            return int(dims[0].dim_value)
    return None


def _read_list(context: Any, index: int) -> tuple[int, ...] | None:
    """Return the integers of an input. Return None if it is not a constant that is stored in the model."""
    tensor = context.get_input_data(index) if context.has_input(index) else None
    if tensor is None or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    return tuple(onnx.numpy_helper.to_array(tensor).reshape(-1).tolist())
