"""Known disagreements between engines and the specifications: each with its evidence, and strict.

`test_divergences.py` runs every entry on the engine it names and fails when the engine no longer does what is written
here: then the entry goes, or its versions change. An entry whose engine cannot run here is reported, not passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx_ops.contested import (
    BACKWARD_TO_THE_GREATEST,
    BELOW_THE_AXIS,
    DROPPED_STEPS,
    EMPTY_LAST_PART,
    Contested,
)


@dataclass(frozen=True)
class Divergence:
    """One disagreement, shown on a vector of `size` elements, all of them different and none 0.

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
        specified: Which elements each output has by the specification, by their indices.
        seen: Those that the engine gives, or a part of its error message; None for outputs of the right sizes in memory
            that it never wrote.
        run_time: Whether the parameters are inputs of the model instead of constants.
        rank: Number of axes of the data; all but the last have size 1.
        contested: The entry of the product's table by which such nodes are left alone, if there is one.
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
    contested: Contested | None = None


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
    contested=BACKWARD_TO_THE_GREATEST,
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
    contested=BACKWARD_TO_THE_GREATEST,
)
STEPS_DROPPED = Divergence(
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
    contested=DROPPED_STEPS,
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
    contested=BELOW_THE_AXIS,
)
LAST_PART_REFUSED = Divergence(
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
    contested=EMPTY_LAST_PART,
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
BELOW_REFUSED = Divergence(
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
    contested=BELOW_THE_AXIS,
)
STEPS_WITHOUT_AXES = Divergence(
    "Slice with steps and without axes is refused",
    "onnxruntime-dml",
    (PROVIDER,),
    STEPS_DROPPED.specification,
    "refuses to create the session",
    (),
    "Slice",
    13,
    6,
    STEPS_DROPPED.parameters,
    STEPS_DROPPED.specified,
    "CreateSession failed",
    contested=DROPPED_STEPS,
)
UNWRITTEN_BEFORE_THE_LAST = Divergence(
    "num_outputs that leaves the last part empty is skipped whole",
    "onnxruntime-dml",
    (PROVIDER,),
    LAST_PART_REFUSED.specification,
    UNWRITTEN_PARTS.engine_does,
    UNWRITTEN_PARTS.issues,
    "Split",
    18,
    4,
    LAST_PART_REFUSED.parameters,
    LAST_PART_REFUSED.specified,
    None,
    contested=EMPTY_LAST_PART,
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
    STEPS_DROPPED,
    REFERENCE_BELOW,
    LAST_PART_REFUSED,
    NARROWED_END,
    NARROWED_STEP,
    NARROWED_TO_ZERO,
    UNWRITTEN_PARTS,
    BELOW_REFUSED,
    STEPS_WITHOUT_AXES,
    UNWRITTEN_BEFORE_THE_LAST,
    RANK_NINE_SLICE,
    RANK_NINE_SPLIT,
)


@dataclass(frozen=True)
class OpenVINODefect:
    """Something that OpenVINO computes wrongly of its built-in Slice or StridedSlice, with the least model for it.

    Attributes:
        id: Its name, the one that `ov_ext.harden` reports it by.
        engine: `openvino-cpu`, the CPU plugin, or `openvino-reference`, constant folding and Model.evaluate.
        versions: The versions that it was seen with.
        specification: What is right, and by which word.
        engine_does: What the engine does instead.
        issues: Where it is reported.
        case: The model and how it is run, as `openvino_child.py` takes it.
        specified: Shape and elements that come out by the specification, by their indices; `right` for many elements.
        seen: What the engine gives: shape and elements, None for elements in memory that it never wrote; a part of its
            error message; the code that the process ends with.
    """

    id: str
    engine: str
    versions: tuple[str, ...]
    specification: str
    engine_does: str
    issues: tuple[str, ...]
    case: dict[str, Any]
    specified: tuple[tuple[int, ...], tuple[int, ...] | str]
    seen: tuple[tuple[int, ...], tuple[int, ...] | str | None] | str | int


def _strided_slice(sizes: list[Any], begin: list[int], end: list[int], **case: Any) -> dict[str, Any]:
    strides = case.pop("strides", [1] * len(begin))
    masks = {name: case.pop(name) for name in list(case) if name.endswith("_mask")}
    return {"op": "StridedSlice", "sizes": sizes, "indices": [begin, end, strides], "masks": masks, **case}


def _slice(sizes: list[Any], start: int, stop: int, step: int = 1, **case: Any) -> dict[str, Any]:
    return {"op": "Slice", "sizes": sizes, "indices": [[start], [stop], [step], [0]], **case}


NO_EXECUTOR = "doesn't have compiled executor"
OTHER_DIMS = "Can not clone with new dims"
OPENVINO_DEFECTS = (
    OpenVINODefect(
        "new axis and shrink with entries left out",
        "openvino-cpu",
        (OPENVINO,),
        "StridedSlice-1: axes without an entry are kept whole: x[1, newaxis] of 2 x 3 is the second row",
        "gives memory that it never wrote; OpenVINO's own reference tests of this form fail on it",
        ("openvinotoolkit/openvino#27103",),
        _strided_slice([2, 3], [1, 0], [2, 0], new_axis_mask=[0, 1], shrink_axis_mask=[1, 0]),
        ((1, 3), (3, 4, 5)),
        ((1, 3), None),
    ),
    OpenVINODefect(
        "begin mask on a shrunk axis",
        "openvino-cpu",
        (OPENVINO,),
        "shape inference and the reference: a shrunk axis takes element begin, masks ignored",
        "takes element 0",
        (),
        _strided_slice([3, 2], [1], [2], begin_mask=[1], shrink_axis_mask=[1]),
        ((2,), (2, 3)),
        ((2,), (0, 1)),
    ),
    OpenVINODefect(
        "mask bits beyond the entries",
        "openvino-cpu",
        (OPENVINO,),
        "StridedSlice-1: bits beyond the last entry are ignored",
        "does not ignore a new axis there, and gives memory that it never wrote",
        (),
        _strided_slice([3, 2], [1], [3], new_axis_mask=[0, 1]),
        ((2, 2), (2, 3, 4, 5)),
        ((2, 2), None),
    ),
    OpenVINODefect(
        "masks shorter than the entries",
        "openvino-cpu",
        (OPENVINO,),
        "StridedSlice-1: missing bits are 0: x[..., 1:3] of a vector has an ellipsis that stands for no axis",
        "takes another entry's indices for the axis, and elements 0 and 1",
        (),
        _strided_slice([3], [-2, 1], [-1, 3], ellipsis_mask=[1]),
        ((2,), (1, 2)),
        ((2,), (0, 1)),
    ),
    OpenVINODefect(
        "ellipsis shares its bit",
        "openvino-reference",
        (OPENVINO,),
        "shape inference and the CPU plugin: the ellipsis goes before what shares its bit",
        "shrinks, and gives nothing",
        (),
        _strided_slice([2], [0], [0], ellipsis_mask=[1], shrink_axis_mask=[1]),
        ((2,), (0, 1)),
        ((0,), ()),
    ),
    OpenVINODefect(
        "backward through an empty axis",
        "openvino-reference",
        (OPENVINO,),
        "shape inference and the CPU plugin: nothing of nothing",
        "gives one element, from memory that is not the input's",
        (),
        _strided_slice([0, 2], [0], [0], strides=[-1], begin_mask=[1], end_mask=[1]),
        ((0, 2), ()),
        ((1, 2), None),
    ),
    OpenVINODefect(
        "of a scalar",
        "openvino-reference",
        (OPENVINO,),
        "StridedSlice-1: a new axis before a scalar",
        "gives memory that is not the input's",
        (),
        _strided_slice([], [0], [0], new_axis_mask=[1], constant=True, element="i64"),
        ((1,), (0,)),
        ((1,), None),
    ),
    OpenVINODefect(
        "stride beyond 32 bits",
        "openvino-cpu",
        (OPENVINO,),
        "Slice-8: a backward step beyond the axis takes the first element of the walk",
        "divides the least 32-bit integer by -1, which ends the process",
        (),
        _slice([5], 4, -9, -(2**31)),
        ((1,), (4,)),
        -8,
    ),
    OpenVINODefect(
        "more than 2^24 elements on an axis",
        "openvino-cpu",
        (OPENVINO,),
        "Slice-8: all elements from 1 on",
        "counts in 32-bit floats and leaves the last elements unwritten",
        (),
        _slice([2**25 + 3], 1, INT64_MAX, element="i8"),
        ((2**25 + 2,), "right"),
        ((2**25 + 2,), "wrong"),
    ),
    OpenVINODefect(
        "indices at run time, all shapes known",
        "openvino-cpu",
        (OPENVINO,),
        "StridedSlice-1: x[i] for an index that is an input",
        "prepares nothing to run where the shapes of data and output are static, and fails",
        (),
        _strided_slice([3, 2], [2], [3], shrink_axis_mask=[1], run_time=True),
        ((2,), (4, 5)),
        NO_EXECUTOR,
    ),
    OpenVINODefect(
        "new axis after an ellipsis, begin at run time",
        "openvino-cpu",
        (OPENVINO,),
        "StridedSlice-1: the new axis comes after all that the ellipsis stands for",
        "infers the new axis one place too early, and fails",
        (),
        _strided_slice(
            [-1, 3], [0, 0], [0, 0], ellipsis_mask=[1, 0], new_axis_mask=[0, 1], run_time=True, shape=[2, 3]
        ),
        ((2, 3, 1), (0, 1, 2, 3, 4, 5)),
        OTHER_DIMS,
    ),
    OpenVINODefect(
        "unsigned index beyond 63 bits",
        "openvino-reference",
        (OPENVINO,),
        "Slice-8: an index beyond the axis is clamped to its end",
        "reads it as -1, and loses the last element",
        (),
        _slice([5], 0, 2**64 - 1, index_type="u64"),
        ((5,), (0, 1, 2, 3, 4)),
        ((4,), (0, 1, 2, 3)),
    ),
    OpenVINODefect(
        "sizes known by bounds",
        "openvino-cpu",
        (OPENVINO,),
        "Slice-8: x[-7:1] of up to 9 elements has one element, if x has seven or less",
        "infers that it is empty, as it is at both ends of the bounds, and fails at sizes between",
        (),
        _slice([[0, 9]], -7, 1, shape=[3]),
        ((1,), (0,)),
        OTHER_DIMS,
    ),
    OpenVINODefect(
        "no entries, at run time",
        "openvino-cpu",
        (OPENVINO,),
        "Slice-8: without entries all of the data",
        "does not expect lists of indices that are empty, and fails",
        (),
        {"op": "Slice", "sizes": [5], "indices": [[], [], [], []], "run_time": True},
        ((5,), (0, 1, 2, 3, 4)),
        "Check '!!ptr' failed",
    ),
    OpenVINODefect(
        "no entries, in 8 bits",
        "openvino-cpu",
        (OPENVINO,),
        "Slice-8: without entries all of the data",
        "reads empty constant lists of i8, u8, i4 or u4 from memory that is not theirs: it fails, or cuts everything, "
        "and a later inference may end the process",
        (),
        {"op": "Slice", "sizes": [-1, 3], "shape": [2, 3], "indices": [[], [], [], []], "index_type": "i8"},
        ((2, 3), (0, 1, 2, 3, 4, 5)),
        "Check '!!ptr' failed",
    ),
    OpenVINODefect(
        "axes alone at run time",
        "openvino-cpu",
        (OPENVINO,),
        "Slice-8: axes may be an input of the model when start, stop and step are constants",
        "ends the process, where the shape of the data is known",
        (),
        {**_slice([3, 4], 1, 9), "run_time": [False, False, False, True]},
        ((2, 4), (4, 5, 6, 7, 8, 9, 10, 11)),
        -11,
    ),
    OpenVINODefect(
        "indices of 4 bits",
        "openvino-reference",
        (OPENVINO,),
        "Slice-8: indices may be of any integer type",
        "takes the bytes of a list of i4 or u4 for its elements, and reads beyond its end",
        (),
        {
            "op": "Slice",
            "sizes": [-1, -1],
            "shape": [3, 0],
            "indices": [[1, 1], [3, 2], [1, 1]],
            "index_types": ["u4", "u4", "i64"],
            "run_time": True,
        },
        ((2, 0), ()),
        ((0, 0), ()),
    ),
    OpenVINODefect(
        "elements of less than a byte",
        "openvino-reference",
        (OPENVINO,),
        "StridedSlice-1: elements 3 and 4 of 0 to 11",
        "takes bytes for elements: byte 3, which holds elements 6 and 7",
        (),
        _strided_slice([12], [3], [5], element="u4", constant=True),
        ((2,), (3, 4)),
        ((2,), (6, 7)),
    ),
    OpenVINODefect(
        "strings",
        "openvino-cpu",
        (OPENVINO,),
        "Slice-8: elements 1 and 2; the plugin takes strings elsewhere",
        "copies the strings' objects as bytes, so that their memory is freed twice, which ends the process",
        (),
        _slice([4], 1, 3, element="string"),
        ((2,), (1, 2)),
        -6,
    ),
)
