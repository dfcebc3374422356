"""Propagating types, shapes and constants through a model, node by node, in the worker process of `inference`.

Slicing and shape arithmetic follow this package's rules, with open sizes among known ones; other shapes are inferred by
onnx, node by node, other constants are computed by onnx's reference operators. onnx's inference over whole models is
not used: its data propagation multiplies tensors without bound, and declared shapes overrule it.

This module works on protobuf messages and does not import onnx-ir, which takes longer to load than most models take to
infer.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_ops import shape_arithmetic
from onnx_ops.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.shape_arithmetic import Array, Dims
from sliceport.errors import InvalidSlice
from sliceport.slicing import INT64_MAX, Masks, Region, SliceSpec, SplitSpec, StridedSliceSpec, as_slice, resolve_axis
from sliceport.slicing.masks import MASK_ATTRIBUTES
from sliceport.slicing.spec import normalize_axis

LARGE_BYTES = 8192
"""Constants of more bytes are weights: their shape counts, their values are not looked at."""
MAX_BYTES = 2**20
"""What is computed on the way to smaller constants may have so many bytes."""
MAX_RANK = 1024
_TOTAL_BYTES = 2**27
_TOTAL_DIMS = 2**22
_MAX_INPUT_ELEMENTS = 64
_MAX_CALLS = 16
_STANDARD = ("", "ai.onnx")
_INPUTS_OPSET = 10
_NEGATIVE_AXES_OPSET = 11
_SPLIT_INPUT_OPSET = 13
_UNEVEN_OPSET = 18
_INDEX_TYPES = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
_INTEGERS: dict[int, Any] = {
    onnx.TensorProto.INT32: np.iinfo(np.int32),
    onnx.TensorProto.INT64: np.iinfo(np.int64),
}
_UNSURE_SIZE = frozenset(("NonZero", "Unique", "Compress"))
"""Operators whose output is never larger than their input, though its size is not inferred."""
_RANDOM = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout")
)


@dataclass(slots=True, eq=False)
class Fact:
    """What is known of a value.

    Attributes:
        element: The number of its element type in TensorProto; 0 where it is not known or the value is no tensor.
        dims: Its sizes, numbers, symbols or None; None where the rank is not known.
        other: The type of a value that is no tensor, serialised.
        data: Its elements, if they are the same for all inputs.
        integers: Its elements as objects, None where one is not known; of small tensors of integers.
    """

    element: int = 0
    dims: Dims | None = None
    other: bytes = b""
    data: Array | None = None
    integers: Array | None = None

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The dims, if all of them are known."""
        if self.dims is None:
            return None
        known = tuple([dim for dim in self.dims if isinstance(dim, int)])
        return known if len(known) == len(self.dims) else None

    def listed(self) -> Array | None:
        """The elements as objects, None where one is not known; None where the tensor is not small, or no integers."""
        if self.integers is not None:
            return self.integers
        sizes = self.sizes
        if self.element not in (*_INTEGERS, onnx.TensorProto.BOOL) or sizes is None:
            return None
        if prod(sizes) > shape_arithmetic.MAX_ELEMENTS:
            return None
        if self.data is None:
            return shape_arithmetic.unknown(sizes)
        return self.data.astype(np.int64).astype(object)

    def learn(self, integers: Array) -> None:
        """Take down elements; what does not fit the element type is not known."""
        limits = _INTEGERS.get(self.element)
        if limits is not None:
            out = [value is not None and not limits.min <= value <= limits.max for value in integers.flat]
            if any(out):
                integers = integers.copy()
                integers[np.array(out).reshape(integers.shape)] = None
        elif self.element != onnx.TensorProto.BOOL:
            return
        if any(value is None for value in integers.flat):
            self.integers = integers
        else:
            self.data = integers.astype(helper.tensor_dtype_to_np_dtype(self.element))


class Found(NamedTuple):
    """What was found out about a value, as it is sent back.

    Attributes:
        element: See `Fact`.
        dims: See `Fact`.
        other: See `Fact`.
        data: The elements, if they are the same for all inputs and small.
    """

    element: int
    dims: Dims | None
    other: bytes
    data: Array | None


NOTHING = Fact()
NOTHING_FOUND = Found(0, None, b"", None)


@dataclass
class Scope:
    """The values that a graph sees.

    Attributes:
        outer: Those of the graph around it.
        opsets: The operator sets where it is.
        attributes: What the attributes of the function around it are in this call.
        declared: The types that are written for its values.
        facts: What is known of its own values.
    """

    outer: Scope | None
    opsets: Mapping[str, int]
    attributes: Mapping[str, onnx.AttributeProto] = field(default_factory=dict)
    declared: dict[str, onnx.TypeProto] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)

    def find(self, name: str) -> Fact:
        """What is known of a value."""
        scope: Scope | None = self
        while scope is not None:
            fact = scope.facts.get(name)
            if fact is not None:
                return fact
            scope = scope.outer
        return NOTHING


def propagate(
    model: bytes,
    skipped: Sequence[int] = (),
    journal: str = "",
    seconds: float = 60.0,
    fatal: frozenset[bytes] = frozenset(),
) -> list[Found]:
    """What is known of every graph input and node output of a model, its subgraphs included.

    Args:
        model: A ModelProto, serialised; its tensors are in it or missing.
        skipped: Numbers of nodes, counted as they are visited, that onnx is not asked about.
        journal: A file in which the node that onnx is asked about always stands: 8 bytes of its number, the least
            first, and 8 that digest what is asked.
        seconds: After this time nothing more is inferred.
        fatal: Digests of what onnx is not asked.

    Returns:
        For each graph its inputs, then for each node its outputs and, by attribute, the graphs in it.
    """
    proto = onnx.ModelProto.FromString(model)
    return _Propagation(proto, frozenset(skipped), journal, seconds, fatal).run()


class _Propagation:
    def __init__(
        self, model: onnx.ModelProto, skipped: frozenset[int], journal: str, seconds: float, fatal: frozenset[bytes]
    ) -> None:
        self._model = model
        self._skipped = skipped
        self._fatal = fatal
        self._journal = os.open(journal, os.O_WRONLY) if journal else -1
        self._deadline = time.monotonic() + seconds
        self._functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
        self._found: list[Found] = []
        self._visited = 0
        self._bytes = 0
        self._dims = 0
        self._types: dict[tuple[int, Dims | None], bytes] = {}

    def run(self) -> list[Found]:
        opsets = {_domain(entry.domain): entry.version for entry in self._model.opset_import} or {"": 1}
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                self._visit_graph(self._model.graph, Scope(None, opsets), is_main=True)
        finally:
            if self._journal >= 0:
                os.close(self._journal)
        return self._found

    def _visit_graph(
        self, graph: onnx.GraphProto, scope: Scope, given: Sequence[Fact] = (), *, is_main: bool = False
    ) -> list[Fact]:
        """What is known of a graph's outputs; what is known of all its values goes to what was found."""
        for value in (*graph.output, *graph.value_info):
            if value.type.WhichOneof("value"):
                scope.declared[value.name] = value.type
        replaceable = {value.name for value in graph.input} if is_main and self._model.ir_version > 3 else set()
        for tensor in graph.initializer:
            if tensor.name not in replaceable:
                scope.facts[tensor.name] = self._of_tensor(tensor)
        for i, value in enumerate(graph.input):
            fact = scope.facts.get(value.name) or self._merge_declared(
                given[i] if i < len(given) else NOTHING, value.type
            )
            scope.facts[value.name] = fact
            self._report(fact)
        for node in graph.node:
            self._visit_node(node, scope, is_reported=True)
        return [scope.find(value.name) for value in graph.output]

    def _visit_node(self, node: onnx.NodeProto, scope: Scope, *, is_reported: bool) -> None:
        self._visited += 1
        inputs = [scope.find(name) if name else NOTHING for name in node.input]
        place = len(self._found)
        if is_reported:
            self._found += [NOTHING_FOUND] * len(node.output)
        outputs = self._outputs(node, inputs, scope, is_reported=is_reported)
        for i, name in enumerate(node.output):
            fact = outputs[i] if i < len(outputs) else NOTHING
            if name in scope.declared and not (fact.dims is not None and _is_slicing(node)):
                fact = self._merge_declared(fact, scope.declared[name])
            fact = self._limit(fact)
            if name:
                scope.facts[name] = fact
            if is_reported:
                self._found[place + i] = self._as_found(fact)

    def _outputs(
        self, node: onnx.NodeProto, inputs: Sequence[Fact], scope: Scope, *, is_reported: bool
    ) -> Sequence[Fact]:
        graphs = [graph for attribute in node.attribute for graph in _graphs(attribute)]
        if graphs:
            return self._visit_subgraphs(node, inputs, scope, is_reported=is_reported)
        if time.monotonic() > self._deadline:
            return ()
        if scope.attributes or any(attribute.ref_attr_name for attribute in node.attribute):
            node = _resolve_references(node, scope.attributes)
        domain = _domain(node.domain)
        function = self._functions.get((node.domain, node.op_type, getattr(node, "overload", "")))
        if function is not None and domain != STRIDED_SLICE_DOMAIN:
            return self._call(function, node, inputs, scope)
        opset = scope.opsets.get(domain)
        if opset is None:
            return ()
        try:
            outputs = _own_rule(node, domain, inputs, opset)
        except InvalidSlice:  # the node says so when it is read
            return ()
        if outputs is None:
            outputs = self._infer(node, inputs, domain, opset, scope)
        if not domain:
            self._compute(node, inputs, outputs, opset)
        return outputs

    def _visit_subgraphs(
        self, node: onnx.NodeProto, inputs: Sequence[Fact], scope: Scope, *, is_reported: bool
    ) -> list[Fact]:
        """Visit the bodies of a control flow node."""
        given: Sequence[Fact] = ()
        if node.op_type == "Loop" and not node.domain:
            carried = [Fact(fact.element, None, fact.other) for fact in inputs[2:]]
            given = [Fact(onnx.TensorProto.INT64, ()), Fact(onnx.TensorProto.BOOL, ()), *carried]
        results: dict[str, list[Fact]] = {}
        mark = len(self._found)
        for attribute in node.attribute:
            for graph in _graphs(attribute):
                inner = Scope(scope, scope.opsets, scope.attributes)
                results[attribute.name] = self._visit_graph(graph, inner, given)
        if not is_reported:
            del self._found[mark:]
        if node.domain not in _STANDARD:
            return []
        if node.op_type == "If":
            return _either(inputs[0] if inputs else NOTHING, results)
        body = results.get("body", [])
        if node.op_type == "Loop":
            count = len(inputs) - 2
            carried = [Fact(fact.element, None, fact.other) for fact in body[1 : 1 + count]]
            return carried + [_stack(fact) for fact in body[1 + count :]]
        return []

    def _call(
        self, function: onnx.FunctionProto, node: onnx.NodeProto, inputs: Sequence[Fact], scope: Scope
    ) -> list[Fact]:
        """What a function of the model gives in one call."""
        depth, around = 0, scope.outer
        while around is not None:
            depth, around = depth + 1, around.outer
        if depth > _MAX_CALLS or self._visited > 20 * len(self._model.graph.node) + 20000:
            return []
        opsets = {_domain(entry.domain): entry.version for entry in function.opset_import}
        attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *node.attribute)}
        inner = Scope(None, opsets, attributes)
        inner.facts = dict(zip(function.input, inputs, strict=False))
        inner.outer = _depth_marker(scope)
        for value in getattr(function, "value_info", ()):
            inner.declared[value.name] = value.type
        for each in function.node:
            self._visit_node(each, inner, is_reported=False)
        return [inner.facts.get(name, NOTHING) for name in function.output]

    def _infer(self, node: onnx.NodeProto, inputs: Sequence[Fact], domain: str, opset: int, scope: Scope) -> list[Fact]:
        """What onnx infers of a node's outputs."""
        number = self._visited
        if number in self._skipped or -1 in self._skipped or len(node.output) > MAX_RANK:
            return []
        try:
            schema = onnx.defs.get_schema(node.op_type, opset, domain)
        except onnx.defs.SchemaError:
            return []
        if not schema.has_type_and_shape_inference_function:
            body = self._function_body(schema, node, inputs)
            return [] if body is None else self._call(body, node, inputs, scope)
        if opset < _NEGATIVE_AXES_OPSET and inputs and inputs[0].dims is not None:
            node = _count_axis_from_the_front(node, len(inputs[0].dims))
        types, data = {}, {}
        for name, fact in zip(node.input, inputs, strict=True):
            if name and (fact.element or fact.other):
                types[name] = fact.other or self._type_of(fact)
                if fact.data is not None and fact.data.size <= _MAX_INPUT_ELEMENTS:
                    data[name] = numpy_helper.from_array(fact.data, name).SerializeToString()
        serialized = node.SerializeToString()
        if self._journal >= 0:
            asked = b"\0".join([serialized, *types.values(), *data.values(), domain.encode(), str(opset).encode()])
            digest = hashlib.blake2b(asked, digest_size=8).digest()
            if digest in self._fatal:
                return []
            os.pwrite(self._journal, number.to_bytes(8, "little") + digest, 0)
        try:
            infer: Any = schema._infer_node_outputs  # its annotation lacks parameters
            found = infer(serialized, types, data, {}, {domain: opset}, self._model.ir_version)
        except Exception:  # a node that breaks its schema: whoever reads it says so
            return []
        return [_of_type(found[name]) if name in found else Fact() for name in node.output]

    def _function_body(self, schema: Any, node: onnx.NodeProto, inputs: Sequence[Fact]) -> onnx.FunctionProto | None:
        """The function that defines a standard operator of which onnx infers nothing."""
        found = schema.function_body if schema.has_function else None
        if found is None and schema.has_context_dependent_function and all(fact.element for fact in inputs):
            types = [self._type_of(fact) for fact in inputs]
            found = onnx.FunctionProto.FromString(
                schema.get_context_dependent_function(node.SerializeToString(), types)
            )
        return found

    def _compute(self, node: onnx.NodeProto, inputs: Sequence[Fact], outputs: Sequence[Fact], opset: int) -> None:
        """Put the elements of outputs into what is known of them."""
        if any(fact.data is not None or fact.integers is not None for fact in outputs):
            return
        sizes = outputs[0].sizes if len(outputs) == 1 else None
        if sizes is not None and outputs[0].element in (*_INTEGERS, onnx.TensorProto.BOOL):
            attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
            listed = [fact.listed() for fact in inputs]
            integers = shape_arithmetic.compute(node.op_type, listed, attributes, sizes, opset)
            if integers is not None:
                outputs[0].learn(integers)
                if outputs[0].data is not None:
                    return
        if node.op_type in _RANDOM or not node.input or not outputs:
            return
        if any(name and fact.data is None for name, fact in zip(node.input, inputs, strict=True)):
            return
        shapes = [fact.sizes for fact in outputs]
        is_small = all(shape is not None and prod(shape) * 16 <= MAX_BYTES for shape in shapes)
        if not (is_small or node.op_type in _UNSURE_SIZE):
            return
        given = [fact.data if name else None for name, fact in zip(node.input, inputs, strict=True)]
        if sum(array.nbytes for array in given if array is not None) > MAX_BYTES:
            return
        if any(array is not None and array.dtype.names for array in given):
            return  # onnx 1.18 has bfloat16 and its like as integers, and computes with these
        for fact, array in zip(outputs, _evaluate(node, given, opset), strict=False):
            if _fits(fact, array):
                fact.data, fact.dims = array, array.shape

    def _of_tensor(self, tensor: onnx.TensorProto) -> Fact:
        fact = Fact(tensor.data_type, tuple(tensor.dims))
        fact.data = _elements(tensor)
        return fact

    def _merge_declared(self, fact: Fact, declared: onnx.TypeProto) -> Fact:
        """What was inferred, and what is declared where nothing was."""
        written = _of_type(declared.SerializeToString())
        if fact is NOTHING or not (fact.element or fact.other):
            fact = Fact(written.element, fact.dims, written.other, fact.data, fact.integers)
        if written.dims is None or fact.other:
            return fact
        if fact.dims is None:
            dims: Dims = written.dims
        elif len(fact.dims) == len(written.dims):
            dims = tuple([b if not isinstance(a, int) else a for a, b in zip(fact.dims, written.dims, strict=True)])
        else:
            return fact
        return Fact(fact.element, dims, fact.other, fact.data, fact.integers)

    def _limit(self, fact: Fact) -> Fact:
        """A fact without sizes that no tensor has, and without what would take too much memory in all."""
        if fact.dims is not None and any(isinstance(dim, int) and dim > INT64_MAX for dim in fact.dims):
            dims = tuple([None if isinstance(dim, int) and dim > INT64_MAX else dim for dim in fact.dims])
            fact = Fact(fact.element, dims, fact.other)
        if fact.dims is not None:
            self._dims += len(fact.dims)
            if len(fact.dims) > MAX_RANK or self._dims > _TOTAL_DIMS:
                return Fact(fact.element, None, fact.other)
        self._bytes += fact.data.nbytes if fact.data is not None else 0
        self._bytes += 64 * fact.integers.size if fact.integers is not None else 0
        if self._bytes > _TOTAL_BYTES:
            return Fact(fact.element, fact.dims, fact.other)
        return fact

    def _report(self, fact: Fact) -> None:
        self._found.append(self._as_found(fact))

    def _as_found(self, fact: Fact) -> Found:
        data = fact.data if fact.data is not None and fact.data.nbytes <= LARGE_BYTES else None
        return Found(fact.element, fact.dims, fact.other, data)

    def _type_of(self, fact: Fact) -> bytes:
        key = (fact.element, fact.dims)
        if key not in self._types:
            self._types[key] = helper.make_tensor_type_proto(fact.element, fact.dims).SerializeToString()
        return self._types[key]


def _depth_marker(scope: Scope) -> Scope:
    """A scope without values that is as deep as another: a function does not see the values around its call."""
    return Scope(None if scope.outer is None else _depth_marker(scope.outer), {})


def _is_slicing(node: onnx.NodeProto) -> bool:
    """Whether its sizes all follow from its data: what is declared for them may hold for one size of that alone."""
    return node.op_type in ("Slice", "Split", "StridedSlice") and node.domain in (*_STANDARD, STRIDED_SLICE_DOMAIN)


def _domain(name: str) -> str:
    return "" if name in _STANDARD else name


def _graphs(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def _resolve_references(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """The node with the values of its function's attributes; an attribute that has none is left out."""
    if not any(attribute.ref_attr_name for attribute in node.attribute):
        return node
    resolved = onnx.NodeProto()
    resolved.CopyFrom(node)
    del resolved.attribute[:]
    for attribute in node.attribute:
        given = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if given is not None:
            made = resolved.attribute.add()
            made.CopyFrom(given)
            made.name = attribute.name
    return resolved


def _count_axis_from_the_front(node: onnx.NodeProto, rank: int) -> onnx.NodeProto:
    """The node with its axis from 0 up: old operator sets allow no other, exporters write it, and runtimes take it."""
    if not any(a.name == "axis" and -rank <= a.i < 0 for a in node.attribute):
        return node
    counted = onnx.NodeProto()
    counted.CopyFrom(node)
    for attribute in counted.attribute:
        if attribute.name == "axis":
            attribute.i += rank
    return counted


def _of_type(serialized: bytes) -> Fact:
    proto = onnx.TypeProto.FromString(serialized)
    if not proto.HasField("tensor_type"):
        return Fact(other=serialized if proto.WhichOneof("value") else b"")
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return Fact(tensor.elem_type)
    return Fact(tensor.elem_type, tuple([_dim(dim) for dim in tensor.shape.dim]))


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


def _elements(tensor: onnx.TensorProto) -> Array | None:
    """A tensor's elements; None where they are not in it, too many, strings or not sound."""
    count = prod(tensor.dims)
    if tensor.data_location == onnx.TensorProto.EXTERNAL or not 0 <= count <= MAX_BYTES:
        return None
    if tensor.data_type in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
        return None
    try:
        array = np.asarray(numpy_helper.to_array(tensor))
    except Exception:
        return None
    return array if array.nbytes <= MAX_BYTES else None


def _fits(fact: Fact, array: Any) -> bool:
    """Whether an array is what was inferred."""
    if not isinstance(array, np.ndarray) or array.dtype == object or array.nbytes > MAX_BYTES:
        return False
    try:
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
    except (KeyError, ValueError):
        return False
    sizes = fact.sizes
    return element == fact.element and (sizes is None or sizes == array.shape)


def _evaluate(node: onnx.NodeProto, given: Sequence[Array | None], opset: int) -> Sequence[Any]:
    """A node's outputs by onnx's reference; none where it does not know the operator or fails."""
    from onnx.reference.ops import load_op

    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    try:
        results = load_op("", node.op_type, opset).eval(*given, n_outputs=len(node.output), **attributes)
    except Exception:
        return ()
    return results if isinstance(results, tuple) else (results,)


def _either(condition: Fact, results: Mapping[str, Sequence[Fact]]) -> list[Fact]:
    """What is known of the outputs of an If."""
    branches = [results.get("then_branch", ()), results.get("else_branch", ())]
    if condition.data is not None and condition.data.size == 1:
        return list(branches[0] if bool(condition.data.reshape(())) else branches[1])
    merged = []
    for a, b in zip(*branches, strict=False):
        dims: Dims | None = None
        if a.dims is not None and b.dims is not None and len(a.dims) == len(b.dims):
            dims = tuple([x if x == y else None for x, y in zip(a.dims, b.dims, strict=True)])
        merged.append(Fact(a.element if a.element == b.element else 0, dims, a.other if a.other == b.other else b""))
    return merged


def _stack(fact: Fact) -> Fact:
    """What a Loop makes of an output of its body that it collects."""
    return Fact(fact.element, None if fact.dims is None else (None, *fact.dims))


Rule = Callable[[onnx.NodeProto, Sequence[Fact], int], list[Fact] | None]


def _own_rule(node: onnx.NodeProto, domain: str, inputs: Sequence[Fact], opset: int) -> list[Fact] | None:
    """The outputs of an operator that onnx is not asked about; None of any other.

    Raises:
        InvalidSlice: A slicing node breaks its specification.
    """
    if domain == STRIDED_SLICE_DOMAIN:
        return _strided_slice(node, inputs) if node.op_type == "StridedSlice" else None
    rule = None if domain else _RULES.get(node.op_type)
    return None if rule is None else rule(node, inputs, opset)


def _slice(node: onnx.NodeProto, inputs: Sequence[Fact], opset: int) -> list[Fact]:
    data = inputs[0] if inputs else NOTHING
    if data.dims is None:
        return [Fact(data.element)]
    if opset >= _INPUTS_OPSET:
        lists = [_read_list(inputs, i) for i in range(1, 5)]
        given = [len(node.input) > i and bool(node.input[i]) for i in range(1, 5)]
        count = _length(inputs[1]) if given[0] else None
    else:
        lists = [_attribute(node, name) for name in ("starts", "ends", "axes")] + [None]
        given = [values is not None for values in lists]
        count = None if lists[0] is None else len(lists[0])
    starts, ends, axes, steps = lists
    if axes is None and not given[2] and count is not None:
        axes = tuple(range(count))
    if axes is None:
        return [Fact(data.element, (None,) * len(data.dims))]
    if any(has and values is None for has, values in zip(given, lists, strict=True)) or starts is None or ends is None:
        cut = {axis % len(data.dims) for axis in axes if -len(data.dims) <= axis < len(data.dims)}
        return [Fact(data.element, tuple([None if i in cut else dim for i, dim in enumerate(data.dims)]))]
    spec = SliceSpec(starts, ends, axes, steps)
    dims = list(data.dims)
    for axis, entry in spec.by_axis(len(dims)).items():
        dim = dims[axis]
        if not entry.is_whole(None):
            dims[axis] = len(resolve_axis(*entry, dim)) if isinstance(dim, int) else None
    result = Fact(data.element, tuple(dims))
    if data.sizes is not None:
        _select(data, [result], [spec.resolve(data.sizes)])
    return [result]


def _strided_slice(node: onnx.NodeProto, inputs: Sequence[Fact]) -> list[Fact] | None:
    lists = [_read_list(inputs, i) for i in range(1, 4)]
    has_strides = len(node.input) > 3 and bool(node.input[3])
    begin, end, strides = lists
    sizes = inputs[0].sizes if inputs else None
    if sizes is None or begin is None or end is None or (has_strides and strides is None):
        return None
    masks = Masks.of({name: _attribute(node, name) for name in MASK_ATTRIBUTES})
    region = StridedSliceSpec(begin, end, strides, masks).resolve(sizes)
    result = Fact(inputs[0].element, region.output_shape)
    _select(inputs[0], [result], [region])
    return [result]


def _split(node: onnx.NodeProto, inputs: Sequence[Fact], opset: int) -> list[Fact] | None:
    data = inputs[0] if inputs else NOTHING
    count = len(node.output)
    if data.dims is None or not data.dims:
        return [Fact(data.element) for _ in range(count)]
    axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
    axis = normalize_axis(axis, len(data.dims))
    size = data.dims[axis]
    has_input = (opset == 1 or opset >= _SPLIT_INPUT_OPSET) and len(node.input) > 1 and bool(node.input[1])
    parts: Sequence[int | None] | None = _read_list(inputs, 1) if has_input else _attribute(node, "split")
    if has_input and parts is None:
        parts = [None] * count
    elif parts is None and isinstance(size, int):
        is_uneven = opset >= _UNEVEN_OPSET
        parts = SplitSpec.evenly(0, (size,), count, uneven_last=is_uneven).sizes
    elif parts is None:
        parts = [None] * count
    if len(parts) != count or any(part is not None and part < 0 for part in parts):
        raise InvalidSlice(f"split={list(parts)} must have a size of at least 0 for each of the {count} outputs")
    results = [Fact(data.element, (*data.dims[:axis], part, *data.dims[axis + 1 :])) for part in parts]
    known = [part for part in parts if part is not None]
    sizes = data.sizes
    if sizes is not None and len(known) == count:
        _select(data, results, SplitSpec(axis, tuple(known)).resolve(sizes))
    return results


def _select(data: Fact, results: Sequence[Fact], regions: Sequence[Region]) -> None:
    """Put what is selected of known elements into what is known of outputs."""
    for result, region in zip(results, regions, strict=True):
        kept = tuple(map(as_slice, region.ranges))
        if data.data is not None and data.data.nbytes <= LARGE_BYTES:
            result.data = data.data[kept].reshape(region.output_shape).copy()
        elif data.integers is not None:
            result.learn(data.integers[kept].reshape(region.output_shape))


def _shape(node: onnx.NodeProto, inputs: Sequence[Fact], _: int) -> list[Fact]:
    dims = inputs[0].dims if inputs else None
    if dims is None:
        return [Fact(onnx.TensorProto.INT64, (None,))]
    bounds = {a.name: a.i for a in node.attribute}
    kept = dims[slice(*_clamp(bounds.get("start", 0), bounds.get("end"), len(dims)))]
    fact = Fact(onnx.TensorProto.INT64, (len(kept),))
    if len(kept) <= shape_arithmetic.MAX_ELEMENTS:
        listed = shape_arithmetic.unknown((len(kept),))
        listed[:] = [dim if isinstance(dim, int) else None for dim in kept]
        fact.learn(listed)
    return [fact]


def _clamp(start: int, end: int | None, rank: int) -> tuple[int, int]:
    first, last = (min(max(at + rank if at < 0 else at, 0), rank) for at in (start, rank if end is None else end))
    return first, max(first, last)


def _size(_: onnx.NodeProto, inputs: Sequence[Fact], __: int) -> list[Fact]:
    sizes = inputs[0].sizes if inputs else None
    fact = Fact(onnx.TensorProto.INT64, ())
    if sizes is not None and prod(sizes) < 2**63:
        fact.data = np.array(prod(sizes), np.int64)
    return [fact]


def _constant(node: onnx.NodeProto, *_: Any) -> list[Fact] | None:
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            tensor = attribute.t
            fact = Fact(tensor.data_type, tuple(tensor.dims))
            fact.data = _elements(tensor)
            return [fact]
        kinds = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
        if attribute.name in kinds:
            array = np.asarray(helper.get_attribute_value(attribute), kinds[attribute.name])
            return [Fact(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, data=array)]
    return None


def _identity(_: onnx.NodeProto, inputs: Sequence[Fact], __: int) -> list[Fact]:
    fact = inputs[0] if inputs else NOTHING
    return [Fact(fact.element, fact.dims, fact.other, fact.data, fact.integers)]


def _reshape(node: onnx.NodeProto, inputs: Sequence[Fact], _: int) -> list[Fact] | None:
    if len(inputs) < 2 or inputs[1].data is not None:
        return None
    wanted = inputs[1].listed()
    if wanted is None or wanted.ndim != 1:
        return None
    allowzero = any(a.name == "allowzero" and a.i for a in node.attribute)
    return [Fact(inputs[0].element, shape_arithmetic.reshape(inputs[0].dims, list(wanted), allowzero=allowzero))]


def _concat(node: onnx.NodeProto, inputs: Sequence[Fact], _: int) -> list[Fact] | None:
    """The sizes of a Concat, which onnx before 1.23 adds up in 32 bits."""
    if not inputs:
        return None
    element = next((fact.element for fact in inputs if fact.element), 0)
    shapes = [fact.dims for fact in inputs if fact.dims is not None]
    rank = len(shapes[0]) if shapes else 0
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
    if len(shapes) < len(inputs) or not all(len(dims) == rank for dims in shapes) or not -rank <= axis < rank:
        return [Fact(element)]
    merged: list[int | str | None] = []
    for i, sizes in enumerate(zip(*shapes, strict=True)):
        known = [size for size in sizes if isinstance(size, int)]
        if len(sizes) == 1:
            merged.append(sizes[0])
        elif i == axis % rank:
            merged.append(sum(known) if len(known) == len(sizes) else None)
        elif len(set(known)) > 1:
            return [Fact(element)]
        else:
            merged.append(known[0] if known else sizes[0])
    return [Fact(element, tuple(merged))]


def _expand(_: onnx.NodeProto, inputs: Sequence[Fact], __: int) -> list[Fact] | None:
    if len(inputs) < 2 or inputs[1].data is not None or inputs[0].dims is None:
        return None
    wanted = inputs[1].listed()
    if wanted is None or wanted.ndim != 1:
        return None
    return [Fact(inputs[0].element, shape_arithmetic.expand(inputs[0].dims, list(wanted)))]


def _constant_of_shape(node: onnx.NodeProto, inputs: Sequence[Fact], _: int) -> list[Fact] | None:
    wanted = inputs[0].listed() if inputs else None
    if wanted is None or wanted.ndim != 1:
        return None
    value = next((a.t for a in node.attribute if a.name == "value" and a.HasField("t")), None)
    element = onnx.TensorProto.FLOAT if value is None else value.data_type
    return [Fact(element, tuple([dim if dim is not None and dim >= 0 else None for dim in wanted]))]


_RULES: dict[str, Rule] = {
    "Slice": _slice,
    "Split": _split,
    "Shape": _shape,
    "Size": _size,
    "Constant": _constant,
    "Identity": _identity,
    "Reshape": _reshape,
    "Concat": _concat,
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
}


def _length(fact: Fact) -> int | None:
    size = fact.dims[0] if fact.dims is not None and len(fact.dims) == 1 else None
    return size if isinstance(size, int) and size <= MAX_RANK else None


def _read_list(inputs: Sequence[Fact], index: int) -> tuple[int, ...] | None:
    """The integers of an input that is a list of them; None where they are not known."""
    fact = inputs[index] if index < len(inputs) else NOTHING
    if fact.data is None or fact.element not in _INDEX_TYPES or fact.data.ndim != 1:
        return None
    return tuple(fact.data.tolist())


def _attribute(node: onnx.NodeProto, name: str) -> tuple[int, ...] | None:
    return next((tuple(a.ints) for a in node.attribute if a.name == name), None)
