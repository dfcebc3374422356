"""Nodes that follow from constants alone become constants: floats, too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

import onnx
import onnx_ir as ir

from onnx_ops.compare import onnxruntime_cpu
from onnx_ops.domains import STANDARD_DOMAINS
from onnx_ops.exact import MOVING, casts_alike
from onnx_ops.facts import LARGE_BYTES, MAX_BYTES
from onnx_ops.nodes import MARK, constant, has_its_values, is_slicing
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.cleanup import RANDOM, is_used
from onnx_ops.passes.folding import FLOATS, INTEGERS, as_tensors, rounds_alike
from sliceport.errors import ModelError

MAX_READ_BYTES = 2**26
"""Constants of more bytes are not computed with."""
MAX_ALL_READ_BYTES = 2**27
MAX_ALL_BYTES = 2**24
"""What all that is computed may have, and what it is computed from: that of the first nodes of a model is."""
_HALF = frozenset((ir.DataType.FLOAT16, ir.DataType.BFLOAT16))
_EXCLUDED = RANDOM | {"Constant", "Dropout", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
"""Engines look for quantization by its operators."""
_MAX_FAILURES = 32
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)

Tensors = dict[ir.Value, ir.TensorProtocol]


class FoldConstantsPass(SlicingPass):
    """Replace nodes of the main graph that follow from constants alone by constants.

    Skipped: nodes of other domains, with graphs in them or without inputs, that draw at random, quantize, or that
    engines read differently; strings; sizes that are not known.
    """

    is_default = False

    def apply(self, model: ir.Model) -> None:
        """See the class."""
        foldable: dict[ir.Node, None] = {}
        for node in model.graph:
            if self._follows(node, foldable) and self.may_fold(node):
                foldable[node] = None
        ends = [node for node in foldable if any(_is_read_outside(output, foldable) for output in node.outputs)]
        tensors = self.compute(model, ends) if ends else {}
        for node in ends:
            used = [output for output in node.outputs if is_used(output)]
            parts = [tensors[output] for output in used if output in tensors]
            if len(parts) == len(used):
                self.replace_by_constants(node, parts)

    @abstractmethod
    def may_fold(self, node: ir.Node) -> bool:
        """Whether to compute a node that follows from constants."""

    @abstractmethod
    def compute(self, model: ir.Model, nodes: Sequence[ir.Node]) -> Tensors:
        """What nodes write that may be folded, as far as it can be computed."""

    def elements(self, values: Collection[ir.Value | None]) -> set[ir.DataType | None]:
        """The types of the elements of values, None among them where one is not known."""
        return {self._element(value) for value in values if value is not None}

    def _element(self, value: ir.Value) -> ir.DataType | None:
        tensor = constant(value)
        return self.value_info.dtype(value) if tensor is None else tensor.dtype

    def _follows(self, node: ir.Node, foldable: Mapping[ir.Node, None]) -> bool:
        inputs = [value for value in node.inputs if value is not None]
        if not inputs or node.domain not in STANDARD_DOMAINS or MARK in node.meta or node.op_type in _EXCLUDED:
            return False
        if any(attribute.is_ref() or attribute.type in _GRAPHS for attribute in node.attributes.values()):
            return False
        if is_slicing(node) and not has_its_values(node):
            return False
        if not all(value.producer() in foldable or self._is_small_constant(value) for value in inputs):
            return False
        return all(self._is_small(output) for output in node.outputs)

    def _is_small_constant(self, value: ir.Value) -> bool:
        tensor = constant(value)
        return tensor is not None and tensor.nbytes <= MAX_READ_BYTES and tensor.dtype != ir.DataType.STRING

    def _is_small(self, output: ir.Value) -> bool:
        dtype, sizes = self.value_info.dtype(output), self.sizes(output)
        if dtype is None or dtype == ir.DataType.STRING or sizes is None:
            return not output.name
        known = [size for size in sizes if size is not None]
        return len(known) == len(sizes) and prod(known) * dtype.bitwidth <= MAX_BYTES * 8


class FoldExactConstantsPass(FoldConstantsPass):
    """Replace nodes that follow from constants alone by constants, where every engine computes the same bits.

    See `rounds_alike`; up to 8 KiB.
    """

    def may_fold(self, node: ir.Node) -> bool:
        """See the class."""
        read, written = self.elements(node.inputs), self.elements(node.outputs)
        if rounds_alike(node, read, written):
            return True
        tensor = constant(node.inputs[0]) if node.inputs and node.inputs[0] is not None else None
        if tensor is None or tensor.nbytes > LARGE_BYTES or not (FLOATS.issuperset(read) and written <= INTEGERS):
            return False
        is_external = isinstance(tensor, ir.ExternalTensor)
        return node.op_type == "Cast" and not is_external and casts_alike(tensor.numpy())

    def compute(self, model: ir.Model, nodes: Sequence[ir.Node]) -> Tensors:  # noqa: ARG002
        """By onnx's reference."""
        return as_tensors((output for node in nodes for output in node.outputs), self.value_info.constants)


class FoldByOnnxruntimePass(FoldConstantsPass):
    """Replace nodes that follow from constants alone by constants, as onnxruntime's CPU provider computes them.

    A session does so itself before it runs, for every provider. Results of at most 1 MiB are kept, and 16 MiB in all
    its runs.

    Skipped: what computes with floats of 16 bits, which a session does not round after each node.
    """

    def __init__(self) -> None:
        super().__init__()
        self._made = self._read = 0

    def may_fold(self, node: ir.Node) -> bool:
        """See the class."""
        return node.op_type in MOVING or not self.elements([*node.inputs, *node.outputs]) & _HALF

    def compute(self, model: ir.Model, nodes: Sequence[ir.Node]) -> Tensors:
        """In a session without optimisation, in a worker process.

        Raises:
            MissingExtra: onnxruntime is not installed.
        """
        onnxruntime_cpu.load()
        tensors: Tensors = {}
        waiting, failures = [self._limit(nodes)], 0
        while waiting and failures < _MAX_FAILURES:
            group = waiting.pop()
            try:
                tensors |= _run(model, group)
            except onnxruntime_cpu.Exhausted:
                break
            except ModelError:  # nodes that it does not run are found by halves
                failures += 1
                half = len(group) // 2
                waiting += [part for part in (group[half:], group[:half]) if part and half]
        return tensors

    def _limit(self, nodes: Sequence[ir.Node]) -> list[ir.Node]:
        """The first of some nodes, as many as do not make too much of too much, with those of the runs before."""
        seen: set[ir.Node | ir.Value] = set()
        kept = []
        for node in nodes:
            made = self._made + sum(map(self._count_bytes, filter(is_used, node.outputs)))
            read = self._read + sum(_constant_bytes(value) for value in _new_constants(node, seen))
            if made > MAX_ALL_BYTES or read > MAX_ALL_READ_BYTES:
                break
            self._made, self._read = made, read
            kept.append(node)
        return kept

    def _count_bytes(self, output: ir.Value) -> int:
        dtype, sizes = self.value_info.dtype(output), self.sizes(output)
        return 0 if dtype is None or sizes is None else prod(size or 0 for size in sizes) * dtype.bitwidth // 8


def _constant_bytes(value: ir.Value) -> int:
    tensor = constant(value)
    return 0 if tensor is None else tensor.nbytes


def _new_constants(node: ir.Node, seen: set[ir.Node | ir.Value]) -> Iterator[ir.Value]:
    """The constants that a node follows from, but for those that have been seen."""
    waiting = [node]
    while waiting:
        for value in waiting.pop().inputs:
            producer = None if value is None else value.producer()
            if value is not None and constant(value) is not None:
                if value not in seen:
                    seen.add(value)
                    yield value
            elif producer is not None and producer not in seen:
                seen.add(producer)
                waiting.append(producer)


def _is_read_outside(output: ir.Value, nodes: Collection[ir.Node]) -> bool:
    return output.is_graph_output() or any(use.node not in nodes for use in output.uses())


def _run(model: ir.Model, nodes: Sequence[ir.Node]) -> Tensors:
    """What nodes write that follow from constants.

    Raises:
        ModelError: onnxruntime does not run them.
    """
    needed: set[ir.Node | ir.Value] = set(nodes)
    constants = [value for node in nodes for value in _new_constants(node, needed)]
    outputs = [output for node in nodes for output in node.outputs if is_used(output)]
    graph = onnx.GraphProto(
        name="constants",
        node=[ir.serde.serialize_node(node) for node in model.graph if node in needed],
        initializer=[_serialize(value) for value in constants],
        output=[onnx.ValueInfoProto(name=output.name) for output in outputs],
    )
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in model.opset_imports.items()]
    proto = onnx.ModelProto(ir_version=model.ir_version, graph=graph, opset_import=opsets)
    found = onnxruntime_cpu.run(proto, {}, [output.name or "" for output in outputs])
    return {
        output: ir.Tensor(value.array(), dtype=ir.DataType(value.element))
        for output in outputs
        if isinstance(value := found[output.name or ""], onnxruntime_cpu.Captured)
    }


def _serialize(value: ir.Value) -> onnx.TensorProto:
    """A constant with its data.

    Raises:
        ModelError: The data cannot be read.
    """
    tensor = constant(value)
    assert tensor is not None
    proto = onnx.TensorProto(name=value.name, data_type=tensor.dtype.value, dims=tensor.shape.numpy())
    try:
        proto.raw_data = tensor.tobytes()
    except Exception as error:  # onnx-ir has several classes of errors
        raise ModelError(f"the data of tensor {value.name!r} cannot be read ({error}).") from None
    finally:
        if isinstance(tensor, ir.ExternalTensor):
            tensor.release()
    return proto
