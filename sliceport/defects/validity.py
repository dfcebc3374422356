"""ONNX nodes that break their standard, or hold for some sizes only, and what engines make of them."""

from __future__ import annotations

from functools import partial

from sliceport.defects.cases import OnnxCase
from sliceport.defects.defect import Defect, Divergence, EndsProcess, Example, Fails, gives
from sliceport.defects.engines import (
    ONNX_REFERENCE,
    ONNXRUNTIME_CPU,
    ONNXRUNTIME_DML,
    OPENVINO_ONNX,
)
from sliceport.defects.onnxruntime import DIRECTML_PROVIDER, ONNX, ONNXRUNTIME
from sliceport.defects.openvino import VERSIONS

_reference = partial(Divergence, ONNX_REFERENCE, versions=ONNX)
_reader = partial(Divergence, OPENVINO_ONNX, versions=VERSIONS)
_cpu = partial(Divergence, ONNXRUNTIME_CPU, versions=ONNXRUNTIME)


def _split(size: int | str, sizes: str, *, outputs: str = "float[a] y, float[b] z") -> str:
    """Return the graph of a Split of a vector into two parts of written sizes."""
    names = ", ".join(output.split()[1] for output in outputs.split(", "))
    count = sizes.count(",") + 1
    return f"(float[{size}] x) => ({outputs}) <int64[{count}] split = {{{sizes}}}> {{ {names} = Split(x, split) }}"


def _slice(starts: str, ends: str) -> str:
    """Return the graph of a Slice of a vector of 4 elements, with declarations of its bounds."""
    return (
        f"(float[4] x) => (float[n] y) <{starts}, {ends}, int64[1] axes = {{0}}> {{ y = Slice(x, starts, ends, axes) }}"
    )


NOT_VALID = Defect(
    id="not valid",
    trigger="a node that breaks a rule of its operator",
    right="by the page of the operator, no result is right",
    divergences=(_reference("does not check all rules, and computes from what it reads"),),
    examples=(
        Example(
            OnnxCase(
                "(float[4] x) => (float[n] y) <int64[2] starts = {0, 1}, int64[2] ends = {3, 4}, "
                "int64[2] axes = {0, 0}> { y = Slice(x, starts, ends, axes) }"
            ),
            right=Fails(),
            seen={
                ONNXRUNTIME_CPU: Fails("referred to more than once"),
                ONNXRUNTIME_DML: Fails("referred to more than once"),
                ONNX_REFERENCE: gives((1, 2, 3)),
                OPENVINO_ONNX: Fails("FrontEnd API failed"),
            },
        ),
    ),
    handling="found",
    workaround="correct the node where the model is exported",
    kind="invalid",
)
NOT_A_LIST = Defect(
    id="parameters that are no lists",
    trigger="a Slice or Split with a parameter that does not have one dimension",
    right="by Slice-13, starts, ends, axes and steps are 1-D tensors",
    divergences=(
        Divergence(ONNXRUNTIME_DML, "reads the elements as a list", DIRECTML_PROVIDER),
        _reference("computes a Slice whose ends are a scalar"),
    ),
    examples=(
        Example(
            OnnxCase(_slice("int64[1] starts = {0}", "int64 ends = {2}")),
            right=Fails(),
            seen={
                ONNXRUNTIME_CPU: Fails("Ends must be a 1-D array"),
                ONNXRUNTIME_DML: gives((0, 1)),
                ONNX_REFERENCE: gives((0, 1)),
                OPENVINO_ONNX: Fails("FrontEnd API failed"),
            },
        ),
        Example(
            OnnxCase(_slice("int64[1, 1] starts = {1}", "int64[1, 1] ends = {3}")),
            right=Fails(),
            seen={
                ONNXRUNTIME_CPU: Fails("Starts must be a 1-D array"),
                ONNXRUNTIME_DML: gives((1, 2)),
                OPENVINO_ONNX: Fails("FrontEnd API failed"),
            },
        ),
    ),
    handling="found",
    workaround="give the parameter the shape [n]",
    kind="invalid",
)
WRONG_SIZES = Defect(
    id="sizes that do not fit",
    trigger="a Split with sizes that are negative or do not add up to the size of the axis",
    right="by Split-13, sizes are 0 or more, and add up to the size of the axis",
    divergences=(
        _reference("slices by the running sums of the sizes, so that elements are left out or two parts share some"),
    ),
    examples=(
        Example(
            OnnxCase(_split(4, "6, -2")),
            right=Fails(),
            seen={
                ONNXRUNTIME_CPU: Fails("Invalid value in 'split' input"),
                ONNXRUNTIME_DML: Fails("narrowing_error"),
                ONNX_REFERENCE: gives((0, 1, 2, 3), ()),
                OPENVINO_ONNX: Fails("FrontEnd API failed"),
            },
        ),
        Example(
            OnnxCase(_split(4, "1, 2")),
            right=Fails(),
            seen={
                ONNXRUNTIME_CPU: Fails("Mismatch between the sum"),
                ONNXRUNTIME_DML: Fails("Mismatch between the sum"),
                ONNX_REFERENCE: gives((0,), (1, 2)),
                OPENVINO_ONNX: Fails("FrontEnd API failed"),
            },
        ),
    ),
    handling="found",
    workaround="write sizes that add up to the size of the axis",
    kind="invalid",
)
WRONG_COUNT = Defect(
    id="sizes unlike the outputs",
    trigger="a Split whose number of sizes is not that of its outputs",
    right="by Split-13, there is one size for each output",
    divergences=(
        _reference("ignores the sizes without an output"),
        _reader("ignores the sizes without an output"),
    ),
    examples=(
        Example(
            OnnxCase(_split(4, "1, 2, 1")),
            right=Fails(),
            seen={
                ONNXRUNTIME_CPU: Fails("Mismatch between number of splits"),
                ONNX_REFERENCE: gives((0,), (1, 2)),
                OPENVINO_ONNX: gives((0,), (1, 2)),
            },
        ),
    ),
    handling="found",
    workaround="write a size for each output",
    kind="invalid",
)
UNEVEN_PARTS = Defect(
    id="uneven parts without sizes",
    trigger="a Split below opset 18 without sizes, of an axis that does not divide into equal parts",
    right="by Split-13, the parts have equal sizes if `split` is left out",
    divergences=(
        _reference("computes a smaller last part, as by Split-18"),
        _reader("computes a smaller last part, as by Split-18"),
    ),
    examples=(
        Example(
            OnnxCase("(float[5] x) => (float[a] y, float[b] z) { y, z = Split(x) }"),
            right=Fails(),
            seen={
                ONNXRUNTIME_CPU: Fails("not evenly splittable"),
                ONNXRUNTIME_DML: Fails("not evenly splittable"),
                ONNX_REFERENCE: gives((0, 1, 2), (3, 4)),
                OPENVINO_ONNX: gives((0, 1, 2), (3, 4)),
            },
        ),
    ),
    handling="found",
    workaround="write the sizes into `split`",
    kind="invalid",
)
NUM_OUTPUTS_UNLIKE = Defect(
    id="num_outputs unlike the outputs",
    trigger="a Split whose num_outputs is greater than its number of outputs",
    right="by Split-18, num_outputs is the number of parts, and every part is an output",
    divergences=(
        _cpu("splits by the number of outputs", issues=("onnx/onnx#8255", "onnx/onnx#8275")),
        _reference("splits by num_outputs, and drops the parts without an output"),
        _reader("splits by num_outputs, and drops the parts without an output"),
    ),
    examples=(
        Example(
            OnnxCase("(float[6] x) => (float[a] y, float[b] z) { y, z = Split<num_outputs = 3>(x) }", 18),
            right=Fails(),
            seen={
                ONNXRUNTIME_CPU: gives((0, 1, 2), (3, 4, 5)),
                ONNXRUNTIME_DML: Fails("80070057 Invalid parameter"),
                ONNX_REFERENCE: gives((0, 1), (2, 3)),
                OPENVINO_ONNX: gives((0, 1), (2, 3)),
            },
        ),
    ),
    handling="found",
    workaround="set num_outputs to the number of outputs, or name the outputs that are missing",
    kind="invalid",
)
FEWER_NUM_OUTPUTS = Defect(
    id="num_outputs below the outputs",
    trigger="a Split whose num_outputs is less than its number of outputs",
    right="by Split-18, num_outputs is the number of parts, and every output is a part",
    divergences=(_cpu("ends the process while it loads the model", is_unsafe=True),),
    examples=(
        Example(
            OnnxCase(
                "(float[4] x) => (float[a] y, float[b] z, float[c] w) { y, z, w = Split<num_outputs = 2>(x) }", 18
            ),
            right=Fails(),
            seen={ONNXRUNTIME_CPU: EndsProcess(6)},
        ),
    ),
    handling="found",
    workaround="set num_outputs to the number of outputs",
    kind="invalid",
)
FIXED_AXIS = Defect(
    id="sizes that fix an open axis",
    trigger="a Split with constant sizes along an axis whose size the model leaves open",
    right="by Split-13, the sizes add up to the size of the axis, so that the model is right for one size only",
    divergences=(_reference("drops the elements behind the last part, without an error"),),
    examples=(
        Example(
            OnnxCase(_split("n", "1", outputs="float[a] y"), shape=(3,)),
            right=Fails(),
            seen={
                ONNXRUNTIME_CPU: Fails("Cannot split using values in 'split' attribute"),
                ONNXRUNTIME_DML: Fails("80070057 Invalid parameter"),
                ONNX_REFERENCE: gives((0,)),
                OPENVINO_ONNX: Fails("sum_of_s"),
            },
        ),
    ),
    handling="found",
    workaround="declare the axis with that size, or export the model with sizes that follow from the axis",
    kind="fragile",
)
