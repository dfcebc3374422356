"""An OpenVINO model run node by node, so that no graph pass sees two nodes at once."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

import openvino as ov

from ov_ext.defects.conditions import find_split_defects
from ov_ext.running.ov_graph import key_of, serialize
from ov_ext.running.run_model import Compute, evaluate, infer, run_model
from ov_ext.running.verify import replace_miscomputed
from sliceport.engines.engine import Array, Value, WholeModel
from sliceport.errors import ModelError
from sliceport.sandbox import supervisor
from sliceport.sandbox.child_process import ChildCrashed

_fatal = {""}
"""The types of the nodes at which Model.evaluate ended a child of this process. The CPU plugin computes such nodes."""
_computed: dict[bytes, list[ov.Tensor]] = {}
"""The outputs of nodes that the CPU plugin computed in this process, by a hash of the node and its inputs.

A search runs the same nodes many times, and compiling a node takes about 40 ms.
"""


def evaluate_nodes(whole: WholeModel, inputs: Mapping[str, Array]) -> dict[str, Value]:
    """Run a model, each node alone: by Model.evaluate or, if that fails or crashes, on the CPU plugin in f32.

    Operators of ov_ext compute slicing nodes with known defects. Model.evaluate runs in a child process. After a crash,
    the model runs again, and the plugin computes the nodes of the type at which the process ended.

    Raises:
        ChildCrashed: The CPU plugin ends the child process.
    """
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder, "type")
        while True:
            note.write_text("")
            try:
                outputs: dict[str, Value] = supervisor.call(_evaluate_nodes, whole, inputs, _fatal, note)
                return outputs
            except ChildCrashed:
                if note.read_text() in _fatal:
                    raise
                _fatal.add(note.read_text())


def _evaluate_nodes(
    whole: WholeModel, inputs: Mapping[str, Array], fatal: Collection[str], note: Path
) -> dict[str, Value]:
    """Do as `evaluate_nodes`, but in this process. Write the type of each node to the file `note` before it runs."""

    def compute(node: ov.Model, tensors: list[ov.Tensor]) -> list[ov.Tensor]:
        operator = node.get_results()[0].input_value(0).get_node()
        kind = operator.get_type_name()
        note.write_text(kind)
        if kind not in fatal and not ("Split" in kind and list(find_split_defects(operator, ()))):
            try:
                return evaluate(node, tensors)
            except (ModelError, RuntimeError):  # Model.evaluate lacks the operator or an element type
                pass
        return _infer_once(node, tensors)

    return run_model(whole, inputs, lambda model, tensors: compute_nodes(replace_miscomputed(model), tensors, compute))


def _infer_once(node: ov.Model, tensors: list[ov.Tensor]) -> list[ov.Tensor]:
    """Return the outputs of a node on the CPU plugin in f32, from `_computed` if it ran before on equal inputs."""
    for i, result in enumerate(node.get_results()):  # the names that OpenVINO gives are not the same in each run
        result.set_friendly_name(f"result {i}")
    model = serialize(node, (), ())
    parts = (model.data, model.weights, *(tensor.data.tobytes() for tensor in tensors))
    key = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
    if key not in _computed:
        _computed[key] = infer(node, tensors, {"precision": "f32"})
    return _computed[key]


def compute_nodes(model: ov.Model, tensors: list[ov.Tensor], compute: Compute) -> list[ov.Tensor]:
    """Return the outputs of a model. `compute` computes each of its nodes in a model of its own.

    The inputs of a node have the sizes of their values. If they were open, Model.evaluate would write beyond the
    outputs of operators that do not set their sizes, such as MVN. Values that depend on no elements of inputs become
    constants, because engines infer shapes from them. The given model is taken apart.
    """
    values = dict(zip(map(key_of, model.inputs), tensors, strict=True))
    static: set[tuple[str, int]] = set()
    for node in model.get_ordered_ops():
        kind = node.get_type_name()
        if kind == "Constant":
            values[key_of(node.output(0))] = node.get_tensor_view()
        if kind in ("Constant", "Parameter", "Result"):
            continue
        parameters, arguments = [], []
        for i, port in enumerate(node.inputs()):
            source = port.get_source_output()
            if source.get_node().get_type_name() == "Constant":
                continue
            tensor = values[key_of(source)]
            if key_of(source) in static:
                replacement = ov.op.Constant(tensor)
            else:
                replacement = ov.op.Parameter(tensor.element_type, ov.PartialShape(list(tensor.shape)))
                parameters.append(replacement)
                arguments.append(tensor)
            replacement.set_friendly_name(f"input {i}")
            port.replace_source_output(replacement.output(0))
        node.validate_and_infer_types()
        results = compute(ov.Model(node.outputs(), parameters, "node"), arguments)
        values |= zip(map(key_of, node.outputs()), results, strict=True)
        if kind == "ShapeOf" or not parameters:
            static.update(map(key_of, node.outputs()))
    return [values[key_of(result.input_value(0))] for result in model.get_results()]
