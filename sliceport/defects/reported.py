"""Reports by users of engines that no test here can run. Each entry has the threads that it is taken from.

The cases are ours: each is the smallest node that the report is about. What engines make of them was not reproduced.
"""

from __future__ import annotations

from sliceport.defects.cases import OnnxCase
from sliceport.defects.defect import Defect, Divergence, Example, Gives, Kind, gives
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


def _reported(
    id: str,  # noqa: A002 - the name of the attribute
    trigger: str,
    right: str,
    workaround: str,
    case: OnnxCase,
    result: Gives,
    *divergences: Divergence,
    kind: Kind = "defect",
) -> Defect:
    """Return an entry with one case, whose right outputs are `result`."""
    return Defect(
        id=id,
        trigger=trigger,
        right=right,
        divergences=divergences,
        examples=(Example(case, right=result, seen={}),),
        handling="found",
        workaround=workaround,
        kind=kind,
        evidence="reported",
    )


def _divergence(engine: str, does: str, *issues: str, version: str = "", until: str = "") -> Divergence:
    return Divergence(engine, does, (version,) if version else (), issues, until=until)


_FALLS_BACK, _NOT_READ = "leaves the node to the CPU provider", "does not read the model"
STEPPED = _reported(
    "step other than 1",
    "a Slice with a step other than 1",
    "by Slice-13, every step but 0 is allowed",
    "a Reshape to (n, step) and a Slice of the new axis take every n-th element of an axis that divides",
    OnnxCase(slice_graph(0, 4, 2)),
    gives((0, 2)),
    _divergence(ONNXRUNTIME_WEBGL, "fails", "microsoft/onnxruntime#14588", version="1.13.1"),
    _divergence(
        ONNXRUNTIME_WEBNN,
        _FALLS_BACK,
        "webmachinelearning/webnn#772",
        "webmachinelearning/webnn#773",
        "microsoft/onnxruntime#22708",
        until="1.21",
    ),
    _divergence(NCNN, "does not convert the node", "Tencent/ncnn#2100", "Tencent/ncnn#1961", "Tencent/ncnn#6257"),
    _divergence(OPENCV, _NOT_READ, "opencv/opencv#18920", version="4.5.0"),
    _divergence(MIGRAPHX, _NOT_READ, "ROCm/AMDMIGraphX#757", "ROCm/AMDMIGraphX#855"),
)
BACKWARD = _reported(
    "negative step",
    "a Slice with a negative step",
    "by Slice-13, a negative step walks from start down to the element behind end",
    "a Gather with constant indices selects the same",
    OnnxCase(slice_graph(3, 0, -1)),
    gives((3, 2, 1)),
    _divergence(IREE, "selects the elements one place off", "iree-org/iree#24584"),
    _divergence(OPENCV, _NOT_READ, "opencv/opencv#22794", version="4.6.0", until="4.7.0"),
)
UNORDERED_AXES = _reported(
    "axes out of order",
    "a Slice whose axes do not follow each other",
    "by Slice-13, axes may come in any order",
    "sort the axes, and starts, ends and steps with them",
    OnnxCase(
        "(float[2,2] x) => (float[a,b] y) <int64[2] starts = {1, 0}, int64[2] ends = {2, 1}, int64[2] axes = {1, 0}> "
        "{ y = Slice(x, starts, ends, axes) }"
    ),
    gives((1,), shape=(1, 1)),
    _divergence(OPENCV, _NOT_READ, "opencv/opencv#22355", version="4.6.0", until="4.7.0"),
)
EMPTY_RESULT = _reported(
    "empty result",
    "a Slice that selects nothing",
    "by Slice-13, its output is empty",
    "a Concat may leave the empty operand out",
    OnnxCase(slice_graph(2, 2, 1)),
    gives(()),
    _divergence(
        TENSORRT,
        "does not build the engine",
        "NVIDIA/TensorRT#763",
        "NVIDIA/TensorRT#549",
        "NVIDIA/TensorRT#921",
        version="7.0",
    ),
)
EMPTY_SPLIT_PART = _reported(
    "empty part of a split",
    "a Split with an empty part",
    "by Split-13, a size may be 0",
    "`harden` makes Slices of the other parts",
    OnnxCase("(float[4] x) => (float[a] y, float[b] z) <int64[2] split = {0, 4}> { y, z = Split(x, split) }"),
    gives((), (0, 1, 2, 3)),
    _divergence(ONNXRUNTIME_QNN, "fails", "microsoft/onnxruntime#25496"),
)
UNEVEN_NUM_OUTPUTS = _reported(
    "uneven parts by num_outputs",
    "a Split by num_outputs of an axis that does not divide into equal parts",
    "by Split-18, the last part is smaller: 2 and 1 of 3",
    "write the sizes into `split`",
    OnnxCase("(float[3] x) => (float[a] y, float[b] z) { y, z = Split<num_outputs = 2>(x) }", 18),
    gives((0, 1), (2,)),
    _divergence(ONNXRUNTIME_QNN, "makes the last part larger", "microsoft/onnxruntime#19381"),
)
SPLIT_BELOW_13 = _reported(
    "split below opset 13",
    "a Split below opset 13, whose sizes are an attribute",
    "by Split-11, sizes are an attribute",
    "convert the model to opset 13 or later",
    OnnxCase("(float[4] x) => (float[a] y, float[b] z) { y, z = Split<split = [1, 3]>(x) }", 11),
    gives((0,), (1, 2, 3)),
    _divergence(ONNXRUNTIME_COREML, _FALLS_BACK, "microsoft/onnxruntime#28270"),
)
BOUND_AT_RUN_TIME = _reported(
    "bounds at run time",
    "a Slice whose ends are computed at run time",
    "by Slice-13, ends may be computed",
    "make the sizes of the model's inputs known, so that the ends are constants",
    OnnxCase(
        "(float[n] x) => (float[m] y) <int64[1] zero = {0}, int64 two = {2}> "
        "{ size = Shape(x)  half = Div(size, two)  y = Slice(x, zero, half, zero) }",
        shape=(4,),
    ),
    gives((0, 1)),
    _divergence(ONNXRUNTIME_CUDA, "may return its input unsliced", "microsoft/onnxruntime#32083"),
)
STEP_AT_RUN_TIME = _reported(
    "step at run time",
    "a Slice with a step that is known at run time only, so that its direction is open",
    "by Slice-13, steps may be computed",
    "make the step a constant",
    OnnxCase(
        "(float[n] x) => (float[m] y) <int64[1] zero = {0}, int64[1] four = {4}> "
        "{ size = Shape(x)  step = Div(size, four)  y = Slice(x, zero, four, zero, step) }",
        shape=(4,),
    ),
    gives((0, 1, 2, 3)),
    _divergence(
        OPENVINO_GPU,
        "returns its input where the output has the same shape, as in a reversal",
        "openvinotoolkit/openvino#38240",
        version="2026.4",
    ),
    kind="fragile",
)
