"""Reports by users of engines that no test here can run. Each entry has the threads that it is taken from.

The cases are ours: each is the smallest node that the report is about. Its outcome was not reproduced.
"""

from __future__ import annotations

from functools import partial

from sliceport.defects.cases import OnnxCase
from sliceport.defects.defect import Defect, Divergence, Example, gives
from sliceport.defects.engines import (
    IREE,
    MIGRAPHX,
    NCNN,
    ONNXRUNTIME_COREML,
    ONNXRUNTIME_CUDA,
    ONNXRUNTIME_QNN,
    ONNXRUNTIME_WEBGL,
    ONNXRUNTIME_WEBNN,
    OPENCV,
    OPENVINO_GPU,
    TENSORRT,
)
from sliceport.defects.onnxruntime import slice_graph

_reported = partial(Defect, handling="found", evidence="reported")
_ncnn = partial(
    Divergence,
    NCNN,
    versions=(),
    issues=("Tencent/ncnn#2100", "Tencent/ncnn#1961", "Tencent/ncnn#6257"),
)

STEPPED = _reported(
    id="step other than 1",
    trigger="a Slice with a step other than 1",
    right="by Slice-13, every step but 0 is allowed",
    divergences=(
        Divergence(ONNXRUNTIME_WEBGL, "fails", ("1.13.1",), ("microsoft/onnxruntime#14588",)),
        Divergence(
            ONNXRUNTIME_WEBNN,
            "leaves the node to the CPU provider",
            (),
            ("webmachinelearning/webnn#772", "webmachinelearning/webnn#773", "microsoft/onnxruntime#22708"),
            until="1.21",
        ),
        _ncnn("does not convert the node"),
        Divergence(OPENCV, "does not read the model", ("4.5.0",), ("opencv/opencv#18920",)),
        Divergence(MIGRAPHX, "does not parse the model", (), ("ROCm/AMDMIGraphX#757", "ROCm/AMDMIGraphX#855")),
    ),
    examples=(Example(OnnxCase(slice_graph(0, 4, 2)), right=gives((0, 2)), seen={}),),
    workaround="a Reshape to (n, step) and a Slice of the new axis take every n-th element of an axis that divides",
)
BACKWARD = _reported(
    id="negative step",
    trigger="a Slice with a negative step",
    right="by Slice-13, a negative step walks from start down to the element behind end",
    divergences=(
        Divergence(IREE, "selects the elements one place off", (), ("iree-org/iree#24584",)),
        Divergence(OPENCV, "does not read the model", ("4.6.0",), ("opencv/opencv#22794",), until="4.7.0"),
    ),
    examples=(Example(OnnxCase(slice_graph(3, 0, -1)), right=gives((3, 2, 1)), seen={}),),
    workaround="a Gather with constant indices selects the same",
)
UNORDERED_AXES = _reported(
    id="axes out of order",
    trigger="a Slice whose axes do not follow each other",
    right="by Slice-13, axes may come in any order",
    divergences=(Divergence(OPENCV, "does not read the model", ("4.6.0",), ("opencv/opencv#22355",), until="4.7.0"),),
    examples=(
        Example(
            OnnxCase(
                "(float[2,2] x) => (float[a,b] y) <int64[2] starts = {1, 0}, int64[2] ends = {2, 1}, "
                "int64[2] axes = {1, 0}> { y = Slice(x, starts, ends, axes) }"
            ),
            right=gives((1,), shape=(1, 1)),
            seen={},
        ),
    ),
    workaround="sort the axes, and starts, ends and steps with them",
)
EMPTY_RESULT = _reported(
    id="empty result",
    trigger="a Slice that selects nothing",
    right="by Slice-13, its output is empty",
    divergences=(
        Divergence(
            TENSORRT,
            "does not build the engine",
            ("7.0",),
            ("NVIDIA/TensorRT#763", "NVIDIA/TensorRT#549", "NVIDIA/TensorRT#921"),
        ),
    ),
    examples=(Example(OnnxCase(slice_graph(2, 2, 1)), right=gives(()), seen={}),),
    workaround="a Concat may leave the empty operand out",
)
EMPTY_SPLIT_PART = _reported(
    id="empty part of a split",
    trigger="a Split with an empty part",
    right="by Split-13, a size may be 0",
    divergences=(Divergence(ONNXRUNTIME_QNN, "fails", (), ("microsoft/onnxruntime#25496",)),),
    examples=(
        Example(
            OnnxCase("(float[4] x) => (float[a] y, float[b] z) <int64[2] split = {0, 4}> { y, z = Split(x, split) }"),
            right=gives((), (0, 1, 2, 3)),
            seen={},
        ),
    ),
    workaround="`harden` makes Slices of the other parts",
)
UNEVEN_NUM_OUTPUTS = _reported(
    id="uneven parts by num_outputs",
    trigger="a Split by num_outputs of an axis that does not divide into equal parts",
    right="by Split-18, the last part is smaller: 2 and 1 of 3",
    divergences=(Divergence(ONNXRUNTIME_QNN, "makes the last part larger", (), ("microsoft/onnxruntime#19381",)),),
    examples=(
        Example(
            OnnxCase("(float[3] x) => (float[a] y, float[b] z) { y, z = Split<num_outputs = 2>(x) }", 18),
            right=gives((0, 1), (2,)),
            seen={},
        ),
    ),
    workaround="write the sizes into `split`",
)
SPLIT_BELOW_13 = _reported(
    id="split below opset 13",
    trigger="a Split below opset 13, whose sizes are an attribute",
    right="by Split-11, sizes are an attribute",
    divergences=(
        Divergence(ONNXRUNTIME_COREML, "leaves the node to the CPU provider", (), ("microsoft/onnxruntime#28270",)),
    ),
    examples=(
        Example(
            OnnxCase("(float[4] x) => (float[a] y, float[b] z) { y, z = Split<split = [1, 3]>(x) }", 11),
            right=gives((0,), (1, 2, 3)),
            seen={},
        ),
    ),
    workaround="convert the model to opset 13 or later",
)
BOUND_AT_RUN_TIME = _reported(
    id="bounds at run time",
    trigger="a Slice whose ends are computed at run time",
    right="by Slice-13, ends may be computed",
    divergences=(Divergence(ONNXRUNTIME_CUDA, "may return its input unsliced", (), ("microsoft/onnxruntime#32083",)),),
    examples=(
        Example(
            OnnxCase(
                "(float[n] x) => (float[m] y) <int64[1] zero = {0}, int64 two = {2}> "
                "{ size = Shape(x)  half = Div(size, two)  y = Slice(x, zero, half, zero) }",
                shape=(4,),
            ),
            right=gives((0, 1)),
            seen={},
        ),
    ),
    workaround="make the sizes of the model's inputs known, so that the ends are constants",
)
STEP_AT_RUN_TIME = _reported(
    id="step at run time",
    trigger="a Slice with a step that is known at run time only, so that its direction is open",
    right="by Slice-13, steps may be computed",
    divergences=(
        Divergence(
            OPENVINO_GPU,
            "returns its input where the output has the same shape, as in a reversal",
            ("2026.4",),
            ("openvinotoolkit/openvino#38240",),
        ),
    ),
    examples=(
        Example(
            OnnxCase(
                "(float[n] x) => (float[m] y) <int64[1] zero = {0}, int64[1] four = {4}> "
                "{ size = Shape(x)  step = Div(size, four)  y = Slice(x, zero, four, zero, step) }",
                shape=(4,),
            ),
            right=gives((0, 1, 2, 3)),
            seen={},
        ),
    ),
    workaround="make the step a constant",
    kind="fragile",
)
