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
        parameters: The node's parameters, all on the last axis: `starts`, `ends`, `steps`; `split`; or `num_outputs`.
        specified: The elements of each output by the specification.
        seen: Those that the engine gives, or a part of its error message; None for memory that it never wrote.
        run_time: Whether the parameters are inputs of the model instead of constants.
        rank: Number of axes of the data; all but the last have size 1.
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
    parameters: dict[str, int | tuple[int, ...]]
    specified: tuple[tuple[int, ...], ...]
    seen: tuple[tuple[int, ...], ...] | str | None
    run_time: bool = False
    rank: int = 1


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

PROVIDER = "1.24.4"
UNWRITTEN_PARTS = Divergence(
    "a Split with an empty part is skipped whole",
    "onnxruntime-dml",
    (PROVIDER,),
    "Split-13: split [0, 4] gives nothing and the whole input",
    "runs no operator when any tensor of the node is empty, so the other outputs are never written",
    ("microsoft/onnxruntime#25496",),
    "Split",
    13,
    4,
    {"split": (0, 4)},
    ((), (0, 1, 2, 3)),
    None,
)
BELOW_THE_AXIS = Divergence(
    "backward slice from below the axis is refused",
    "onnxruntime-dml",
    (PROVIDER,),
    REFERENCE_BELOW.specification,
    "infers another shape than onnx does and refuses to create the session",
    (),
    "Slice",
    13,
    4,
    {"starts": -100, "ends": -200, "steps": -1},
    ((0,),),
    "CreateSession failed",
)
RANK_NINE_SLICE = Divergence(
    "Slice of rank 9 is refused",
    "onnxruntime-dml",
    (PROVIDER,),
    "Slice-13: a tensor may have any rank",
    "describes tensors dimension by dimension and takes at most eight",
    (),
    "Slice",
    13,
    4,
    {"starts": 1, "ends": 3, "steps": 1},
    ((1, 2),),
    "CreateSession failed",
    rank=9,
)
RANK_NINE_SPLIT = Divergence(
    "Split of rank 9 is refused",
    "onnxruntime-dml",
    (PROVIDER,),
    "Split-13: a tensor may have any rank",
    RANK_NINE_SLICE.engine_does,
    (),
    "Split",
    13,
    4,
    {"split": (1, 3)},
    ((0,), (1, 2, 3)),
    "CreateSession failed",
    rank=9,
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
    UNWRITTEN_PARTS,
    BELOW_THE_AXIS,
    RANK_NINE_SLICE,
    RANK_NINE_SPLIT,
)
