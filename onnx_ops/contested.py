"""Nodes that engines read differently, and what each engine does. No pass rewrites one, or what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sliceport.slicing import INT64_MAX, SliceSpec, SplitSpec

CPU = "onnxruntime-cpu"
OPTIMIZED_CPU = "onnxruntime-cpu-optimized"
PROVIDER = "onnxruntime-dml"
REFERENCE = "onnx-reference"
_ENGINES = {
    CPU: "onnxruntime's CPU provider",
    OPTIMIZED_CPU: "onnxruntime's default optimisation",
    PROVIDER: "its DirectML provider",
    REFERENCE: "onnx's reference evaluator",
}
CONTESTED_ENDS = (2**31 - 1, INT64_MAX)
"""Where a backward Slice ends that onnxruntime's CPU provider and the specification read differently."""


@dataclass(frozen=True)
class Contested:
    """A kind of node that engines read differently.

    Attributes:
        id: Its name.
        specification: What is right.
        engines: Engines by their names, and what each does; one that is not here does what is right.
    """

    id: str
    specification: str
    engines: tuple[tuple[str, str], ...]

    @property
    def reason(self) -> str:
        """Which engine does what, for people."""
        readings = [f"{_ENGINES[engine]} {does}" for engine, does in self.engines]
        return f"engines disagree about it: {'; '.join([f'by the specification {self.specification}', *readings])}"

    @property
    def is_of_the_cpu(self) -> bool:
        """Whether onnxruntime's CPU provider does something else than the specification says."""
        return any(engine in (CPU, OPTIMIZED_CPU) for engine, _ in self.engines)


BACKWARD_TO_THE_GREATEST = Contested(
    "backward slice to the greatest integer",
    "it selects nothing",
    ((CPU, "goes to the far end of the axis"), (PROVIDER, "selects nothing")),
)
DROPPED_STEPS = Contested(
    "steps without axes over whole axes",
    "it takes every n-th element",
    ((OPTIMIZED_CPU, "drops the node, its steps included (EliminateSlice)"), (PROVIDER, "refuses the model")),
)
EMPTY_LAST_PART = Contested(
    "num_outputs that leaves the last part empty",
    "the last part is what the others leave",
    ((CPU, "refuses the node"), (PROVIDER, "never writes the other parts")),
)
BELOW_THE_AXIS = Contested(
    "backward slice from below the axis",
    "it starts at index 0",
    ((PROVIDER, "refuses the model"), (REFERENCE, "selects nothing")),
)
CONTESTED = (BACKWARD_TO_THE_GREATEST, DROPPED_STEPS, EMPTY_LAST_PART, BELOW_THE_AXIS)


def contested_slice(spec: SliceSpec, sizes: Sequence[int | None] | None) -> Contested | None:
    """How engines disagree about a Slice, if they do.

    Args:
        spec: The Slice as it is written; one that breaks the rules is refused by all.
        sizes: What is known of the sizes of its data's axes.
    """
    entries = list(zip(spec.starts, spec.ends, spec.steps or (), strict=False))
    if any(step < 0 and end in CONTESTED_ENDS for _, end, step in entries):
        return BACKWARD_TO_THE_GREATEST
    is_stepped = any(step != 1 for *_, step in entries)
    if is_stepped and spec.axes is None and all((start, end) == (0, INT64_MAX) for start, end, _ in entries):
        return DROPPED_STEPS
    axes = range(len(spec.starts)) if spec.axes is None else spec.axes
    for (start, _, step), axis in zip(entries, axes, strict=False):
        size = sizes[axis] if sizes is not None and -len(sizes) <= axis < len(sizes) else None
        if step < 0 and size and start < -size:
            return BELOW_THE_AXIS
    return None


def contested_parts(spec: SplitSpec) -> Contested | None:
    """How engines disagree about a Split by `num_outputs`, whose parts are these, if they do."""
    return EMPTY_LAST_PART if spec.sizes and spec.sizes[-1] == 0 else None
