"""Defects of onnxruntime's providers and of onnx's reference evaluator with slicing.

Elements of examples are indices of the data. The data are 1001, 1002 and so on, so that their Sigmoid is 1.
"""

from __future__ import annotations

from functools import partial

from sliceport.defects.cases import OnnxCase
from sliceport.defects.defect import Defect, Divergence, EndsProcess, Example, Fails, Unwritten, gives
from sliceport.defects.engines import (
    ONNX_REFERENCE,
    ONNXRUNTIME_CPU,
    ONNXRUNTIME_CPU_OPTIMIZED,
    ONNXRUNTIME_DML,
    OPENVINO_ONNX,
)

ONNX = ("1.23.2",)
ONNXRUNTIME = ("1.31.1",)
DIRECTML_PROVIDER = ("1.24.4",)
INT32_MAX, INT32_MIN = 2**31 - 1, -(2**31)
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)

_directml = partial(Divergence, ONNXRUNTIME_DML, versions=DIRECTML_PROVIDER)
_cpu = partial(Divergence, ONNXRUNTIME_CPU, versions=ONNXRUNTIME)

REFUSES_TO_LOAD = Fails("80070057 Invalid parameter")
NEVER_WRITES = "skips every node that it fuses with the empty one, so that their outputs are never written"
SPLITS_EVENLY = "ignores the empty list and splits evenly"


def slice_graph(start: int, end: int, step: int, *, axes: str = "axes") -> str:
    """Return the graph of a Slice of a vector of 4 elements; an empty `axes` leaves this input out."""
    bounds = {"starts": start, "ends": end, "axes": 0, "steps": step}
    constants = ", ".join(f"int64[1] {name} = {{{value}}}" for name, value in bounds.items() if axes or name != "axes")
    return f"(float[4] x) => (float[n] y) <{constants}> {{ y = Slice(x, starts, ends, {axes}, steps) }}"


# The DirectML provider.

ONE_PART_GATES_ANOTHER = Defect(
    id="one part gates another",
    trigger="a Split whose part p is multiplied by the Sigmoid of another part q, as in a GLU",
    right="by Mul-13 and Sigmoid-13, the result is p * Sigmoid(q)",
    divergences=(
        _directml(
            "fuses the two and computes q * Sigmoid(q)",
            issues=("microsoft/onnxruntime#32146",),
        ),
    ),
    examples=(
        Example(
            OnnxCase("(float[4] x) => (float[n] y) { p, q = Split(x)  s = Sigmoid(q)  y = Mul(p, s) }"),
            right=gives((0, 1)),
            seen={ONNXRUNTIME_CPU: gives((0, 1)), ONNXRUNTIME_DML: gives((2, 3))},
        ),
    ),
    workaround="each part becomes a Slice; no pass of `rewrite` makes such a Split",
)
EMPTY_PART = Defect(
    id="a part is empty",
    trigger="a Split with an empty part",
    right="by Split-13, split [0, 4] gives nothing and the whole input",
    divergences=(_directml(NEVER_WRITES, issues=("microsoft/onnxruntime#25496",)),),
    examples=(
        Example(
            OnnxCase("(float[4] x) => (float[a] y, float[b] z) <int64[2] split = {0, 4}> { y, z = Split(x, split) }"),
            right=gives((), (0, 1, 2, 3)),
            seen={ONNXRUNTIME_CPU: gives((), (0, 1, 2, 3)), ONNXRUNTIME_DML: Unwritten()},
        ),
    ),
    workaround="parts become Slices, and empty parts of a known shape constants",
)
NOTHING_SELECTED = Defect(
    id="nothing is selected",
    trigger="a Slice that selects nothing",
    right="by Slice-13, its output is empty, and no other output depends on it",
    divergences=(_directml(NEVER_WRITES, issues=("microsoft/onnxruntime#25496",)),),
    examples=(
        Example(
            OnnxCase(
                "(float[4] x) => (float[n] y, float[m] z) <int64[1] two = {2}, int64[1] four = {4}> "
                "{ z = Slice(x, two, two)  y = Slice(x, two, four) }"
            ),
            right=gives((2, 3), ()),
            seen={ONNXRUNTIME_CPU: gives((2, 3), ()), ONNXRUNTIME_DML: Unwritten()},
        ),
    ),
    workaround="it becomes a constant if its shape is known",
)
STEPS_WITHOUT_AXES = Defect(
    id="steps without axes",
    trigger="a Slice with steps and without axes",
    right="by Slice-13, axes that are left out are [0, 1, ...]",
    divergences=(_directml("refuses the model"),),
    examples=(
        Example(
            OnnxCase(slice_graph(0, 4, 2, axes="")),
            right=gives((0, 2)),
            seen={ONNXRUNTIME_CPU: gives((0, 2)), ONNXRUNTIME_DML: REFUSES_TO_LOAD},
        ),
    ),
    workaround="it gets explicit axes",
)
FROM_THE_LEAST = Defect(
    id="from the least integer to a negative end",
    trigger="a Slice with a positive step that starts at -2^31 or below and has a negative end",
    right="by Slice-13, a start is clamped to [0, dim] for a positive step, so that the Slice starts at index 0",
    divergences=(_directml("refuses the model"),),
    examples=tuple(
        Example(
            OnnxCase(slice_graph(start, -1, 1)),
            right=gives((0, 1, 2)),
            seen={ONNXRUNTIME_CPU: gives((0, 1, 2)), ONNXRUNTIME_DML: REFUSES_TO_LOAD},
        )
        for start in (INT64_MIN, INT32_MIN)
    ),
    workaround="its start becomes 0",
)
ALLOWZERO = Defect(
    id="allowzero and a -1",
    trigger="a Reshape with allowzero=1 and a -1 in its shape, as torch's dynamo exporter writes it",
    right="by Reshape-14, allowzero=1 forbids a 0 beside a -1, and has no other effect beside a -1",
    divergences=(_directml("refuses the model"),),
    examples=(
        Example(
            OnnxCase(
                "(float[4] x) => (float[n, m] y) <int64[2] shape = {2, -1}> { y = Reshape<allowzero = 1>(x, shape) }",
                14,
            ),
            right=gives((0, 1, 2, 3), shape=(2, 2)),
            seen={ONNXRUNTIME_CPU: gives((0, 1, 2, 3), shape=(2, 2)), ONNXRUNTIME_DML: REFUSES_TO_LOAD},
        ),
    ),
    workaround="its allowzero is removed",
)
MORE_THAN_EIGHT_AXES = Defect(
    id="more than 8 axes",
    trigger="a Slice or Split of more than 8 axes",
    right="by Slice-13 and Split-13, a tensor may have any rank",
    divergences=(_directml("refuses the model, as it does with any operator"),),
    examples=(
        Example(
            OnnxCase(
                "(float[1,1,1,1,1,1,1,1,4] x) => (float[1,1,1,1,1,1,1,1,n] y) "
                "<int64[1] starts = {1}, int64[1] ends = {3}, int64[1] axes = {8}> { y = Slice(x, starts, ends, axes) }"
            ),
            right=gives((1, 2), shape=(1, 1, 1, 1, 1, 1, 1, 1, 2)),
            seen={
                ONNXRUNTIME_CPU: gives((1, 2), shape=(1, 1, 1, 1, 1, 1, 1, 1, 2)),
                ONNXRUNTIME_DML: REFUSES_TO_LOAD,
            },
        ),
        Example(
            OnnxCase(
                "(float[1,1,1,1,1,1,1,1,4] x) => (float[1,1,1,1,1,1,1,1,2] y, float[1,1,1,1,1,1,1,1,2] z) "
                "{ y, z = Split<axis = 8>(x) }"
            ),
            right=gives((0, 1), (2, 3), shape=(1, 1, 1, 1, 1, 1, 1, 1, 2)),
            seen={ONNXRUNTIME_DML: REFUSES_TO_LOAD},
        ),
    ),
    handling="named",
    workaround="a Reshape to fewer axes is refused, too",
)
MATMUL_OF_MANY_AXES = Defect(
    id="matmul of more than 4 axes",
    trigger="a MatMul of a tensor of more than 4 axes",
    right="by MatMul-13, it behaves like numpy.matmul, which takes any number of axes",
    divergences=(_directml("refuses the model", issues=("microsoft/onnxruntime#21583",)),),
    examples=(
        Example(
            OnnxCase(
                "(float[1,1,1,2,2] x) => (float[1,1,1,2,2] y) <float[2,2] one = {1, 0, 0, 1}> { y = MatMul(x, one) }"
            ),
            right=gives((0, 1, 2, 3), shape=(1, 1, 1, 2, 2)),
            seen={
                ONNXRUNTIME_CPU: gives((0, 1, 2, 3), shape=(1, 1, 1, 2, 2)),
                ONNXRUNTIME_DML: REFUSES_TO_LOAD,
            },
        ),
    ),
    workaround="a Reshape before it joins the leading axes, and one behind it parts them again",
)
EINSUM_OF_NO_MATMUL = Defect(
    id="einsum that no matrix product computes",
    trigger="an Einsum of two tensors that sums over more than one label, sums over one of labels that both tensors "
    "have, or has more than 5 labels",
    right="by Einsum-12, the products of elements are summed along the labels that the output lacks",
    divergences=(_directml("ends the process unless it fuses the node, which it does not in a model of open sizes"),),
    examples=(
        Example(
            OnnxCase(
                "(float[n,2] x) => (float[m] y) <float[2,2] one = {1, 0, 0, 1}> "
                '{ y = Einsum<equation = "ab,ab->a">(x, one) }',
                shape=(2, 2),
            ),
            right=gives((0, 3)),
            seen={ONNXRUNTIME_CPU: gives((0, 3)), ONNXRUNTIME_DML: EndsProcess(11)},
        ),
    ),
    workaround="it becomes a MatMul",
)
EINSUM_DROPS_A_LABEL = Defect(
    id="einsum that drops a label",
    trigger="an Einsum of two tensors that sums over one label, with more other labels than one of each tensor's own "
    "and two",
    right="by Einsum-12, the output has an axis for each of its labels",
    divergences=(_directml("computes one element of an axis, and does not write the others"),),
    examples=(
        Example(
            OnnxCase(
                "(float[1,1,1,1,2] x) => (float[1,1,1,2] y) <float[1,1,1] one = {1}> "
                '{ y = Einsum<equation = "abj,abjrs->abrs">(one, x) }'
            ),
            right=gives((0, 1), shape=(1, 1, 1, 2)),
            seen={ONNXRUNTIME_CPU: gives((0, 1), shape=(1, 1, 1, 2)), ONNXRUNTIME_DML: Unwritten()},
        ),
    ),
    workaround="it becomes a MatMul",
)
CONV_TRANSPOSE_PADDING = Defect(
    id="output_padding of one axis",
    trigger="a ConvTranspose of one spatial axis with an output_padding, even of 0, below opset 22",
    right="by ConvTranspose-11, output_padding adds that many elements at the end of the axis",
    divergences=(
        _directml("refuses the model", issues=("elbruno/ElBruno.VibeVoiceTTS#6", "elbruno/ElBruno.QwenTTS#7")),
    ),
    examples=tuple(
        Example(
            OnnxCase(
                "(float[1,1,2] x) => (float[1,1,n] y) <float[1,1,2] w = {1, 0}> "
                f"{{ y = ConvTranspose<strides = [2], pads = [0, 1], output_padding = [{extra}]>(x, w) }}"
            ),
            right=gives(elements, shape=(1, 1, 3 + extra)),
            seen={ONNXRUNTIME_CPU: gives(elements, shape=(1, 1, 3 + extra)), ONNXRUNTIME_DML: REFUSES_TO_LOAD},
        )
        for extra, elements in ((0, (0, -1001, 1)), (1, (0, -1001, 1, -1001)))
    ),
    workaround="its output_padding is removed, and the pad at the end made smaller by it",
)

# Nodes about which engines disagree.

BACKWARD_TO_THE_GREATEST = Defect(
    id="backward slice to the greatest integer",
    trigger="a Slice with a negative step that ends at INT64_MAX or INT32_MAX",
    right="by Slice-13, ends of a negative step are clamped to [-1, dim - 1], so that nothing is selected",
    divergences=(
        _cpu(
            "reads INT64_MAX and INT32_MAX as no limit and continues to element 0",
            issues=("microsoft/onnxruntime#11107", "microsoft/onnxruntime#2272"),
        ),
    ),
    examples=tuple(
        Example(
            OnnxCase(slice_graph(-1, end, -1)),
            right=gives(()),
            seen={
                ONNXRUNTIME_CPU: gives((3, 2, 1, 0)),
                ONNXRUNTIME_DML: gives(()),
                ONNX_REFERENCE: gives(()),
                OPENVINO_ONNX: gives(()),
            },
        )
        for end in (INT64_MAX, INT32_MAX)
    ),
    handling="named",
    workaround="INT64_MIN as the end reverses the axis on every engine",
    is_contested=True,
)
DROPPED_STEPS = Defect(
    id="steps without axes over whole axes",
    trigger="a Slice with steps and without axes that starts at 0 and ends at INT64_MAX",
    right="by Slice-13, steps apply with and without axes",
    divergences=(
        Divergence(ONNXRUNTIME_CPU_OPTIMIZED, "drops the node, its steps included (EliminateSlice)", ONNXRUNTIME),
        _directml("refuses the model"),
    ),
    examples=(
        Example(
            OnnxCase(
                f"(float[6] x) => (float[n] y) <int64[1] starts = {{0}}, int64[1] ends = {{{INT64_MAX}}}, "
                "int64[1] steps = {2}> { a = Neg(x)  b = Slice(a, starts, ends, , steps)  y = Neg(b) }"
            ),
            right=gives((0, 2, 4)),
            seen={
                ONNXRUNTIME_CPU: gives((0, 2, 4)),
                ONNXRUNTIME_CPU_OPTIMIZED: gives((0, 1, 2, 3, 4, 5)),
                ONNXRUNTIME_DML: REFUSES_TO_LOAD,
            },
        ),
    ),
    handling="named",
    workaround="with explicit axes, all engines take every n-th element",
    is_contested=True,
)
EMPTY_LAST_PART = Defect(
    id="num_outputs that leaves the last part empty",
    trigger="a Split by num_outputs whose last part is empty",
    right="by Split-18, parts have ceil(dim / num_outputs) elements and the last one the rest: 2, 2 and 0 of 4",
    divergences=(
        _cpu("computes the full size for the last part, and fails"),
        _directml(NEVER_WRITES, issues=("microsoft/onnxruntime#25496",)),
    ),
    examples=(
        Example(
            OnnxCase(
                "(float[4] x) => (float[a] y, float[b] z, float[c] w) { y, z, w = Split<num_outputs = 3>(x) }", 18
            ),
            right=gives((0, 1), (2, 3), ()),
            seen={
                ONNXRUNTIME_CPU: Fails("Split size 2 exceeds the remaining size of the selected axis, 0"),
                ONNXRUNTIME_DML: Unwritten(),
            },
        ),
    ),
    handling="named",
    workaround="explicit sizes in `split` are right on the CPU provider, and `harden` rewrites them for DirectML",
    is_contested=True,
)
BELOW_THE_AXIS = Defect(
    id="backwards from below the axis",
    trigger="a Slice with a negative step that starts below the axis",
    right="by Slice-13, a start is clamped to [0, dim - 1] for a negative step, so that the Slice starts at index 0",
    divergences=(
        _directml("refuses the model"),
        Divergence(ONNX_REFERENCE, "slices like NumPy, which selects nothing", ONNX),
    ),
    examples=(
        Example(
            OnnxCase(slice_graph(-100, -200, -1)),
            right=gives((0,)),
            seen={
                ONNXRUNTIME_CPU: gives((0,)),
                ONNXRUNTIME_DML: REFUSES_TO_LOAD,
                ONNX_REFERENCE: gives(()),
            },
        ),
    ),
    workaround="its start becomes 0",
    is_contested=True,
)

# The CPU provider.

OUTPUT_LEFT_OUT = Defect(
    id="an output is left out",
    trigger="a Split with an output that has no name",
    right="by the ONNX specification, trailing outputs may be left out, by an empty name",
    divergences=(_cpu("ends the process", is_unsafe=True),),
    examples=(
        Example(
            OnnxCase('(float[4] x) => (float[n] y) <int64[2] split = {1, 3}> { y, "" = Split(x, split) }'),
            right=gives((0,)),
            seen={ONNXRUNTIME_CPU: EndsProcess(11)},
        ),
    ),
    handling="found",
    workaround="`compare`, `rewrite` and `harden` give such outputs names before they run or write a model",
)
NO_PARTS = Defect(
    id="an empty list of parts",
    trigger="a Split by an empty list of parts, of data whose sizes are open",
    right="by Split-13, there is one size per output, and the sizes add up to the size of the axis",
    divergences=(
        _cpu(SPLITS_EVENLY),
        _directml(SPLITS_EVENLY),
    ),
    examples=(
        Example(
            OnnxCase(
                "(float[n] x) => (float[a] y, float[b] z) <int64[0] split = {}> { y, z = Split(x, split) }", shape=(4,)
            ),
            right=Fails(),
            seen={ONNXRUNTIME_CPU: gives((0, 1), (2, 3)), ONNXRUNTIME_DML: gives((0, 1), (2, 3))},
        ),
    ),
    handling="found",
    workaround="write a size for each output",
    kind="invalid",
)
