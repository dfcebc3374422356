"""Known disagreements between engines and the specifications: each with its evidence, and strict.

`test_divergences.py` runs every entry on the engine it names and fails when the engine no longer does what is written
here: then the entry goes, or its versions change. An entry whose engine cannot run here is reported, not passed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Divergence:
    """One disagreement, shown on a vector of `size` elements that hold their own indices.

    Attributes:
        id: A name for it.
        engine: Who disagrees.
        versions: The versions of the engine that it was seen with.
        specification: What the specification says, and where.
        engine_does: What the engine does instead.
        issues: Where it is reported.
        op_type: Slice or Split.
        opset: Version of the operator set.
        size: Elements of the vector.
        parameters: The node's parameters, all on axis 0: `starts`, `ends`, `steps` or `num_outputs`.
        specified: The elements of each output by the specification.
        seen: Those that the engine gives, or a part of its error message.
        run_time: Whether the parameters are inputs of the model instead of constants.
    """

    id: str
    engine: str
    versions: tuple[str, ...]
    specification: str
    engine_does: str
    issues: tuple[str, ...]
    op_type: str
    opset: int
    size: int
    parameters: dict[str, int]
    specified: tuple[tuple[int, ...], ...]
    seen: tuple[tuple[int, ...], ...] | str
    run_time: bool = False


INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1

FULL_REVERSE = Divergence(
    "backward slice to INT64_MAX",
    "onnxruntime-cpu",
    ("1.31.1",),
    "Slice-13: for a negative step, ends are clamped to [-1, dim - 1], so nothing lies between -1 and INT64_MAX",
    "takes INT64_MAX as 'to the far end' in either direction and reverses the whole axis",
    ("microsoft/onnxruntime#11107", "microsoft/onnxruntime#2272"),
    "Slice",
    13,
    4,
    {"starts": -1, "ends": INT64_MAX, "steps": -1},
    ((),),
    ((3, 2, 1, 0),),
)
FULL_REVERSE_32 = Divergence(
    "backward slice to INT32_MAX",
    "onnxruntime-cpu",
    ("1.31.1",),
    FULL_REVERSE.specification,
    "takes INT32_MAX as 'to the far end' too, in int64 parameters as well",
    FULL_REVERSE.issues,
    "Slice",
    13,
    4,
    {"starts": -1, "ends": INT32_MAX, "steps": -1},
    ((),),
    ((3, 2, 1, 0),),
)
DROPPED_STEPS = Divergence(
    "EliminateSlice drops steps",
    "onnxruntime-cpu-optimized",
    ("1.31.1",),
    "Slice-13: steps hold whether axes are given or not",
    "with default optimisation, removes a Slice whose axes are left out and whose bounds keep all, steps included",
    (),
    "Slice",
    13,
    6,
    {"starts": 0, "ends": INT64_MAX, "steps": 2},
    ((0, 2, 4),),
    ((0, 1, 2, 3, 4, 5),),
)
REFERENCE_BELOW = Divergence(
    "backward slice from below the axis",
    "onnx-reference",
    ("1.23.2",),
    "Slice-13: for a negative step, starts are clamped to [0, dim - 1], so -100 is index 0",
    "slices as NumPy does, which selects nothing",
    (),
    "Slice",
    13,
    5,
    {"starts": -100, "ends": -200, "steps": -1},
    ((0,),),
    ((),),
)
EMPTY_LAST_PART = Divergence(
    "num_outputs that leaves the last part empty",
    "onnxruntime-cpu",
    ("1.31.1",),
    "Split-18: parts have ceil(dim / num_outputs) elements and the last chunk is smaller: 2, 2 and 0 of 4",
    "gives the last part the full size when the chunks before it fill the axis, and refuses that",
    (),
    "Split",
    18,
    4,
    {"num_outputs": 3},
    ((0, 1), (2, 3), ()),
    "Split size 2 exceeds the remaining size of the selected axis, 0",
)

OPENVINO = "2026.4.1-22982-e213a147257-releases/2026/4"
NARROWED_END = Divergence(
    "run-time INT64_MAX is narrowed to -1",
    "openvino-cpu",
    (OPENVINO,),
    "Slice-13: INT64_MAX as an end means the whole axis",
    "cuts run-time 64-bit indices to their low 32 bits, so INT64_MAX becomes -1 and the last element is lost",
    ("openvinotoolkit/openvino#37957", "openvinotoolkit/openvino#24072"),
    "Slice",
    13,
    5,
    {"starts": 0, "ends": INT64_MAX, "steps": 1},
    ((0, 1, 2, 3, 4),),
    ((0, 1, 2, 3),),
    run_time=True,
)
NARROWED_STEP = Divergence(
    "run-time step INT64_MAX is narrowed to -1",
    "openvino-cpu",
    (OPENVINO,),
    "Slice-13: a step beyond the axis takes its first element",
    "cuts the step to its low 32 bits, -1, and selects nothing",
    NARROWED_END.issues,
    "Slice",
    13,
    5,
    {"starts": 0, "ends": 5, "steps": INT64_MAX},
    ((0,),),
    ((),),
    run_time=True,
)
NARROWED_TO_ZERO = Divergence(
    "run-time step INT64_MIN is narrowed to 0",
    "openvino-cpu",
    (OPENVINO,),
    "Slice-13: a backward step beyond the axis takes the first element of the walk",
    "cuts the step to its low 32 bits, 0, and refuses that",
    NARROWED_END.issues,
    "Slice",
    13,
    5,
    {"starts": 4, "ends": -6, "steps": -INT64_MAX - 1},
    ((4,),),
    "Step must be non-zero",
    run_time=True,
)

DIVERGENCES = (
    FULL_REVERSE,
    FULL_REVERSE_32,
    DROPPED_STEPS,
    REFERENCE_BELOW,
    EMPTY_LAST_PART,
    NARROWED_END,
    NARROWED_STEP,
    NARROWED_TO_ZERO,
)
