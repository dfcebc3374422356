"""Comparison of the engines on the slicing nodes of an OpenVINO model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import openvino as ov

from ov_ext.model.files import read_with_shapes
from ov_ext.model.openvino_lock import with_openvino_lock
from ov_ext.model.read import input_dims, read_slicing_nodes, slicing_nodes
from ov_ext.running import OUR_ENGINE
from ov_ext.running.one_node import OneNode
from ov_ext.running.run_model import evaluate
from sliceport.defects.engines import OPENVINO
from sliceport.directml.elements import ELEMENT_BITS
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.directml.layouts import Options
from sliceport.directml.lower import lower_nodes
from sliceport.directml.lowered import LoweredNode
from sliceport.engines.comparison import (
    Comparison,
    ReferenceRun,
    Report,
    add_defects,
    compare_node,
    reproducing_command,
    takes_part,
)
from sliceport.engines.engine import Engine, TensorBytes
from sliceport.engines.inputs import announce_sizes
from sliceport.engines.registry import engines_for_nodes
from sliceport.engines.sizes import InputShapes, sizes_to_try
from sliceport.errors import ModelError, UsageError
from sliceport.formats import choose_engines, formats
from sliceport.slicing import SplitSpec


@with_openvino_lock
def compare(
    model: Any,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    executors: Sequence[str] | None = None,
    feature_level: str | FeatureLevel = LATEST,
    seed: int = 0,
) -> Report:
    """Run each slicing node of a model alone, on random data, by several executors and compare bit for bit.

    Model.evaluate computes the expected outputs. If Model.evaluate fails, or a known defect makes it wrong for a node,
    all engines and Model.evaluate are compared with the specification instead. An engine does not run a node if a known
    defect would end the engine's process. If known defects explain a difference, the comparison names them.

    The arguments are those of `sliceport.compare`. The engine `openvino` always takes part. By default, the engines of
    the format and all validators that are ready take part.

    Raises:
        UsageError: `model` is not a model, or an option is not valid; see also `ov_ext.backend`.
    """
    engines = choose_engines(executors, formats()["openvino"])
    prepared, shapes = _read_with_sizes(model, input_shapes or {})
    program = lower_nodes(read_slicing_nodes(prepared), Options.of(feature_level=feature_level))
    comparisons: list[Comparison] = []
    for lowered, (_, node_in_model) in zip(program.nodes, slicing_nodes(prepared), strict=True):
        if lowered.reason is not None:
            comparisons.append(Comparison(lowered, "", "refused", lowered.reason.message))
        elif lowered.verdict == "folded":
            comparisons.append(Comparison(lowered, "", "folded"))
        else:
            node_engines = [engine for engine in engines if takes_part(engine, lowered)]
            comparisons += _compare_node(lowered, OneNode(lowered.resolved, node_in_model), node_engines, seed)
    names = None if executors is None else (OPENVINO, *(engine.name for engine in engines))
    command = reproducing_command(model, shapes, program.feature_level, seed, names)
    return Report(tuple(comparisons), program, f"{OPENVINO} {ov.__version__}", command)


def _read_with_sizes(model: Any, shapes: InputShapes) -> tuple[ov.Model, InputShapes]:
    """Read a model with these shapes, and with chosen sizes that fit it for other open inputs. Return it with both."""
    prepared = read_with_shapes(model, shapes)
    for sizes in sizes_to_try(input_dims(prepared), {}):
        if sizes.chosen:
            with suppress(UsageError, ModelError):  # OpenVINO infers all shapes, and some sizes do not fit
                prepared = read_with_shapes(model, {**shapes, **sizes.chosen})
                announce_sizes(sizes.chosen)
                return prepared, {**shapes, **sizes.chosen}
    return prepared, shapes


def _compare_node(
    lowered: LoweredNode, one_node: OneNode, engines: Sequence[Engine], seed: int
) -> Iterator[Comparison]:
    """Yield the comparison of each engine on one node, or a single refusal or error if the node cannot be compared."""
    node = lowered.resolved
    if isinstance(node.spec, SplitSpec):
        engines = [engine for engine in engines if engine.name != OUR_ENGINE]  # ov_ext has no Split.
    if node.element not in ELEMENT_BITS:
        yield Comparison(lowered, "", "refused", f"{node.label}: elements of type {node.element} are not compared.")
        return
    try:
        data = one_node.random_data(seed)
    except ModelError as error:
        yield Comparison(lowered, OPENVINO, "error", f"{node.label}: {error}", alone=True)
        return
    reference, outputs = OPENVINO, None
    if not one_node.defects_on(OPENVINO):
        with suppress(ModelError):  # Model.evaluate runs again below, as an engine, and its error is reported there.
            outputs = one_node.run(OPENVINO, evaluate, data)
    if outputs is None:  # Model.evaluate becomes one of the compared engines.
        reference, outputs = "the specification", one_node.select(data)
        engines = [engines_for_nodes("openvino")[OPENVINO], *engines]
    values = {node.input: TensorBytes(data, node.cuts[0].region.input_shape)}
    for cut, output in zip(node.cuts, outputs, strict=True):
        values[cut.output] = TensorBytes(output, cut.region.output_shape)
    run = ReferenceRun(reference, values, alone=True)
    for engine in engines:
        comparison = compare_node(lowered, engine, run, one_node)
        if comparison.status == "mismatch":  # An error already names its defect.
            comparison = add_defects(comparison, engine.name, one_node.defects_on(engine.name))
        yield comparison
