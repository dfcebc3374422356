"""An OpenVINO model as a graph that `diff` cuts into smaller models."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino as ov
from openvino.op.util import MergedInputDescription, SliceInputDescription

from ov_ext.defects.checking import check
from ov_ext.model.files import read_model_bytes
from ov_ext.model.openvino_lock import with_openvino_lock
from ov_ext.model.read import dims_of, name_of
from ov_ext.model.tensors import numpy_type, to_array
from ov_ext.operators.static_values import as_constant
from sliceport.arguments import load_array
from sliceport.defects.defect import Defect
from sliceport.engines.engine import Value, WholeModel
from sliceport.engines.inputs import DeclaredInput, make_inputs
from sliceport.engines.sizes import DeclaredShapes, InputShapes
from sliceport.errors import UsageError
from sliceport.search.graph import Body, GraphNode, Runner

Array = npt.NDArray[Any]

_MOVES = frozenset(
    {
        "BatchToSpace", "Broadcast", "Concat", "DepthToSpace", "Gather", "GatherElements", "GatherND", "Pad", "Reshape",
        "Reverse", "ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate", "Select", "ShapeOf", "Slice",
        "SpaceToBatch", "SpaceToDepth", "Split", "Squeeze", "StridedSlice", "Tile", "Transpose", "Unsqueeze",
        "VariadicSplit",
    }
)  # fmt: skip
"""Operators that move or drop elements without computing on them, so that their results must be equal bit for bit."""
_MAX_ITERATIONS = 100
"""Limit for the iterations of a Loop or TensorIterator that are compared, each as a model of its own."""
_SCRIPT = """\
import numpy as np

path = "model.xml"
inputs = {{name: np.load(f"input_{{i}}.npy") for i, name in enumerate({inputs!r})}}
expected = {{name: np.load(f"output_{{i}}.npy") for i, name in enumerate({outputs!r})}}
"""


class OpenVINOGraph:
    """The main graph of an OpenVINO model, or a body of control flow.

    Attributes:
        parameters: The inputs of the OpenVINO model.
        results: The name of the value of each Result. A value with several Results occurs only once in `outputs`.
        declared_shapes: The declared shapes of `inputs`.
    """

    format = "openvino"
    default_against, example_engine = "openvino:nodes", "openvino-cpu"

    def __init__(self, model: ov.Model) -> None:
        self._model = model
        # Maps the name of a value to the position of its node in `get_ordered_ops()` and the index of the output.
        self._outputs_by_name: dict[str, tuple[int, int]] = {}
        # Maps the `key_of` of a value to its name. A Constant has a name only if a Result reads it.
        self._names: dict[tuple[str, int], str] = {}
        result_keys = [key_of(result.input_value(0)) for result in model.get_results()]
        ops = model.get_ordered_ops()
        for position, node in enumerate(ops):
            kind = node.get_type_name()
            for index, output in enumerate(node.outputs()):
                key = key_of(output)
                if kind != "Result" and (kind != "Constant" or key in result_keys):
                    node_name = node.get_friendly_name()  # may be the name of other nodes, too
                    choices = (name_of(output), f"{node_name}:{index}", f"{node_name}:{position}:{index}")
                    self._names[key] = next(name for name in choices if name not in self._outputs_by_name)
                    self._outputs_by_name[self._names[key]] = (position, index)
        self._ops = [op for op in ops if op.get_type_name() not in ("Constant", "Parameter", "Result")]
        self.nodes: Sequence[GraphNode] = list(map(self._describe, self._ops))
        self.parameters = model.inputs
        self.inputs: Sequence[str] = [self._names[key_of(value)] for value in self.parameters]
        self.results = [self._names[key] for key in result_keys]
        self.outputs: Sequence[str] = list(dict.fromkeys(self.results))
        self.declared_shapes: DeclaredShapes = dict(zip(self.inputs, map(dims_of, model.inputs), strict=True))

    def _describe(self, node: ov.Node) -> GraphNode:
        """Describe a node for `diff`, with the names of the values that the node reads and writes."""
        kind = node.get_type_name()
        sources = [value.get_source_output() for value in node.inputs()]
        constants = [value.get_node().get_friendly_name() for value in sources if _is_constant(value)]
        return GraphNode(
            node.get_friendly_name(),
            kind,
            tuple(dict.fromkeys(self._names[key_of(value)] for value in sources if not _is_constant(value))),
            tuple(self._names[key_of(output)] for output in node.outputs()),
            moves=kind in _MOVES,
            is_shape=kind == "ShapeOf",
            is_random=kind in ("Multinomial", "RandomUniform"),
            constants=tuple(dict.fromkeys(constants)),
        )

    def whole(self) -> WholeModel:
        """Return the whole model, each output once; see `Graph`."""
        if len(self.outputs) < len(self.results):
            # This cut only drops repeated Results. It does not fix shapes, so it does not read the arrays.
            return self.cut((), self.outputs, dict.fromkeys(self.inputs, np.empty(0)), {})
        return serialize(self._model, self.inputs, self.outputs)

    @with_openvino_lock
    def cut(
        self,
        nodes: Collection[int],  # noqa: ARG002 - the inputs and outputs enclose them
        outputs: Sequence[str],
        inputs: Mapping[str, Array],
        constants: Mapping[str, Array],
        *,
        has_fixed_shapes: bool = False,
    ) -> WholeModel:
        """Return a model that computes `outputs` from `inputs` and `constants`; see `Graph`."""
        ops = self._model.clone().get_ordered_ops()  # in the same order as those of the model
        values = {name: ops[position].output(index) for name, (position, index) in self._outputs_by_name.items()}
        parameters = []
        for name, array in {**inputs, **constants}.items():
            source = values[name]
            if name in constants:
                replacement = as_constant(array)
            else:
                shape = ov.PartialShape(list(array.shape)) if has_fixed_shapes else source.get_partial_shape()
                replacement = ov.op.Parameter(source.get_element_type(), shape)
                parameters.append(replacement)
                replacement.output(0).set_names({name})
            replacement.set_friendly_name(name)
            for target in source.get_target_inputs():
                target.replace_source_output(replacement.output(0))
            values[name] = replacement.output(0)
        model = ov.Model([values[name] for name in outputs], parameters, "cut")
        # OpenVINO numbers Result nodes across the whole process. The bytes of a cut must not depend on these numbers.
        for i, result in enumerate(model.get_results()):
            result.set_friendly_name(f"result {i}")
        return serialize(model, tuple(inputs), tuple(outputs))

    def size_factors(self) -> Sequence[int]:
        """Return no divisors of sizes, because the usual sizes have many."""
        return ()

    def make_inputs(
        self, inputs: Mapping[str, Array], shapes: InputShapes, seed: int, attempt: int
    ) -> dict[str, Array]:
        """Return the given arrays, and random ones for the other inputs; see `Graph`."""
        declared = [
            DeclaredInput(name, numpy_type(value.get_element_type()), _dims_of(value.get_partial_shape()))
            for value, name in zip(self._model.inputs, self.inputs, strict=True)
        ]
        return make_inputs(declared, inputs, shapes, seed, attempt)

    def read_value(self, place: Path, name: str) -> Array:
        """Read the array of a value from a `.npy` file; see `Graph`."""
        array = load_array(place.with_suffix(".npy"))
        position, index = self._outputs_by_name[name]
        dtype = numpy_type(self._model.get_ordered_ops()[position].output(index).get_element_type())
        if array.dtype.kind == "U":  # strings
            return array.astype(object)
        # NumPy saves types that it lacks as raw bytes.
        return array.view(dtype) if array.dtype.kind == "V" and dtype is not None else array

    def bodies(self, node: int, values: Mapping[str, Array], run: Runner) -> Iterator[Body]:
        """Yield the runs of the bodies of an If, Loop or TensorIterator; see `Graph`."""
        op = self._ops[node]
        kind = op.get_type_name()
        if kind not in ("If", "Loop", "TensorIterator"):
            return
        arrays: list[Any] = [self._value_of(value.get_source_output(), values) for value in op.inputs()]
        if kind == "If":
            branch = 0 if arrays[0].item() else 1  # Input 0 is the condition, and body 0 the then branch.
            ports = op.get_input_descriptions(branch)
            arguments = {port.body_parameter_index: arrays[port.input_index] for port in ports}
            if all(array is not None for array in arguments.values()):  # None stands for a type that NumPy lacks.
                graph = OpenVINOGraph(op.get_function(branch).clone())  # the branch itself belongs to the If
                yield _make_body(("then_branch", "else_branch")[branch], graph, arguments)
        elif all(array is not None for array in arrays):
            yield from _run_iterations(op, arrays, run)

    def _value_of(self, output: ov.Output, values: Mapping[str, Array]) -> Array | None:
        """Return the array of an output, or None for a constant of a type that NumPy lacks."""
        if _is_constant(output):
            return to_array(output.get_node().get_tensor_view())
        return values[self._names[key_of(output)]]

    def find_defects(self, nodes: Collection[GraphNode], shapes: InputShapes, engine: str) -> list[Defect]:
        """Return the defects that `check` finds at nodes for one engine; see `Graph`."""
        names_of_nodes = {(node.op_type, node.name) for node in nodes}
        findings = [each for each in check(self._model, shapes).nodes if (each.op, each.node) in names_of_nodes]
        return list(dict.fromkeys(finding.defect for finding in findings if engine in finding.defect.engines))

    def write(self, model: WholeModel, inputs: Mapping[str, Array], outputs: Mapping[str, Value], folder: Path) -> str:
        """Write an IR file and `.npy` files of the data, and return lines of Python that load the data; see `Graph`."""
        (folder / "model.xml").write_bytes(model.data)
        (folder / "model.bin").write_bytes(model.weights)
        for kind, names, values in (("input", model.inputs, inputs), ("output", model.outputs, outputs)):
            for i, name in enumerate(names):
                value = values.get(name)
                if isinstance(value, np.ndarray):
                    np.save(folder / f"{kind}_{i}.npy", value.astype(str) if value.dtype == object else value)
        # Outputs of packed types have no arrays, and the script compares either all outputs or none.
        is_complete = all(isinstance(outputs.get(name), np.ndarray) for name in model.outputs)
        return _SCRIPT.format(inputs=list(model.inputs), outputs=list(model.outputs) if is_complete else [])

    def write_cuts(self, models: Iterable[WholeModel], folder: Path) -> list[str]:
        """Write models to numbered IR files, each with its weights, and return the names of the files; see `Graph`."""
        names: list[str] = []
        for model in models:
            names.append(f"{len(names):02}.xml")
            (folder / names[-1]).write_bytes(model.data)
            (folder / names[-1]).with_suffix(".bin").write_bytes(model.weights)
        return names

    def anonymised(self, *_: Any) -> OpenVINOGraph:
        """Raise UsageError, because IR models cannot be anonymised."""
        raise UsageError("models of the format openvino cannot be anonymised.")


def _is_constant(output: ov.Output) -> bool:
    return bool(output.get_node().get_type_name() == "Constant")


def key_of(output: ov.Output) -> tuple[str, int]:
    """Return a key for an output: the unique name of its node and its index. Friendly names may repeat.

    The output itself is not a key, because OpenVINO returns a new object for it each time.
    """
    return output.get_node().get_name(), output.get_index()


def _run_iterations(op: Any, arrays: Sequence[Any], run: Runner) -> Iterator[Body]:
    """Yield the iterations of a Loop or TensorIterator, at most `_MAX_ITERATIONS`.

    `run` computes each iteration, because its results are inputs of the next one.
    """
    ports = op.get_input_descriptions()
    arguments = {port.body_parameter_index: arrays[port.input_index] for port in ports}
    sliced = [port for port in ports if isinstance(port, SliceInputDescription)]
    parts = {port.body_parameter_index: _list_parts(arrays[port.input_index], port) for port in sliced}
    merged = [port for port in ports if isinstance(port, MergedInputDescription)]
    counts = list(map(len, parts.values()))
    graph = OpenVINOGraph(op.get_function().clone())
    # The indices of the body's parameter for the iteration's number, and of the body's result for the condition.
    counter, condition = -1, -1
    if op.get_type_name() == "Loop":
        counter, condition = op.get_special_body_ports()
        trip_count, is_entered = arrays[0].item(), arrays[1].item()
        counts.append(trip_count if is_entered else 0)
    # A Loop whose trip count is below 0 runs until its condition is false.
    for iteration in range(min([_MAX_ITERATIONS, *(count for count in counts if count >= 0)])):
        arguments |= {index: parts_of_input[iteration] for index, parts_of_input in parts.items()}
        if counter >= 0:  # -1 if the body does not read the number
            arguments[counter] = np.array(iteration)
        body = _make_body(f"iteration {iteration}", graph, arguments)
        yield body
        computed = run(graph.whole(), body.inputs)
        results: list[Any] = [computed.get(name) for name in graph.results]
        arguments |= {port.body_parameter_index: results[port.body_value_index] for port in merged}
        if condition >= 0 and not np.all(results[condition]):  # -1 if there is no condition
            return


def _make_body(title: str, graph: OpenVINOGraph, arguments: Mapping[int, Any]) -> Body:
    """Return one run of a body. `arguments` maps the index of each parameter to its array."""
    inputs = {}
    for i, (name, value) in enumerate(zip(graph.inputs, graph.parameters, strict=True)):
        declared = value.get_partial_shape()
        array = np.asarray(arguments[i])
        # The number of an iteration is a scalar here, but its parameter may be a list of one element.
        if declared.is_static and array.ndim != len(declared) and array.size == 1:
            array = array.reshape(tuple(declared.to_shape()))
        inputs[name] = array.astype(numpy_type(value.get_element_type()), copy=False)
    return Body(title, graph, inputs)


def _list_parts(array: Array, slices: SliceInputDescription) -> list[Array]:
    """Return the parts of an array for the first `_MAX_ITERATIONS` iterations. `start` and `end` are inclusive."""
    size = array.shape[slices.axis]
    start, end = (index if index >= 0 else size + index for index in (slices.start, slices.end))
    # OpenVINO counts the iterations by `part_size`, not by `stride`.
    count = min((abs(end - start) + 1) // slices.part_size, _MAX_ITERATIONS)
    first = start if slices.stride > 0 else start - (slices.part_size - 1)  # A backward part ends at `start`.
    indices = (first + i * slices.stride for i in range(count))
    return [np.take(array, range(index, index + slices.part_size), slices.axis) for index in indices]


def _dims_of(shape: ov.PartialShape) -> list[int | None] | None:
    """Return the sizes of a shape, with None for open ones; None if the rank is open."""
    return None if shape.rank.is_dynamic else [None if dim.is_dynamic else dim.get_length() for dim in shape]


class OpenVINOModel(WholeModel):
    """A model of the format `openvino`."""

    def load(self) -> ov.Model:
        """Return the model; for errors see `read_model_bytes`."""
        return read_model_bytes(self.data, self.weights)


def serialize(model: ov.Model, inputs: Sequence[str], outputs: Sequence[str]) -> OpenVINOModel:
    """Return the bytes of the IR files of a model, with the names of its inputs and outputs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.xml")
        ov.save_model(model, path, compress_to_fp16=False)
        weights = path.with_suffix(".bin").read_bytes()
        return OpenVINOModel("openvino", path.read_bytes(), tuple(inputs), tuple(outputs), weights)
