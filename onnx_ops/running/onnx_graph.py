"""An ONNX model as a graph that `diff` cuts into smaller models."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import onnx
import onnx_ir as ir

from onnx_ops.defects.checking import check
from onnx_ops.model.domains import STANDARD_DOMAINS
from onnx_ops.model.external_data import describe_data_files
from onnx_ops.model.nodes import RANDOM
from onnx_ops.model.proto_tensor import Tensor
from onnx_ops.model.proto_walk import WRITTEN_NAME, graphs_of
from onnx_ops.model.read import to_bytes
from onnx_ops.running.runnable import Runnable, copy_with_outputs
from onnx_ops.running.session import STRING, Captured, encode_strings
from onnx_ops.running.whole_model import OnnxModel
from sliceport.checking import NodeFinding
from sliceport.defects.defect import Defect
from sliceport.engines.engine import Array, Value, WholeModel
from sliceport.engines.sizes import InputShapes
from sliceport.errors import MissingExtra, ModelError, UsageError
from sliceport.formats import find_converters
from sliceport.search.graph import Body, GraphNode, Runner
from sliceport.wording import shorten

_MOVES = frozenset(
    {
        "Concat", "Constant", "ConstantOfShape", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements",
        "GatherND", "Identity", "Pad", "Reshape", "ScatterElements", "ScatterND", "Shape", "Size", "Slice",
        "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
    }
)  # fmt: skip
"""Operators that move or drop elements without computing on them, so that their results must be equal bit for bit."""
_MAX_ITERATIONS = 100
"""Limit for the iterations of a Loop or Scan that are compared, each as a model of its own."""
_WEIGHTS, _LARGE_BYTES, _ALIGNMENT = "weights.bin", 1024, 4096
"""The file of the weights of cut models, the size in bytes from which a weight is stored there, and its alignment.

Small weights stay in the models, because onnxruntime reads parameters of nodes before it opens data files. onnx.proto
asks for an alignment to pages, so that files can be mapped.
"""
_SCRIPT = """\
import numpy as np, onnx
from onnx.numpy_helper import to_array

def read(kind, names):
    return {{name: to_array(onnx.load_tensor(f"test_data_set_0/{{kind}}_{{i}}.pb")) for i, name in enumerate(names)}}
path = "model.onnx"
inputs = read("input", {inputs!r})
expected = read("output", {outputs!r})
"""


class OnnxGraph(Runnable):
    """The main graph of an ONNX model, or one run of a body of control flow.

    Args:
        proto: The model as `read_complete_model` returns it, so without sparse initializers. `make_inputs` changes it.
        model: The same model in onnx-ir; None if `make_inputs` is not called.
        data_folder: The folder of its external data files; empty if all data are in the model.
    """

    format = "onnx"
    default_against, example_engine = "onnxruntime-cpu:level=none", "onnxruntime-dml"

    def __init__(self, proto: onnx.ModelProto, model: ir.Model | None = None, data_folder: str = "") -> None:
        super().__init__(proto, cast("ir.Model", model), data_folder)
        graph = proto.graph
        # `diff` stores the results of runs by a key that contains this version.
        self._data_version = describe_data_files(proto, data_folder) if data_folder else ""
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        self._constant_nodes = {node.output[0]: node for node in graph.node if _is_constant(node)}
        self._nodes = [node for node in graph.node if not _is_constant(node)]
        self._types = {value.name: value.type for value in (*graph.value_info, *graph.output, *graph.input)}
        self._constants = self._weights.keys() | self._constant_nodes.keys()
        self.nodes: Sequence[GraphNode] = [self._to_graph_node(node) for node in self._nodes]
        types = [value.type.tensor_type for value in graph.input]
        is_fixed = [one.HasField("shape") and all(dim.HasField("dim_value") for dim in one.shape.dim) for one in types]
        self._has_open_inputs = not all(is_fixed)
        self._findings: dict[Any, list[NodeFinding]] = {}

    def _to_graph_node(self, node: onnx.NodeProto) -> GraphNode:
        """Return a node as `diff` sees it, with the names of the values that it reads and writes."""
        is_standard = node.domain in STANDARD_DOMAINS
        names = dict.fromkeys(reads(node))
        # With a reduction, such as a sum, ScatterElements and ScatterND do not only move elements.
        has_reduction = any(each.name == "reduction" and each.s != b"none" for each in node.attribute)
        written_name = next((entry.value for entry in node.metadata_props if entry.key == WRITTEN_NAME), "")
        return GraphNode(
            node.name or next(filter(None, node.output), ""),
            node.op_type,
            tuple(name for name in names if name not in self._constants),
            tuple(filter(None, node.output)),
            constants=tuple(name for name in names if name in self._constants),
            moves=is_standard and node.op_type in _MOVES and not has_reduction,
            is_shape=is_standard and node.op_type in ("Shape", "Size"),
            is_random=is_standard and node.op_type in RANDOM,
            written_name=written_name,
        )

    def whole(self) -> WholeModel:
        """Return the whole model, each output once; see `Graph`."""
        proto = self.proto
        if len(self.outputs) < len(proto.graph.output):  # an engine that returns outputs by position would repeat them
            proto = copy_with_outputs(proto, {value.name: value for value in proto.graph.output}.values())
        return self._to_whole(proto, self.inputs, self.outputs)

    def _to_whole(self, proto: onnx.ModelProto, inputs: Iterable[str], outputs: Iterable[str]) -> OnnxModel:
        data, folder, version = to_bytes(proto, "the model to run"), self.data_folder, self._data_version
        return OnnxModel(self.format, data, tuple(inputs), tuple(outputs), data_folder=folder, data_version=version)

    def cut(
        self,
        nodes: Collection[int],
        outputs: Sequence[str],
        inputs: Mapping[str, Array],
        constants: Mapping[str, Array],
        *,
        has_fixed_shapes: bool = False,
    ) -> WholeModel:
        """Return a model of the nodes with these numbers, which computes `outputs` from `inputs`; see `Graph`."""
        proto = self._empty_model()
        chosen = [self._nodes[i] for i in sorted(nodes)]
        # Constants of this graph that the nodes read, or that are outputs, stay constants. They are not in `constants`,
        # which holds computed values.
        read_names = dict.fromkeys([*(name for node in chosen for name in reads(node)), *outputs])
        self._add_constants(proto.graph, read_names)
        proto.graph.node.extend(chosen)
        proto.graph.initializer.extend(to_tensor(name, array) for name, array in constants.items())
        proto.graph.input.extend(self._make_infos(inputs, has_fixed_shapes))
        # Engines fold no initializer that a caller may replace, and may know the shapes of inner values only from here.
        values, graph = {name for node in chosen for name in node.output}.difference(outputs), self.proto.graph
        proto.graph.input.extend(each for each in graph.input if each.name in read_names and each.name in self._weights)
        proto.graph.value_info.extend(each for each in graph.value_info if each.name in values)
        proto.graph.output.extend(onnx.ValueInfoProto(name=name, type=self._types.get(name)) for name in outputs)
        return self._to_whole(proto, inputs, outputs)

    def _empty_model(self) -> onnx.ModelProto:
        """Return a model without nodes, with the IR version, operator sets and functions of this model."""
        proto = onnx.ModelProto(ir_version=self.proto.ir_version, graph=onnx.GraphProto(name="cut"))
        proto.opset_import.extend(self.proto.opset_import)
        proto.functions.extend(self.proto.functions)
        return proto

    def _add_constants(self, graph: onnx.GraphProto, names: Collection[str]) -> None:
        """Add the constants among the values with these names to a graph."""
        graph.node.extend(self._constant_nodes[name] for name in names if name in self._constant_nodes)
        graph.initializer.extend(self._weights[name] for name in names if name in self._weights)

    def _make_infos(self, arrays: Mapping[str, Array], has_fixed_shapes: bool) -> list[onnx.ValueInfoProto]:
        """Return the inputs of a smaller model; see `_make_value_type`."""
        types = {name: self._make_value_type(name, array, has_fixed_shapes) for name, array in arrays.items()}
        return [onnx.ValueInfoProto(name=name, type=type_) for name, type_ in types.items()]

    def _make_value_type(self, name: str, array: Array, has_fixed_shapes: bool) -> onnx.TypeProto:
        """Return the type that the value `name` gets as an input or output of a smaller model. `array` is its value.

        The sizes are those of the array if shapes are fixed or if no size of the original model's inputs is open.
        Otherwise, a size of the array stays a number only where the original model declares the same number.
        """
        element = STRING if array.dtype == object else ir.DataType.from_numpy(array.dtype).value
        declared = self._types[name].tensor_type.shape.dim if name in self._types else ()
        sizes: list[int | str | None] = list(array.shape)
        if self._has_open_inputs and not has_fixed_shapes:
            dims = declared if len(declared) == array.ndim else [onnx.TensorShapeProto.Dimension()] * array.ndim
            sizes = [
                size if dim.HasField("dim_value") and dim.dim_value == size else dim.dim_param or None
                for size, dim in zip(array.shape, dims, strict=True)
            ]
        return onnx.helper.make_tensor_type_proto(element, sizes)

    def make_inputs(
        self, inputs: Mapping[str, Array], shapes: InputShapes, seed: int, attempt: int = 0
    ) -> dict[str, Array]:
        """Return the given arrays, and random ones for the other inputs; see `Graph`.

        An array for an input with a default is not returned, but replaces the default in this graph.
        """
        arrays = super().make_inputs(inputs, shapes, seed, attempt)
        for name in arrays.keys() & self._weights.keys():
            self._weights[name].CopyFrom(to_tensor(name, arrays.pop(name)))
        return arrays

    def read_value(self, place: Path, name: str) -> Array:
        """Read a TensorProto in a `.pb` file; see `Graph`."""
        file = place.with_suffix(".pb")
        try:
            # `Captured` gives strings and small types the same form as in the results of engines.
            return Captured.of(onnx.numpy_helper.to_array(onnx.load_tensor(file))).array()
        except Exception as error:  # protobuf raises errors of its own classes
            raise UsageError(f"'{file}' cannot be read as the value {name!r} ({shorten(str(error))}).") from None

    def bodies(self, node: int, values: Mapping[str, Array], run: Runner) -> Iterator[Body]:
        """Yield the runs of the bodies of an If, Loop or Scan, up to `_MAX_ITERATIONS`; see `Graph`."""
        node_proto = self._nodes[node]
        graphs = {attribute.name: attribute.g for attribute in node_proto.attribute if attribute.HasField("g")}
        if node_proto.domain not in STANDARD_DOMAINS or not graphs:
            return
        arguments: list[Any] = [self._value_of(name, values) if name else None for name in node_proto.input]
        if node_proto.op_type == "If":
            taken, other = ("then_branch", "else_branch") if bool(arguments[0]) else ("else_branch", "then_branch")
            yield self._body(taken, graphs[taken], [], values)
            yield replace(self._body(other, graphs[other], [], values), is_run=False)
        elif node_proto.op_type == "Loop":
            condition: Any
            count, condition, *carried = arguments  # The first two are None if they are left out.
            # Both may have the shape [1]. The body gets them with the rank that it declares.
            count = _MAX_ITERATIONS if count is None else min(int(count.reshape(())), _MAX_ITERATIONS)
            condition = np.array(condition is None or bool(condition.reshape(())))
            is_run = bool(condition and count > 0)
            # If no iteration runs, the body is yielded once all the same, because engines load it.
            for i in range(max(count, 1)):
                counters = [
                    array.reshape((1,) * len(declared.type.tensor_type.shape.dim))
                    for array, declared in zip((np.array(i), condition), graphs["body"].input, strict=False)
                ]
                body = self._body(f"iteration {i}", graphs["body"], [*counters, *carried], values)
                yield replace(body, is_run=is_run)
                if not is_run or i + 1 == count:  # no iteration reads the outputs of the last one
                    return
                computed = run(body.graph.whole(), body.inputs)
                condition, *results = [computed[value.name] for value in graphs["body"].output]
                carried = results[: len(carried)]  # the other outputs are not passed on
                if not condition:
                    return
        elif node_proto.op_type == "Scan" and len(node_proto.input) == len(graphs["body"].input):
            # Scan-8, which has one input more than its body, is left out.
            yield from self._scan(node_proto, arguments, values, run)

    def _scan(
        self, node_proto: onnx.NodeProto, arguments: list[Any], values: Mapping[str, Array], run: Runner
    ) -> Iterator[Body]:
        """Yield the first iterations of a Scan; see `bodies`. `arguments` are the states, then the sequences."""
        options = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node_proto.attribute}
        graph, scan_count = options["body"], options["num_scan_inputs"]
        axes = options.get("scan_input_axes") or [0] * scan_count
        backwards = options.get("scan_input_directions") or [0] * scan_count
        carried, sequences = arguments[:-scan_count], arguments[-scan_count:]
        # All sequences have the same length. Later iterations are not compared, to save time.
        for i in range(count := min(sequences[0].shape[axes[0]], _MAX_ITERATIONS)):
            slices = [
                np.take(sequence, -1 - i if backward else i, axis)
                for sequence, axis, backward in zip(sequences, axes, backwards, strict=True)
            ]
            body = self._body(f"iteration {i}", graph, [*carried, *slices], values)
            yield body
            if carried and i + 1 < count:
                computed = run(body.graph.whole(), body.inputs)
                carried = [computed[value.name] for value in graph.output[: len(carried)]]

    def _value_of(self, name: str, values: Mapping[str, Array]) -> Array:
        """Return the value `name`: the elements of a constant, or else the computed array in `values`."""
        if name in self._weights:
            return Tensor(self._weights[name], self.data_folder).numpy()
        if name in self._constant_nodes:
            attribute = self._constant_nodes[name].attribute[0]
            value = onnx.helper.get_attribute_value(attribute)
            if attribute.name == "value":
                return onnx.numpy_helper.to_array(value)
            # NumPy alone would make doubles of floats and of an empty list, and bytes of strings.
            dtypes = {"value_float": np.float32, "value_int": np.int64, "value_string": object}
            return Captured.of(np.array(value, dtypes[attribute.name.removesuffix("s")])).array()
        return values[name]

    def _body(self, title: str, graph: onnx.GraphProto, arguments: Sequence[Any], values: Mapping[str, Array]) -> Body:
        """Return one run of a body. Its inputs are `arguments` and the outer values that are not constants."""
        proto = self._empty_model()
        outer_names = list(dict.fromkeys(free_names(graph)))
        arrays = {value.name: np.asarray(array) for value, array in zip(graph.input, arguments, strict=True)}
        arrays |= {name: values[name] for name in outer_names if name in values}
        self._add_constants(proto.graph, outer_names)
        proto.graph.node.extend(graph.node)
        proto.graph.initializer.extend(graph.initializer)
        proto.graph.value_info.extend(graph.value_info)
        proto.graph.output.extend(graph.output)
        proto.graph.input.extend(self._make_infos(arrays, has_fixed_shapes=True))
        return Body(title, OnnxGraph(proto, data_folder=self.data_folder), arrays)

    def find_defects(self, nodes: Collection[GraphNode], shapes: InputShapes, engine: str) -> list[Defect]:
        """Return the defects that `check` finds at nodes: those of the engine and of invalid nodes; see `Graph`."""
        # The engine also runs OpenVINO's converter or onnxruntime's optimizer, whose defects have engine names of their
        # own.
        engines = (engine, "openvino-onnx") if engine.startswith("openvino") else (engine, f"{engine}-optimized")
        key = (engines, tuple((name, tuple(shape)) for name, shape in shapes.items()))
        if key not in self._findings:  # a search asks for several parts
            self._findings[key] = self._check(shapes, engines)
        names = {name for node in nodes for name in node.written_names}
        return list(dict.fromkeys(each.defect for each in self._findings[key] if each.node in names))

    def _check(self, shapes: Mapping[str, Sequence[int]], engines: Sequence[str]) -> list[NodeFinding]:
        """Return the findings about invalid nodes and defects of engines in the whole model."""
        findings = [*check(self.proto, shapes).nodes]
        converters, _ = find_converters("model.onnx", engines.__contains__)
        if converters:  # the engine reads another format, which checks files
            # A model that the engine cannot convert has no defects that can be found.
            with TemporaryDirectory(prefix="sliceport-") as folder, suppress(ModelError, MissingExtra):
                file = Path(folder, "model.onnx")
                file.write_bytes(to_bytes(self.whole().load(), "the model to check"))
                findings += [each for other in converters for each in other.check(file, {}).nodes]
        return [each for each in findings if each.kind == "invalid" or set(engines) & set(each.defect.engines)]

    def write(self, model: WholeModel, inputs: Mapping[str, Array], outputs: Mapping[str, Value], folder: Path) -> str:
        """Write a model and its data in the layout of onnx's backend tests, and return a script; see `Graph`."""
        proto = model.load()
        # An output that declares no type gets the type of its array.
        for value in proto.graph.output:
            array = outputs.get(value.name)
            if isinstance(array, np.ndarray) and not value.type.HasField("tensor_type"):
                value.type.CopyFrom(self._make_value_type(value.name, array, has_fixed_shapes=True))
        (folder / "model.onnx").write_bytes(to_bytes(proto, "the reduced model"))
        data = folder / "test_data_set_0"
        data.mkdir()
        for kind, names, values in (("input", model.inputs, inputs), ("output", model.outputs, outputs)):
            for i, name in enumerate(names):
                value = values.get(name)
                if isinstance(value, np.ndarray):  # sequences, and outputs without a value, get no file
                    (data / f"{kind}_{i}.pb").write_bytes(to_bytes(to_tensor(name, value), f"{kind} {name!r}"))
        # The script compares either all outputs or none.
        is_complete = all(isinstance(outputs.get(name), np.ndarray) for name in model.outputs)
        return _SCRIPT.format(inputs=list(model.inputs), outputs=list(model.outputs) if is_complete else [])

    def write_cuts(self, models: Iterable[WholeModel], folder: Path) -> list[str]:
        """Write models to numbered files, and external or large initializers to a `weights.bin`; see `Graph`."""
        names: list[str] = []
        offsets: dict[bytes | str, int] = {}
        with open(folder / _WEIGHTS, "wb") as file:
            for model in models:
                proto = onnx.ModelProto.FromString(model.data)
                for tensor in proto.graph.initializer:
                    weight = Tensor(tensor, model.data_folder)
                    if not weight.is_external and len(tensor.raw_data) < _LARGE_BYTES:
                        continue
                    # Equal keys share bytes. The key of an external weight is its position, because hashing takes long.
                    key = str(tensor.external_data) if weight.is_external else hashlib.sha256(tensor.raw_data).digest()
                    if key not in offsets:
                        offsets[key] = file.seek(-(-file.tell() // _ALIGNMENT) * _ALIGNMENT)  # rounded up
                        file.write(weight.tobytes())
                    tensor.raw_data = b""  # `set_external_data` refuses a tensor without this field.
                    onnx.external_data_helper.set_external_data(tensor, _WEIGHTS, offsets[key], weight.nbytes)
                    tensor.ClearField("raw_data")
                names.append(f"{len(names):02}.onnx")
                (folder / names[-1]).write_bytes(to_bytes(proto, names[-1]))
        if not offsets:
            (folder / _WEIGHTS).unlink()
        return names

    def anonymised(self, mode: str, seed: int, /) -> OnnxGraph:
        """Return the same graph with other names, and with random weights if `mode` is "weights"; see `Graph`."""
        from onnx_ops.running.anonymise import anonymise

        proto = anonymise(self.proto, seed, data_folder=self.data_folder, has_random_weights=mode == "weights")
        return OnnxGraph(proto, data_folder=self.data_folder)


def _is_constant(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and node.domain in STANDARD_DOMAINS


def to_tensor(name: str, array: Array) -> onnx.TensorProto:
    """Return an array as a TensorProto. Surrogates in strings become the bytes that they stand for."""
    if array.dtype.kind in "OU":
        return onnx.TensorProto(name=name, data_type=STRING, dims=array.shape, string_data=encode_strings(array))
    packed = Captured.of(array)
    return onnx.TensorProto(name=name, data_type=packed.element, dims=packed.shape, raw_data=packed.data.tobytes())


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of the values that a node and its bodies read from outside. A name may occur several times."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in graphs_of(attribute):
            yield from free_names(graph)


def free_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of the outer values that a body reads. A name may occur several times."""
    inside = {name for node in graph.node for name in node.output}
    inside |= {value.name for value in (*graph.input, *graph.initializer)}
    for node in graph.node:
        yield from (name for name in reads(node) if name not in inside)
    yield from (value.name for value in graph.output if value.name not in inside)
