"""Verification of a model that was hardened for OpenVINO, on the CPU plugin and by Model.evaluate."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino as ov

from ov_ext.defects.conditions import BuiltInNode, find_defects
from ov_ext.model.openvino_lock import with_openvino_lock
from ov_ext.model.passes import BUILT_IN, kind_of, replace_nodes
from ov_ext.running.ov_graph import OpenVINOGraph
from sliceport.arguments import read_shapes
from sliceport.defects.engines import OPENVINO, OPENVINO_CPU
from sliceport.engines.engine import Value
from sliceport.engines.registry import model_engines
from sliceport.engines.side import Side, read_side
from sliceport.engines.sizes import InputShapes
from sliceport.errors import InvalidSlice
from sliceport.formats import format_of
from sliceport.search.diff import name_deciding_node
from sliceport.search.graph import find_static_values, only_moves
from sliceport.search.setup import match_names, open_graph
from sliceport.verdict.difference import Tolerance, tolerance_of
from sliceport.verdict.verification import Trial, Verification, Verifier
from sliceport.wording import format_findings

Array = npt.NDArray[Any]
EQUAL = "all outputs are equal: bit for bit if their elements are only moved, else within the tolerance of their type"


def verify_hardening(
    before: Any,
    after: ov.Model,
    *,
    input_shapes: InputShapes | None = None,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
) -> Verification:
    """Compare a model before and after hardening, with several seeds and several sizes of open axes.

    The hardened model runs on the CPU plugin, in f32, and by Model.evaluate. The original model runs on the default
    engine of `diff --against`, which computes nodes with defects right.

    Outputs whose elements are only moved must be equal bit for bit, all others within the tolerance of their type. The
    outputs by Model.evaluate must all be equal bit for bit if Model.evaluate also computes the nodes of the original.

    Args:
        before: The original model: a file's path, or an `openvino.Model`.
        after: The hardened model.
        input_shapes: Sizes for inputs whose shape is open, by name.
        inputs: Arrays for inputs by name. The other inputs get random arrays.
        seed: The first seed of the random inputs.

    Raises:
        UsageError: An array or a shape does not fit the model; see also `ov_ext.backend`.
        ModelError: The original model cannot be read, or the reference does not run it.
        NotVerified: Both engines fail on both models, an output cannot be compared, or the original model does not
            compute the same twice.
    """
    engines = model_engines()
    plugin, evaluate = Side(engines[OPENVINO_CPU], {"precision": "f32"}), Side(engines[OPENVINO], {})
    format_ = format_of(before)
    original = open_graph(before)
    reference = read_side(original.default_against, format_.name, "")
    graph_after = OpenVINOGraph(after)
    arrays = dict(inputs or {})
    shapes = read_shapes(arrays, input_shapes)
    moved = frozenset(name for name in original.outputs if only_moves(original, range(len(original.nodes)), name))
    names = match_names(original, graph_after)
    verifier = Verifier(original, graph_after, reference, names, fixed=find_static_values(original))
    runs = verifier.make_runs(shapes, arrays, seed)
    exactness = None if reference.engine is evaluate.engine else _tolerance_as_f32
    trials = (
        Trial(f"on {plugin}", plugin, _tolerance_as_f32, moved, is_target=True),
        Trial("by Model.evaluate", evaluate, exactness, moved, is_plain=True),
    )
    result = replace(verifier.compare(runs, trials), equality=EQUAL)
    result = name_deciding_node(result, original, graph_after, reference)
    # Engines read no node of an OpenVINO model differently, so only models of other formats have contested nodes.
    if format_.name == "openvino" or (result.is_equal and not verifier.noted):
        return result
    contested = [node for node in format_.check(before, input_shapes or {}).nodes if node.defect.is_contested]
    notes = format_findings(
        (node.op, node.node, f"a contested reading: {node.defect.reason}; {node.defect.workaround}")
        for node in contested
    )
    return replace(result, notes=(*result.notes, *notes))


def _tolerance_as_f32(value: Value, _: Value) -> Tolerance:
    """Return the tolerance of a value. For f64, use the tolerance of f32, in which the CPU plugin may have computed."""
    is_wide = isinstance(value, np.ndarray) and value.dtype == np.float64
    return tolerance_of(np.zeros(0, np.float32) if is_wide else value)


@with_openvino_lock
def replace_miscomputed(model: ov.Model) -> ov.Model:
    """Put operators of ov_ext in place of the nodes that OpenVINO computes wrongly, and return the model."""

    def replacement_of(node: ov.Node) -> ov.Node | None:
        with suppress(InvalidSlice):  # A node that breaks its rules stays, and the engine refuses it.
            if kind_of(node) in BUILT_IN and find_defects(view := BuiltInNode(node)):
                return view.custom_node
        return None

    replace_nodes(model, replacement_of)
    return model
