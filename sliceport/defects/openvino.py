"""Defects of OpenVINO's built-in Slice and StridedSlice.

`ov_ext.defects` has the condition that finds each defect on a node. Elements of examples are indices of the data.
"""

from __future__ import annotations

from functools import partial

from sliceport.defects.cases import OnnxCase, slice8, strided_slice
from sliceport.defects.defect import Defect, Divergence, EndsProcess, Example, Fails, Unwritten, gives
from sliceport.defects.engines import ONNXRUNTIME_CPU, OPENVINO, OPENVINO_CPU, OPENVINO_ONNX

VERSIONS = ("2026.4.1",)
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
ALL = (True, True, True)
"""Indices that are all inputs of the model, so that they are known at run time only."""

NO_EXECUTOR = Fails("doesn't have compiled executor")
OTHER_DIMS = Fails("Can not clone with new dims")
NO_LIST = Fails("Check '!!ptr' failed")
_cpu_plugin = partial(Divergence, OPENVINO_CPU, versions=VERSIONS)
_evaluate = partial(Divergence, OPENVINO, versions=VERSIONS)

BUILT_IN = "by built-in operators"
OURS = "by the operator of `ov_ext`"

NEW_AND_SHRINK = Defect(
    id="new axis and shrink with entries left out",
    trigger="a new axis and a shrunk one, with fewer entries than axes",
    right="by StridedSlice-1, axes without an entry are kept whole: x[1, newaxis] of 2 x 3 is the second row",
    divergences=(_cpu_plugin("returns memory that was never written", issues=("openvinotoolkit/openvino#27103",)),),
    examples=(
        Example(
            strided_slice([2, 3], [1, 0], [2, 0], new_axis_mask=[0, 1], shrink_axis_mask=[1, 0]),
            right=gives((3, 4, 5), shape=(1, 3)),
            seen={OPENVINO_CPU: Unwritten()},
        ),
    ),
    workaround=BUILT_IN,
)
BEGIN_MASK_AND_SHRINK = Defect(
    id="begin mask on a shrunk axis",
    trigger="begin_mask and shrink_axis_mask that share a bit",
    right="by shape inference and Model.evaluate, a shrunk axis takes element begin, whatever the masks are",
    divergences=(_cpu_plugin("takes element 0 instead of element begin"),),
    examples=(
        Example(
            strided_slice([3, 2], [1], [2], begin_mask=[1], shrink_axis_mask=[1]),
            right=gives((2, 3)),
            seen={OPENVINO_CPU: gives((0, 1)), OPENVINO: gives((2, 3))},
        ),
    ),
    workaround=BUILT_IN,
)
BITS_BEYOND = Defect(
    id="mask bits beyond the entries",
    trigger="bits of new_axis_mask, shrink_axis_mask or ellipsis_mask beyond the last entry",
    right="by StridedSlice-1, bits beyond the last entry are ignored",
    divergences=(_cpu_plugin("does not ignore them, and returns memory that was never written", is_unsafe=True),),
    examples=(
        Example(
            strided_slice([3, 2], [1], [3], new_axis_mask=[0, 1]),
            right=gives((2, 3, 4, 5), shape=(2, 2)),
            seen={OPENVINO_CPU: Unwritten()},
        ),
    ),
    workaround=BUILT_IN,
)
SHORT_MASKS = Defect(
    id="masks shorter than the entries",
    trigger="masks shorter than the entries, with an ellipsis that stands for no axis, or a new axis and a shrunk one",
    right="by StridedSlice-1, missing bits are 0: x[..., 1:3] of a vector has an ellipsis that stands for no axis",
    divergences=(_cpu_plugin("reads beyond the masks, and takes another entry's indices for an axis", is_unsafe=True),),
    examples=(
        Example(
            strided_slice([3], [-2, 1], [-1, 3], ellipsis_mask=[1]),
            right=gives((1, 2)),
            seen={OPENVINO_CPU: gives((0, 1))},
        ),
    ),
    workaround=BUILT_IN,
)
SHARED_ELLIPSIS = Defect(
    id="ellipsis shares its bit",
    trigger="an ellipsis that shares its bit with a new axis or a shrunk one",
    right="by shape inference and the CPU plugin, the ellipsis has precedence over the mask that shares its bit",
    divergences=(_evaluate("computes another shape than the inferred one"),),
    examples=(
        Example(
            strided_slice([2], [0], [0], ellipsis_mask=[1], shrink_axis_mask=[1]),
            right=gives((0, 1)),
            seen={OPENVINO: gives(()), OPENVINO_CPU: gives((0, 1))},
        ),
    ),
    workaround=BUILT_IN,
)
REVERSED_NOTHING = Defect(
    id="backward through an empty axis",
    trigger="a negative stride over an axis that is empty, or may be empty",
    right="by shape inference and the CPU plugin, nothing is selected",
    divergences=(_evaluate("returns one element, from memory that is not the input's", is_unsafe=True),),
    examples=(
        Example(
            strided_slice([0, 2], [0], [0], [-1], begin_mask=[1], end_mask=[1]),
            right=gives((), shape=(0, 2)),
            seen={OPENVINO: Unwritten((1, 2)), OPENVINO_CPU: gives((), shape=(0, 2))},
        ),
    ),
    workaround=BUILT_IN,
)
SCALAR = Defect(
    id="of a scalar",
    trigger="a StridedSlice of a scalar",
    right="by StridedSlice-1, new axes may stand before a scalar",
    divergences=(_evaluate("returns memory that is not the input's", is_unsafe=True),),
    examples=(
        Example(
            strided_slice([], [0], [0], new_axis_mask=[1], is_constant=True, element="i64"),
            right=gives((0,)),
            seen={OPENVINO: Unwritten()},
        ),
    ),
    workaround=BUILT_IN,
)
FAR_STRIDE = Defect(
    id="stride beyond 32 bits",
    trigger="a step or stride of -2^31 or below",
    right="by Slice-8, a backward step beyond the axis takes the first element of the walk",
    divergences=(_cpu_plugin("divides INT32_MIN by -1, which ends the process", is_unsafe=True),),
    examples=(
        Example(
            slice8([5], [4], [-9], [-(2**31)], [0]),
            right=gives((4,)),
            seen={OPENVINO_CPU: EndsProcess(8), OPENVINO: gives((4,))},
        ),
    ),
    workaround=BUILT_IN,
)
MANY_ELEMENTS = Defect(
    id="more than 2^24 elements on an axis",
    trigger="more than 2^24 elements on an axis of the output",
    right="by Slice-8, all elements from start to stop are taken",
    divergences=(_cpu_plugin("counts them in 32-bit floats, so that the last ones are never written"),),
    examples=(
        Example(
            slice8([2**25 + 3], [1], [INT64_MAX], [1], [0], element="i8"),
            right=gives(range(1, 2**25 + 3)),
            seen={OPENVINO_CPU: Unwritten()},
        ),
    ),
    workaround=f"by VariadicSplit, or for steps other than 1 {OURS}",
)
FIXED_SHAPE = Defect(
    id="indices at run time, all shapes known",
    trigger="indices that are known at run time only, while the shapes of data and output are known",
    right="by StridedSlice-1, indices may be inputs: x[i] is row i",
    divergences=(_cpu_plugin("prepares no executor, so that it fails or returns unrelated memory", is_unsafe=True),),
    examples=(
        Example(
            strided_slice([3, 2], [2], [3], shrink_axis_mask=[1], run_time=ALL),
            right=gives((4, 5)),
            seen={OPENVINO_CPU: NO_EXECUTOR, OPENVINO: gives((4, 5))},
        ),
    ),
    workaround=BUILT_IN,
)
ELLIPSIS_THEN_NEW = Defect(
    id="new axis after an ellipsis, begin at run time",
    trigger="a new axis after an ellipsis, with an index that is known at run time only",
    right="by StridedSlice-1, the new axis comes after all axes that the ellipsis stands for",
    divergences=(_cpu_plugin("infers the new axis at the wrong place, and fails"),),
    examples=(
        Example(
            strided_slice(
                [-1, 3], [0, 0], [0, 0], ellipsis_mask=[1, 0], new_axis_mask=[0, 1], run_time=ALL, shape=(2, 3)
            ),
            right=gives((0, 1, 2, 3, 4, 5), shape=(2, 3, 1)),
            seen={OPENVINO_CPU: OTHER_DIMS},
        ),
    ),
    workaround=BUILT_IN,
)
UNSIGNED_INDEX = Defect(
    id="unsigned index beyond 63 bits",
    trigger="an unsigned index of 2^63 or more",
    right="by Slice-8, an index beyond the axis is clamped to its end",
    divergences=(_evaluate("reads it as a negative index, as shape inference does"),),
    examples=(
        Example(
            slice8([5], [0], [2**64 - 1], [1], [0], index_types=("u64",) * 4),
            right=gives((0, 1, 2, 3, 4)),
            seen={OPENVINO: gives((0, 1, 2, 3))},
        ),
    ),
    workaround=BUILT_IN,
)
WRONG_BOUNDS = Defect(
    id="sizes known by bounds",
    trigger="a size known by bounds, if the slice selects more at a size between them than at either bound",
    right="by Slice-8, x[-7:1] of up to 9 elements selects one element if x has at most 7",
    divergences=(_cpu_plugin("infers a smaller output, and fails if the output is larger"),),
    examples=(
        Example(slice8([(0, 9)], [-7], [1], [1], [0], shape=(3,)), right=gives((0,)), seen={OPENVINO_CPU: OTHER_DIMS}),
    ),
    workaround=OURS,
)
NO_ENTRIES = Defect(
    id="no entries, at run time",
    trigger="empty lists of indices that are not constants",
    right="by Slice-8, a Slice without entries selects all of the data",
    divergences=(_cpu_plugin("reads indices from unrelated memory, and fails", is_unsafe=True),),
    examples=(
        Example(
            slice8([5], [], [], [], [], run_time=(*ALL, True)),
            right=gives((0, 1, 2, 3, 4)),
            seen={OPENVINO_CPU: NO_LIST},
        ),
    ),
    workaround=BUILT_IN,
)
NARROW_NO_ENTRIES = Defect(
    id="no entries, in 8 bits",
    trigger="empty constant lists of indices of 8 bits or less",
    right="by Slice-8, a Slice without entries selects all of the data",
    divergences=(
        _cpu_plugin(
            "reads indices from unrelated memory: it fails or selects nothing, and a later inference may end the "
            "process",
            is_unsafe=True,
        ),
    ),
    examples=(
        Example(
            slice8([-1, 3], [], [], [], [], shape=(2, 3), index_types=("i8",) * 4),
            right=gives((0, 1, 2, 3, 4, 5), shape=(2, 3)),
            seen={OPENVINO_CPU: NO_LIST},
        ),
    ),
    workaround=BUILT_IN,
)
AXES_AT_RUN_TIME = Defect(
    id="axes alone at run time",
    trigger="axes that are known at run time only, while the shape of the data and all other indices are known",
    right="by Slice-8, axes may be an input of the model while start, stop and step are constants",
    divergences=(_cpu_plugin("reads unrelated memory, which ends the process", is_unsafe=True),),
    examples=(
        Example(
            slice8([3, 4], [1], [9], [1], [0], run_time=(False, False, False, True)),
            right=gives((4, 5, 6, 7, 8, 9, 10, 11), shape=(2, 4)),
            seen={OPENVINO_CPU: EndsProcess(11)},
        ),
    ),
    workaround=OURS,
)
PACKED_INDEX = Defect(
    id="indices of 4 bits",
    trigger="lists of indices of 4 bits (i4, u4)",
    right="by Slice-8, indices may be of any integer type",
    divergences=(
        _evaluate("reads a byte per element and so beyond their end, as shape inference does", is_unsafe=True),
    ),
    examples=(
        Example(
            slice8([-1, -1], [1, 1], [3, 2], [1, 1], shape=(3, 0), index_types=("u4", "u4", "i64"), run_time=ALL),
            right=gives((), shape=(2, 0)),
            seen={OPENVINO: gives((), shape=(0, 0))},
        ),
    ),
    workaround=BUILT_IN,
)
SUB_BYTE = Defect(
    id="elements of less than a byte",
    trigger="elements of less than a byte",
    right="by StridedSlice-1, data may be of any type: elements 3 and 4 of a u4 tensor are in bytes 1 and 2",
    divergences=(
        _evaluate(
            "indexes bytes as if they were elements in StridedSlice: byte 3, which is elements 6 and 7", is_unsafe=True
        ),
        _cpu_plugin("indexes bytes as if they were elements, except for u4 and i4", is_unsafe=True),
    ),
    examples=(
        Example(
            strided_slice([12], [3], [5], element="u4", is_constant=True),
            right=gives((3, 4)),
            seen={OPENVINO: gives((6, 7))},
        ),
        Example(
            slice8([12], [3], [5], [1], [0], element="nf4", is_constant=True),
            right=gives((3, 4)),
            seen={OPENVINO_CPU: gives((6, 7))},
        ),
    ),
    workaround=f"as a constant, or {OURS}; u3 and u6 are reported and left",
)
STRINGS = Defect(
    id="strings",
    trigger="data that are strings",
    right="by Slice-8 and StridedSlice-1, data may be of any type",
    divergences=(
        _cpu_plugin(
            "copies the string objects as bytes, so that their memory is freed twice, which ends the process",
            is_unsafe=True,
        ),
        _evaluate("does the same in StridedSlice, and does not implement Slice for strings", is_unsafe=True),
    ),
    examples=(
        Example(
            slice8([4], [1], [3], [1], [0], element="string"), right=gives((1, 2)), seen={OPENVINO_CPU: EndsProcess(6)}
        ),
        Example(strided_slice([4], [1], [3], element="string"), right=gives((1, 2)), seen={OPENVINO: EndsProcess(6)}),
    ),
    workaround=OURS,
)

# The reader of ONNX models.

EMPTY_LISTS = Defect(
    id="empty lists in an ONNX model",
    trigger="an ONNX Slice with empty starts and ends, which slices no axis",
    right="by Slice-13, an axis that is not named is kept whole",
    divergences=(
        Divergence(OPENVINO_ONNX, "does not convert the model", VERSIONS, issues=("openvinotoolkit/openvino#33990",)),
    ),
    examples=(
        Example(
            OnnxCase(
                "(float[4] x) => (float[n] y) <int64[0] starts = {}, int64[0] ends = {}, int64[0] axes = {}> "
                "{ y = Slice(x, starts, ends, axes) }"
            ),
            right=gives((0, 1, 2, 3)),
            seen={ONNXRUNTIME_CPU: gives((0, 1, 2, 3)), OPENVINO_ONNX: Fails("FrontEnd API failed")},
        ),
    ),
    handling="found",
    workaround="`sliceport rewrite MODEL -o OUT` removes the Slice",
)

# Defects that no condition on a node can find, because they depend on values at run time.

NARROWED = Defect(
    id="64-bit indices at run time",
    trigger="indices that are known at run time only and need more than 32 bits",
    right="by Slice-8, an index beyond the axis is clamped, so INT64_MAX means up to the end",
    divergences=(
        _cpu_plugin(
            "truncates them to their low 32 bits: INT64_MAX becomes -1, and INT64_MIN 0",
            issues=("openvinotoolkit/openvino#37957", "openvinotoolkit/openvino#24072"),
        ),
    ),
    examples=(
        Example(
            slice8([5], [0], [INT64_MAX], [1], [0], run_time=(*ALL, False)),
            right=gives((0, 1, 2, 3, 4)),
            seen={OPENVINO_CPU: gives((0, 1, 2, 3)), OPENVINO: gives((0, 1, 2, 3, 4))},
        ),
        Example(
            slice8([5], [0], [5], [INT64_MAX], [0], run_time=(*ALL, False)),
            right=gives((0,)),
            seen={OPENVINO_CPU: gives(()), OPENVINO: gives((0,))},
        ),
        Example(
            slice8([5], [4], [-6], [INT64_MIN], [0], run_time=(*ALL, False)),
            right=gives((4,)),
            seen={OPENVINO_CPU: Fails("Step must be non-zero"), OPENVINO: gives((4,))},
        ),
    ),
    handling="unseen",
    workaround="use INT32_MAX and INT32_MIN, which also mean as far as possible; constants are read correctly",
)
FAR_STRIDE_AT_RUN_TIME = Defect(
    id="far stride at run time",
    trigger="a stride that is known at run time only and has the low 32 bits of -2^31, or in StridedSlice of 0",
    right="by Slice-8, such a step takes the first element of the walk; by StridedSlice-1, a stride of 0 is an error",
    divergences=(_cpu_plugin("divides by that stride, which ends the process", is_unsafe=True),),
    examples=(
        Example(
            slice8([5], [4], [-6], [-(2**31)], [0], run_time=(*ALL, False)),
            right=gives((4,)),
            seen={OPENVINO_CPU: EndsProcess(8), OPENVINO: gives((4,))},
        ),
        Example(
            strided_slice([5], [0], [5], [0], run_time=ALL),
            right=Fails(),
            seen={OPENVINO_CPU: EndsProcess(8), OPENVINO: Fails()},
        ),
    ),
    handling="unseen",
    workaround="check the inputs of the model",
)
UNSIGNED_AT_RUN_TIME = Defect(
    id="unsigned index beyond 63 bits at run time",
    trigger="an unsigned index of 2^63 or more that is known at run time only",
    right="by Slice-8, an index beyond the axis is clamped to its end",
    divergences=(_evaluate("reads it as a negative index"),),
    examples=(
        Example(
            slice8([5], [0], [2**64 - 1], [1], [0], index_types=("u64",) * 4, run_time=(*ALL, False)),
            right=gives((0, 1, 2, 3, 4)),
            seen={OPENVINO: gives((0, 1, 2, 3))},
        ),
    ),
    handling="unseen",
    workaround="use signed indices",
)
LOST_ERROR = Defect(
    id="error lost with one thread",
    trigger="a node that fails in an inference by one thread, as on one core or with INFERENCE_NUM_THREADS=1",
    right="by Slice-8, a step of 0 is an error, and `start_async` with `wait` raises it",
    divergences=(
        _cpu_plugin(
            "loses the error: `infer` returns with outputs that were never written, and a later inference of any model "
            "may end the process",
            is_unsafe=True,
        ),
    ),
    examples=(
        Example(
            slice8([5], [0], [5], [0], [0], run_time=(*ALL, False), one_thread=True),
            right=Fails(),
            seen={OPENVINO_CPU: gives((), shape=(0,)), OPENVINO: Fails("Step must be non-zero")},
        ),
    ),
    handling="unseen",
    workaround="call `start_async` and `wait`, or use two threads",
)
SHRUNK_BEYOND = Defect(
    id="shrunk index out of range at run time",
    trigger="a shrunk index that is known at run time only and is out of range",
    right="by shape inference and Model.evaluate, such an index is an error",
    divergences=(_cpu_plugin("takes the nearest element"),),
    examples=(
        Example(
            strided_slice([-1, 2], [7], [8], shrink_axis_mask=[1], run_time=ALL, shape=(3, 2)),
            right=Fails(),
            seen={OPENVINO_CPU: gives((4, 5)), OPENVINO: Fails("begin < int64_t")},
        ),
    ),
    handling="unseen",
    workaround="`ov_ext.StridedSlice` raises",
)
