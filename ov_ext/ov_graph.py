"""An OpenVINO model as a graph that `diff` cuts into smaller models."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino as ov

from ov_ext.checking import check
from ov_ext.files import read_bytes
from ov_ext.openvino_lock import with_openvino_lock
from ov_ext.read import name_of
from ov_ext.static_values import as_constant
from ov_ext.tensors import numpy_type
from sliceport.defects.defect import Defect
from sliceport.diffing.graph import Body, GraphNode, Runner
from sliceport.engines.engine import Value, WholeModel
from sliceport.errors import UsageError
from sliceport.formats import InputShapes
from sliceport.wording import example_shapes

Array = npt.NDArray[Any]

_MOVES = frozenset(
    {
        "BatchToSpace", "Broadcast", "Concat", "DepthToSpace", "Gather", "GatherElements", "GatherND", "Pad", "Reshape",
        "Reverse", "ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate", "Select", "ShapeOf", "Slice",
        "SpaceToBatch", "SpaceToDepth", "Split", "Squeeze", "StridedSlice", "Tile", "Transpose", "Unsqueeze",
        "VariadicSplit",
    }
)  # fmt: skip
_BOUNDS = ((0, 100), (1, 100), (0, 2), (0, 1))
"""Bounds of random integers by attempt."""
_SCRIPT = """\
import numpy as np

path = "model.xml"
inputs = {{name: np.load(f"input_{{i}}.npy") for i, name in enumerate({inputs!r})}}
expected = [np.load(f"output_{{i}}.npy") for i in range({count})]
"""


class OpenVINOGraph:
    """The main graph of an OpenVINO model."""

    format = "openvino"

    def __init__(self, model: ov.Model) -> None:
        self._model = model
        self._numbers: list[int] = []
        nodes: list[GraphNode] = []
        self._places: dict[str, tuple[int, int]] = {}
        names: dict[tuple[str, int], str] = {}
        for number, node in enumerate(model.get_ordered_ops()):
            kind = node.get_type_name()
            if kind in ("Constant", "Result"):
                continue
            for output in node.outputs():
                key = (node.get_friendly_name(), output.get_index())
                name = name_of(output)
                names[key] = f"{node.get_friendly_name()}:{key[1]}" if name in self._places else name
                self._places[names[key]] = (number, key[1])
            if kind != "Parameter":
                self._numbers.append(number)
                nodes.append(self._describe(node, names))
        self.nodes: Sequence[GraphNode] = nodes
        self.inputs: Sequence[str] = [name_of(value) for value in model.inputs]
        sources = [result.input_value(0) for result in model.get_results()]
        keys = [(source.get_node().get_friendly_name(), source.get_index()) for source in sources]
        self.outputs: Sequence[str] = list(dict.fromkeys(names[key] for key in keys if key in names))

    def _describe(self, node: ov.Node, names: Mapping[tuple[str, int], str]) -> GraphNode:
        kind = node.get_type_name()
        sources = [value.get_source_output() for value in node.inputs()]
        keys = [(source.get_node().get_friendly_name(), source.get_index()) for source in sources]
        outputs = [names[node.get_friendly_name(), output.get_index()] for output in node.outputs()]
        return GraphNode(
            node.get_friendly_name(),
            kind,
            tuple(dict.fromkeys(names[key] for key in keys if key in names)),
            tuple(outputs),
            moves=kind in _MOVES,
            is_shape=kind == "ShapeOf",
            constants=tuple(dict.fromkeys(key[0] for key in keys if key not in names)),
        )

    def whole(self) -> WholeModel:
        """Return the whole model; see `Graph`."""
        return _serialize(self._model, self.inputs, self.outputs)

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
        """Return a model of some nodes; see `Graph`."""
        clone = self._model.clone()
        ops = clone.get_ordered_ops()
        results = [ops[number].output(index) for number, index in map(self._places.__getitem__, outputs)]
        parameters = []
        for name, array in {**inputs, **constants}.items():
            number, index = self._places[name]
            source = ops[number].output(index)
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
        return _serialize(ov.Model(results, parameters, "cut"), tuple(inputs), tuple(outputs))

    def make_inputs(
        self, inputs: Mapping[str, Array], shapes: InputShapes, seed: int, attempt: int
    ) -> dict[str, Array]:
        """Return the given arrays, and random ones for the other inputs; see `Graph`."""
        random = np.random.default_rng(seed)
        unknown = {*inputs, *shapes} - {name for value in self._model.inputs for name in (name_of(value), *value.names)}
        if unknown:
            raise UsageError(f"the model has no input {min(unknown)!r}; its inputs are {', '.join(self.inputs)}.")
        return {
            name: inputs[name] if name in inputs else _random_array(value, name, shapes, random, _BOUNDS[attempt])
            for value, name in zip(self._model.inputs, self.inputs, strict=True)
        }

    def read_recorded(self, folder: Path) -> list[tuple[dict[str, Array], dict[str, Value]]]:
        """Refuse: recorded outputs are for ONNX models."""
        raise UsageError(f"'{folder}' cannot be compared with: recorded outputs are for ONNX models.")

    def bodies(self, node: int, values: Mapping[str, Array], run: Runner) -> Iterator[Body]:  # noqa: ARG002
        """Yield nothing: bodies of OpenVINO's models are not entered; see `Graph`."""
        yield from ()

    def find_defects(self, model: WholeModel, engine: str) -> list[Defect]:
        """Return the entries that `check` finds for the engine; see `Graph`."""
        findings = check(read_bytes(model.data, model.weights), {}).nodes
        return list(dict.fromkeys(finding.defect for finding in findings if engine in finding.defect.engines))

    def write(self, model: WholeModel, inputs: Mapping[str, Array], outputs: Mapping[str, Value], folder: Path) -> str:
        """Write an IR file and the data as .npy; see `Graph`."""
        (folder / "model.xml").write_bytes(model.data)
        (folder / "model.bin").write_bytes(model.weights)
        for kind, names, values in (("input", model.inputs, inputs), ("output", model.outputs, outputs)):
            for i, name in enumerate(names):
                value = values.get(name)
                if isinstance(value, np.ndarray):
                    np.save(folder / f"{kind}_{i}.npy", value)
        return _SCRIPT.format(inputs=list(model.inputs), count=len(model.outputs))


def _random_array(
    value: ov.Output, name: str, shapes: InputShapes, random: np.random.Generator, bounds: tuple[int, int]
) -> Array:
    partial, dtype = value.get_partial_shape(), numpy_type(value.get_element_type())
    if name not in shapes and not partial.is_static:
        dims = [dim.get_length() if dim.is_static else None for dim in partial] if partial.rank.is_static else None
        raise UsageError(f"the shape of input {name!r} is open: give sizes, as in {example_shapes({name: dims})}.")
    shape = tuple(shapes.get(name, partial.to_shape() if partial.is_static else ()))
    if dtype is None:
        raise UsageError(f"input {name!r} has elements of type {value.get_element_type()}: give an array.")
    if dtype.kind == "O":
        return random.integers(0, 1000, shape).astype(str).astype(object)
    if dtype.kind in "iu":
        return random.integers(*bounds, shape).astype(dtype)
    return (random.integers(0, 2, shape) if dtype.kind == "b" else random.standard_normal(shape)).astype(dtype)


def _serialize(model: ov.Model, inputs: Sequence[str], outputs: Sequence[str]) -> WholeModel:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.xml")
        ov.save_model(model, path, compress_to_fp16=False)
        weights = path.with_suffix(".bin").read_bytes()
        return WholeModel("openvino", path.read_bytes(), tuple(inputs), tuple(outputs), weights)
