"""Writing the slicing of a model in the form that every engine takes, or that one engine takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain

import onnx_ir as ir

from onnx_ops.model.defaults import defaults_aside
from onnx_ops.model.domains import standard_opset
from onnx_ops.model.nodes import SLICING
from onnx_ops.model.raise_opset import raise_opset
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.base import SlicingPass, run_until_stable
from onnx_ops.passes.contested_nodes import unmark
from onnx_ops.passes.expand_strided_slice import ExpandStridedSlicePass
from onnx_ops.passes.portable_form import (
    ConstantBoundsPass,
    ContestedSlicePass,
    PortableConcatPass,
    PortablePass,
    PortableSlicePass,
    PortableSplitPass,
)
from sliceport.defects.onnxruntime import BACKWARD_TO_THE_GREATEST
from sliceport.defects.profiles import READINGS, Profile
from sliceport.errors import ModelError
from sliceport.formats import Changes
from sliceport.hardening import Change, Hardening, InvalidNode
from sliceport.wording import group_nodes, spell

OPSET = 13
"""The least version of the operator set in which Slice and Split have the form that every engine takes."""
_READINGS = " or ".join(READINGS)
_RAISED = "the operator set was raised"
_WRITERS: tuple[type[PortablePass], ...] = (PortableSplitPass, PortableSlicePass, PortableConcatPass)
PORTABLE: tuple[type[SlicingPass], ...] = (ConstantBoundsPass, *_WRITERS)
"""The passes that write the form, beside `ExpandStridedSlicePass`, in the order in which they run."""


def harden_portably(
    model: ir.Model,
    profile: Profile,
    without: Collection[str] = (),
    read_as: str | None = None,
    *,
    raises_opset: bool = True,
) -> tuple[ir.Model, Hardening]:
    """Write the slicing of a model in the portable form.

    Args:
        model: The model; it is changed.
        profile: The target.
        without: Names in `FORMS` of what the target does not take, beside what its profile excludes.
        read_as: See `PortablePass`.
        raises_opset: Whether an operator set below 13 becomes 13, if onnx converts the model.

    Returns:
        The changed model, which is another one if its operator set was raised; and the changes, with notes on the
        nodes that stay because their bounds are known at run time only.
    """
    notes: list[str] = []
    opset = standard_opset(model.opset_imports)
    if raises_opset and opset < OPSET:
        try:
            model = raise_opset(model, OPSET)
            notes.append(f"{_RAISED} from {opset} to {OPSET}, by onnx's version converter")
        except ModelError as error:
            notes.append(f"the operator set stays {opset}: {str(error).rstrip('.')}")
    excluded = {*profile.without, *without}
    writers = [kind(excluded, read_as) for kind in _WRITERS]
    passes: list[SlicingPass] = [ExpandStridedSlicePass(), ConstantBoundsPass(), *writers]
    with defaults_aside(model):
        analysis = Analysis(model)
        nodes = len(analysis.nodes_of(*SLICING))
        invalid = analysis.value_info.list_invalid()
        changes = list(chain.from_iterable(run_until_stable(passes, analysis)))
        unmark(model)
    kept = [(node.op, node.node, f"{node.reason}: left as it is") for each in writers for node in each.skipped]
    notes += group_nodes(dict.fromkeys(kept))
    if any(change.defects == (BACKWARD_TO_THE_GREATEST,) for change in changes):
        option = spell("read_as", "--read-as")
        notes.append(f"a backward Slice to the greatest integer has two readings: choose by {option} {_READINGS}")
    return model, build_form_report(profile, nodes, _drop_intermediate(changes), invalid, notes)


def settle_by_the_standard(model: ir.Model) -> None:
    """Write the backward Slices to the greatest integer, and no others, so that onnxruntime reads the standard."""
    with defaults_aside(model):
        run_until_stable([ContestedSlicePass(read_as="standard")], Analysis(model))
        unmark(model)


def build_form_report(
    profile: Profile,
    nodes: int,
    changes: Sequence[Change] = (),
    invalid: Sequence[InvalidNode] = (),
    notes: Sequence[str] = (),
) -> Hardening:
    """Build the report of a model. `nodes` is the number of its slicing nodes."""
    versions = ", ".join(profile.versions)
    return Hardening(profile.target, versions, nodes, tuple(changes), tuple(invalid), tuple(notes), is_form=True)


def _drop_intermediate(changes: Sequence[Change]) -> list[Change]:
    """Return the last change of each node, because a node whose bounds became constants is rewritten once more."""
    return list({(change.op, change.node): change for change in changes}.values())


def was_raised(report: Changes) -> bool:
    """Return whether the operator set of the model was raised."""
    return isinstance(report, Hardening) and any(note.startswith(_RAISED) for note in report.notes)


def add_note(report: Changes, note: str) -> Changes:
    """Return a report with one more note, before the others."""
    assert isinstance(report, Hardening)
    return replace(report, notes=(note, *report.notes))
