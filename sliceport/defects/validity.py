"""ONNX nodes that break their standard, or hold for some sizes only, and what engines make of them."""

from __future__ import annotations

from functools import partial

from sliceport.defects.cases import OnnxCase
from sliceport.defects.defect import Defect, Divergence, EndsProcess, Example, Fails, Outcome, gives
from sliceport.defects.engines import ONNX_REFERENCE, ONNXRUNTIME_CPU, ONNXRUNTIME_DML, OPENVINO_ONNX
from sliceport.defects.onnxruntime import DIRECTML_PROVIDER, ONNX, ONNXRUNTIME
from sliceport.defects.openvino import VERSIONS

_reference = partial(Divergence, ONNX_REFERENCE, versions=ONNX)
_reader = partial(Divergence, OPENVINO_ONNX, versions=VERSIONS)
_cpu = partial(Divergence, ONNXRUNTIME_CPU, versions=ONNXRUNTIME)
_provider = partial(Divergence, ONNXRUNTIME_DML, versions=DIRECTML_PROVIDER)
_invalid = partial(Defect, handling="found", kind="invalid")
_NOT_READ = Fails("FrontEnd API failed")


def _example(graph: str, opset: int = 13, shape: tuple[int, ...] | None = None, **seen: Outcome) -> Example:
    """Return a case without a right result; `seen` has outcomes by `cpu`, `dml`, `reference` and `reader`."""
    engines = {"cpu": ONNXRUNTIME_CPU, "dml": ONNXRUNTIME_DML, "reference": ONNX_REFERENCE, "reader": OPENVINO_ONNX}
    outcomes = {engine: seen[name] for name, engine in engines.items() if name in seen}
    return Example(OnnxCase(graph, opset, shape), right=Fails(), seen=outcomes)


def _split(sizes: str) -> str:
    """Return the graph of a Split of 4 elements into two outputs of written sizes."""
    constant = f"int64[{sizes.count(',') + 1}] split = {{{sizes}}}"
    return f"(float[4] x) => (float[a] y, float[b] z) <{constant}> {{ y, z = Split(x, split) }}"


def _slice(bounds: str, axes: str = "int64[1] axes = {0}") -> str:
    """Return the graph of a Slice of 4 elements, by declarations of its starts and ends and of its axes."""
    return f"(float[4] x) => (float[n] y) <{bounds}, {axes}> {{ y = Slice(x, starts, ends, axes) }}"


NOT_VALID = _invalid(
    id="not valid",
    trigger="a node that breaks a rule of its operator",
    right="by the page of the operator, no result is right",
    divergences=(_reference("does not check all rules, and computes from what it reads"),),
    examples=(
        _example(
            _slice("int64[2] starts = {0, 1}, int64[2] ends = {3, 4}", "int64[2] axes = {0, 0}"),
            cpu=Fails("referred to more than once"),
            dml=Fails("referred to more than once"),
            reference=gives((1, 2, 3)),
            reader=_NOT_READ,
        ),
    ),
    workaround="correct the node where the model is exported",
)
NOT_A_LIST = _invalid(
    id="parameters that are no lists",
    trigger="a Slice or Split with a parameter that does not have one dimension",
    right="by Slice-13, starts, ends, axes and steps are 1-D tensors",
    divergences=(_provider("reads the elements as a list"), _reference("computes a Slice whose ends are a scalar")),
    examples=(
        _example(
            _slice("int64[1] starts = {0}, int64 ends = {2}"),
            cpu=Fails("Ends must be a 1-D array"),
            dml=gives((0, 1)),
            reference=gives((0, 1)),
            reader=_NOT_READ,
        ),
        _example(
            _slice("int64[1, 1] starts = {1}, int64[1, 1] ends = {3}"),
            cpu=Fails("Starts must be a 1-D array"),
            dml=gives((1, 2)),
            reader=_NOT_READ,
        ),
    ),
    workaround="give the parameter the shape [n]",
)
WRONG_SIZES = _invalid(
    id="sizes that do not fit",
    trigger="a Split with sizes that are negative or do not add up to the size of the axis",
    right="by Split-13, sizes are 0 or more, and add up to the size of the axis",
    divergences=(
        _reference("slices by the running sums of the sizes, so that elements are left out or two parts share some"),
    ),
    examples=(
        _example(
            _split("6, -2"),
            cpu=Fails("Invalid value in 'split' input"),
            dml=Fails("narrowing_error"),
            reference=gives((0, 1, 2, 3), ()),
            reader=_NOT_READ,
        ),
        _example(
            _split("1, 2"),
            cpu=Fails("Mismatch between the sum"),
            dml=Fails("Mismatch between the sum"),
            reference=gives((0,), (1, 2)),
            reader=_NOT_READ,
        ),
    ),
    workaround="write sizes that add up to the size of the axis",
)
_IGNORES_SIZES = "ignores the sizes without an output"
WRONG_COUNT = _invalid(
    id="sizes unlike the outputs",
    trigger="a Split whose number of sizes is not that of its outputs",
    right="by Split-13, there is one size for each output",
    divergences=(_reference(_IGNORES_SIZES), _reader(_IGNORES_SIZES)),
    examples=(
        _example(
            _split("1, 2, 1"),
            cpu=Fails("Mismatch between number of splits"),
            reference=gives((0,), (1, 2)),
            reader=gives((0,), (1, 2)),
        ),
    ),
    workaround="write a size for each output",
)
_SMALLER_LAST = "computes a smaller last part, as by Split-18"
UNEVEN_PARTS = _invalid(
    id="uneven parts without sizes",
    trigger="a Split below opset 18 without sizes, of an axis that does not divide into equal parts",
    right="by Split-13, the parts have equal sizes if `split` is left out",
    divergences=(_reference(_SMALLER_LAST), _reader(_SMALLER_LAST)),
    examples=(
        _example(
            "(float[5] x) => (float[a] y, float[b] z) { y, z = Split(x) }",
            cpu=Fails("not evenly splittable"),
            dml=Fails("not evenly splittable"),
            reference=gives((0, 1, 2), (3, 4)),
            reader=gives((0, 1, 2), (3, 4)),
        ),
    ),
    workaround="write the sizes into `split`",
)
_DROPS_PARTS = "splits by num_outputs, and drops the parts without an output"
NUM_OUTPUTS_UNLIKE = _invalid(
    id="num_outputs unlike the outputs",
    trigger="a Split whose num_outputs is greater than its number of outputs",
    right="by Split-18, num_outputs is the number of parts, and every part is an output",
    divergences=(
        _cpu("splits by the number of outputs", issues=("onnx/onnx#8255", "onnx/onnx#8275")),
        _reference(_DROPS_PARTS),
        _reader(_DROPS_PARTS),
    ),
    examples=(
        _example(
            "(float[6] x) => (float[a] y, float[b] z) { y, z = Split<num_outputs = 3>(x) }",
            18,
            cpu=gives((0, 1, 2), (3, 4, 5)),
            dml=Fails("80070057 Invalid parameter"),
            reference=gives((0, 1), (2, 3)),
            reader=gives((0, 1), (2, 3)),
        ),
    ),
    workaround="set num_outputs to the number of outputs, or name the outputs that are missing",
)
FEWER_NUM_OUTPUTS = _invalid(
    id="num_outputs below the outputs",
    trigger="a Split whose num_outputs is less than its number of outputs",
    right="by Split-18, num_outputs is the number of parts, and every output is a part",
    divergences=(_cpu("ends the process while it loads the model", is_unsafe=True),),
    examples=(
        _example(
            "(float[4] x) => (float[a] y, float[b] z, float[c] w) { y, z, w = Split<num_outputs = 2>(x) }",
            18,
            cpu=EndsProcess(6),
        ),
    ),
    workaround="set num_outputs to the number of outputs",
)
FIXED_AXIS = Defect(
    id="sizes that fix an open axis",
    trigger="a Split with constant sizes along an axis whose size the model leaves open",
    right="by Split-13, the sizes add up to the size of the axis, so that the model is right for one size only",
    divergences=(_reference("drops the elements behind the last part, without an error"),),
    examples=(
        _example(
            "(float[n] x) => (float[a] y) <int64[1] split = {1}> { y = Split(x, split) }",
            shape=(3,),
            cpu=Fails("Cannot split using values in 'split' attribute"),
            dml=Fails("80070057 Invalid parameter"),
            reference=gives((0,)),
            reader=Fails("sum_of_s"),
        ),
    ),
    handling="found",
    workaround="declare the axis with that size, or export the model with sizes that follow from the axis",
    kind="fragile",
)
