"""The engines and comparisons of sliceport in Polygraphy, for its `Comparator`."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from polygraphy.backend.base import BaseRunner
from polygraphy.common import TensorMetadata
from polygraphy.logger import G_LOGGER
from polygraphy.util import array

from sliceport.engines.side import read_side
from sliceport.formats import declared_shapes
from sliceport.search.graph import only_moves
from sliceport.search.setup import open_graph
from sliceport.verdict.difference import EXACT, Tolerance, Tolerances, compare_outputs


class EngineRunner(BaseRunner):
    """A runner of a model on an engine of sliceport, in a process of its own, so that a crash is an error.

    Args:
        model: A file's path, or an object that `sliceport.diff` accepts.
        engine: The engine with its options, as in `onnxruntime-dml` or `openvino-cpu:precision=f32`.
        name: The name of the runner; by default `engine`.
    """

    def __init__(self, model: Any, engine: str, name: str | None = None) -> None:
        super().__init__(name=name or engine)
        self._model, self._engine = model, engine

    def activate_impl(self) -> None:
        """Read the model and find the engine."""
        self._graph = open_graph(self._model)
        self._side = read_side(self._engine, self._graph.format, "engine")
        self._whole = self._graph.whole()

    def deactivate_impl(self) -> None:
        """Drop the model."""
        del self._graph, self._side, self._whole

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Return the types and shapes of the inputs, with None for an open size."""
        shapes = {
            name: None if dims is None else [dim if isinstance(dim, int) else None for dim in dims]
            for name, dims in declared_shapes(self._model).items()
        }
        # Only the arrays of `make_inputs` show the types of inputs. In these arrays, each open size is 1.
        sizes = {name: tuple(1 if dim is None else dim for dim in dims or ()) for name, dims in shapes.items()}
        metadata = TensorMetadata()
        for name, value in self._graph.make_inputs({}, sizes, seed=0, attempt=0).items():
            metadata.add(name, dtype=value.dtype, shape=shapes.get(name))
        return metadata

    def infer_impl(self, feed_dict: Mapping[str, Any]) -> OrderedDict[str, Any]:
        """Run the engine and return the outputs by name.

        Raises:
            RunFailed, MemoryError, MissingExtra, UsageError, ChildLost: The run fails; `Side.run` lists the causes.
        """
        # Not `ascontiguousarray`, which makes a vector of a scalar.
        inputs = {name: np.asarray(array.to_numpy(value), order="C") for name, value in feed_dict.items()}
        started = time.perf_counter()
        outputs = self._side.run(self._whole, inputs)
        self.inference_time = time.perf_counter() - started
        return OrderedDict(outputs)


class CompareOutputs:
    """A `compare_func` for `Comparator.compare_accuracy` that judges outputs as `sliceport diff` does.

    The second runner computes the expected outputs. Types and shapes must be equal, and NaN and infinities must be at
    the same places.

    Args:
        model: The model of the runners. An output whose elements the model only moves must be equal bit for bit. If
            None, `tolerance` is for all outputs.
        tolerance: The accepted difference of computed outputs; None for the default of each type.
    """

    def __init__(self, model: Any = None, tolerance: Tolerance | None = None) -> None:
        self._tolerance, self._moved = tolerance, set[str]()
        if model is not None:
            graph = open_graph(model)
            self._moved |= {name for name in graph.outputs if only_moves(graph, range(len(graph.nodes)), name)}

    def __call__(self, iter_result0: Mapping[str, Any], iter_result1: Mapping[str, Any]) -> OrderedDict[str, bool]:
        """Return by name whether each output is right, and log an error for each wrong output."""
        # Polygraphy passes the outputs of two runners. The second runner computes the expected outputs.
        actual, expected = (
            {name: np.asarray(array.to_numpy(value)) for name, value in result.items()}
            for result in (iter_result0, iter_result1)
        )
        tolerances = Tolerances({"": self._tolerance, **dict.fromkeys(self._moved, EXACT)})
        differences = compare_outputs(actual, expected, tolerances.of_output)
        for difference in differences:
            if difference.status == "different":
                G_LOGGER.error(f"output {difference.name!r}: {difference.detail}")
        return OrderedDict((difference.name, difference.status != "different") for difference in differences)
