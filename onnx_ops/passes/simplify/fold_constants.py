"""Folding of nodes whose outputs follow from constants alone, including floats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

import numpy as np
import onnx
import onnx_ir as ir

from onnx_ops.infer.exact import MOVING, OPERATORS
from onnx_ops.infer.facts import MAX_BYTES
from onnx_ops.model.domains import STANDARD_DOMAINS
from onnx_ops.model.nodes import CONTESTED, RANDOM, constant
from onnx_ops.model.prepare import load_external
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.edits import holds_graph, is_used
from onnx_ops.passes.rewrite.fold_slices import collect_tensors
from onnx_ops.running import onnxruntime_cpu
from sliceport.engines.side import RunFailed
from sliceport.errors import ModelError, model_error

MAX_READ_BYTES = 2**26
"""Limit for the bytes of one constant that is read."""
MAX_ALL_READ_BYTES = 2**27
"""Limit for the bytes of all constants that onnxruntime reads."""
MAX_ALL_BYTES = 2**24
"""Limit for the bytes of all constants that onnxruntime computes."""
_FLOATS_OF_16_BITS = frozenset((ir.DataType.FLOAT16, ir.DataType.BFLOAT16))
_EXCLUDED = RANDOM | {"Constant", "Dropout", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
"""Operators that are never folded: Constant, operators that may draw random numbers, and operators that quantize,
because engines look for these."""
_MAX_FAILURES = 32
"""Limit for the sessions that may fail while bisection looks for the nodes that onnxruntime refuses."""

Tensors = dict[ir.Value, ir.TensorProtocol]


class FoldConstantsPass(SlicingPass):
    """Replace nodes of the main graph by constants if their outputs follow from constants alone.

    Not folded: nodes of other domains, or with subgraphs; nodes that draw random numbers or quantize; nodes that
    engines read differently, and nodes that compute inputs of such nodes; strings; outputs of unknown size or over
    1 MiB; nodes that read a constant over 64 MiB.
    """

    is_default = False

    def _apply(self) -> None:
        constant_nodes: dict[ir.Node, None] = {}
        for node in self.analysis.model.graph:
            if self._is_candidate(node, constant_nodes) and self.may_fold(node):
                constant_nodes[node] = None
        # Only the last constant nodes are replaced. The nodes before them are removed with their last readers.
        last_nodes = [
            node for node in constant_nodes if any(_is_read_outside(output, constant_nodes) for output in node.outputs)
        ]
        tensors = self.compute(last_nodes) if last_nodes else {}
        for node in last_nodes:
            used = [output for output in node.outputs if is_used(output)]
            used_tensors = [tensors[output] for output in used if output in tensors]
            if len(used_tensors) == len(used):
                self.replace_by_constants(node, used_tensors)

    @abstractmethod
    def may_fold(self, node: ir.Node) -> bool:
        """Return whether this pass may compute a node whose inputs follow from constants."""

    @abstractmethod
    def compute(self, nodes: Sequence[ir.Node]) -> Tensors:
        """Compute the outputs of nodes that follow from constants. Leave out outputs that cannot be computed."""

    def _is_candidate(self, node: ir.Node, constant_nodes: Mapping[ir.Node, None]) -> bool:
        """Return whether a node may be folded if `may_fold` agrees.

        The node must read only constants and outputs of `constant_nodes`, and not be one of the nodes that are never
        folded; see the class.
        """
        inputs = [value for value in node.inputs if value is not None]
        if node.domain not in STANDARD_DOMAINS or node.op_type in _EXCLUDED or holds_graph(node):
            return False
        if any(CONTESTED in reader.meta for output in node.outputs for reader in output.consumers()):
            # If a parameter of the reader became constant, onnxruntime would infer an output shape for the reader, and
            # the reader would compute another shape.
            return False
        if not all(value.producer() in constant_nodes or self._can_be_read(value) for value in inputs):
            return False
        return all(self._can_be_constant(output) for output in node.outputs)

    def _can_be_read(self, value: ir.Value) -> bool:
        """Return whether a value is a constant of at most `MAX_READ_BYTES`, and not of strings."""
        tensor = constant(value)
        return tensor is not None and tensor.nbytes <= MAX_READ_BYTES and tensor.dtype != ir.DataType.STRING

    def _can_be_constant(self, output: ir.Value) -> bool:
        """Return whether an output is left out, or is known to have at most `MAX_BYTES` and not to be strings."""
        dtype, shape = self.value_info.dtype(output), self.static_shape(output)
        if dtype is None or shape is None:
            return not output.name  # an output that is left out has no type and no shape
        return dtype != ir.DataType.STRING and prod(shape) * dtype.bitwidth <= MAX_BYTES * 8


class FoldExactConstantsPass(FoldConstantsPass):
    """Replace nodes that follow from constants by constants if all engines compute the same; see `infer.exact`."""

    def may_fold(self, node: ir.Node) -> bool:
        """Return whether every engine computes the operator alike, and inference has computed the used outputs."""
        constants = self.value_info.constants
        return node.op_type in OPERATORS and all(value in constants for value in node.outputs if is_used(value))

    def compute(self, nodes: Sequence[ir.Node]) -> Tensors:
        """Return the outputs that shape inference has computed."""
        return collect_tensors((output for node in nodes for output in node.outputs), self.value_info.constants)


class FoldByOnnxruntimePass(FoldConstantsPass):
    """Replace nodes that follow from constants alone by constants, as onnxruntime's CPU provider computes them.

    A session of onnxruntime does the same when it loads a model, for every provider. All runs of one pass object
    together compute at most 16 MiB and read at most 128 MiB.

    Skipped: nodes that compute with 16-bit floats, because a session does not round after each of these nodes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bytes_written = self._bytes_read = 0

    def may_fold(self, node: ir.Node) -> bool:
        """Return whether a node does not compute with 16-bit floats; see the class for the reason."""
        values = [value for value in (*node.inputs, *node.outputs) if value is not None]
        return node.op_type in MOVING or _FLOATS_OF_16_BITS.isdisjoint(map(self._element_type, values))

    def _element_type(self, value: ir.Value) -> ir.DataType | None:
        tensor = constant(value)
        return self.value_info.dtype(value) if tensor is None else tensor.dtype

    def compute(self, nodes: Sequence[ir.Node]) -> Tensors:
        """Compute outputs in sessions without optimization, in a worker process. Stop after `_MAX_FAILURES` failures.

        Raises:
            MissingExtra, ChildLost: See `Side.run`.
        """
        tensors: Tensors = {}
        pending_groups, failures = [self._take_within_limits(nodes)], 0
        while pending_groups and failures < _MAX_FAILURES:
            group = pending_groups.pop()
            if not group:
                continue
            try:
                tensors |= _run_nodes(self.analysis.model, group)
            except (ModelError, RunFailed, MemoryError):  # bisect to find the nodes that the session refuses
                failures += 1
                half = len(group) // 2
                pending_groups += [group[half:], group[:half]] if half else []  # a single node stays as it is
        return tensors

    def _take_within_limits(self, nodes: Sequence[ir.Node]) -> list[ir.Node]:
        """Return as many of the first nodes as the limits of the class allow, and count the bytes of these nodes."""
        counted: set[ir.Node | ir.Value] = set()
        accepted = []
        for node in nodes:
            written = self._bytes_written + sum(map(self._count_bytes, filter(is_used, node.outputs)))
            read = self._bytes_read + sum(tensor.nbytes for _, tensor in _find_new_constants(node, counted))
            if written > MAX_ALL_BYTES or read > MAX_ALL_READ_BYTES:
                break
            self._bytes_written, self._bytes_read = written, read
            accepted.append(node)
        return accepted

    def _count_bytes(self, output: ir.Value) -> int:
        dtype, shape = self.value_info.dtype(output), self.static_shape(output)
        # `_can_be_constant` has excluded outputs with a name but without a type or shape.
        return 0 if dtype is None or shape is None else prod(shape) * dtype.bitwidth // 8


def _find_new_constants(
    node: ir.Node, visited: set[ir.Node | ir.Value]
) -> Iterator[tuple[ir.Value, ir.TensorProtocol]]:
    """Yield the constants on which a node depends, directly or through other nodes, except those in `visited`.

    Add these constants and the nodes in between to `visited`. A node that is already there is not searched.
    """
    pending = [node]
    while pending:
        for value in pending.pop().inputs:
            producer = None if value is None else value.producer()
            tensor = None if value is None else constant(value)
            if value is not None and tensor is not None:
                if value not in visited:
                    visited.add(value)
                    yield value, tensor
            elif producer is not None and producer not in visited:
                visited.add(producer)
                pending.append(producer)


def _is_read_outside(output: ir.Value, nodes: Collection[ir.Node]) -> bool:
    return output.is_graph_output() or any(use.node not in nodes for use in output.uses())


def _run_nodes(model: ir.Model, nodes: Sequence[ir.Node]) -> Tensors:
    """Use onnxruntime to run nodes that depend only on constants. Return the used outputs that are tensors.

    Raises:
        ModelError: The data of a constant cannot be read, or the nodes with their constants have more than 2 GiB.
        RunFailed: onnxruntime refuses the nodes, or fails to run them.
        MissingExtra, ChildLost: See `Side.run`.
    """
    # `_find_new_constants` adds the nodes on which `nodes` depend to `needed`.
    needed: set[ir.Node | ir.Value] = set(nodes)
    constants = [pair for node in nodes for pair in _find_new_constants(node, needed)]
    outputs = [output for node in nodes for output in node.outputs if is_used(output)]
    graph = onnx.GraphProto(
        name="constants",
        node=[ir.serde.serialize_node(node) for node in model.graph if node in needed],
        initializer=[_serialize(value.name or "", tensor) for value, tensor in constants],
        output=[onnx.ValueInfoProto(name=output.name) for output in outputs],
    )
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in model.opset_imports.items()]
    proto = onnx.ModelProto(ir_version=model.ir_version, graph=graph, opset_import=opsets)
    names = [output.name or "" for output in outputs]
    values = onnxruntime_cpu.side().run(onnxruntime_cpu.build_whole_model(proto, names), {})
    return {
        output: ir.Tensor(value, dtype=ir.DataType.from_numpy(value.dtype))
        for output, name in zip(outputs, names, strict=True)
        if isinstance(value := values.get(name), np.ndarray)
    }


def _serialize(name: str, tensor: ir.TensorProtocol) -> onnx.TensorProto:
    """Return a tensor as a TensorProto with this name. External data are read into it.

    Raises:
        ModelError: The data cannot be read.
    """
    loaded = load_external(tensor) if isinstance(tensor, ir.ExternalTensor) else tensor
    try:
        proto: onnx.TensorProto = ir.serde.serialize_tensor(loaded)
    except Exception as error:  # onnx-ir has several classes of errors
        raise model_error(f"the data of tensor {name!r} cannot be read ({error}).", error) from None
    proto.name = name
    return proto
