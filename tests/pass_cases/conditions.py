"""Each condition of each rule: a case that meets it, and one that does not with the reason that the pass gives.

A model is written as the examples in the docstrings of passes. `L` and `M` are the least and the greatest int64.
"""

from __future__ import annotations

from functools import partial
from typing import Generic, TypeVarTuple

import onnx
from pass_cases.examples import OPSET, build_model

from onnx_ops.passes.reshape_fusion import WOULD_FAIL

Model = str | partial[onnx.ModelProto] | onnx.ModelProto
"""A model, or how to build it."""
Reason = TypeVarTuple("Reason")


class Cases(dict[str, tuple[str, Model, *Reason]], Generic[*Reason]):
    """By name a pass, a model, and for some cases a reason; a model is built when its case is asked for."""

    def __getitem__(self, case: str) -> tuple[str, onnx.ModelProto, *Reason]:
        name, model, *reason = super().__getitem__(case)
        if not isinstance(model, onnx.ModelProto):
            model = build_model(model) if isinstance(model, str) else model()
        built = (name, model, *reason)
        self[case] = built  # type: ignore[assignment]
        return built  # type: ignore[return-value]


def model(text: str, *, opset: int = OPSET, outputs: str = "") -> Model:
    """Return how to build a model of another operator set or with other outputs; see `build_model`."""
    return partial(build_model, text, opset=opset, outputs=outputs)


FIRES: Cases[()] = Cases(
    {
        "strided cut": ("strided", "y = StridedSlice(x[4, n], [1, 0], [3, -1], [1, 2])"),
        "strided dropped": ("strided", "y = StridedSlice(x[4, 6], [-1, 0], [0, 9], [1, 1], shrink_axis_mask=[1])"),
        "strided dropped open": ("strided", "y = StridedSlice(x[n, 6], [1, 0], [0, 9], [1, 1], shrink_axis_mask=[1])"),
        "strided new": (
            "strided",
            "y = StridedSlice(x[4, 6], [0, 1, 0], [0, 3, 0], [1, 1, 1], new_axis_mask=[1, 0, 1])",
        ),
        "strided masks": (
            "strided",
            "y = StridedSlice(x[4, 6], [3, 3, 0], [1, 1, 0], [-1, -2, 1], begin_mask=[1], end_mask=[0, 1], "
            "new_axis_mask=[0, 0, 1])",
        ),
        "strided ellipsis": (
            "strided",
            "y = StridedSlice(x[4, n, 6], [1, 0, 0, 2], [0, 0, 0, 5], [1, 1, 1, 1], ellipsis_mask=[0, 1], "
            "new_axis_mask=[0, 0, 1], shrink_axis_mask=[1])",
        ),
        "strided whole": ("strided", "y = StridedSlice(x[4, 6], [0], [9], [1])"),
        "strided contested": ("strided", "y = StridedSlice(x[4, 6], [-1], [M], [-1])"),
        "strided contested open": ("strided", "y = StridedSlice(x[n, 6], [-1], [M], [-1])"),
        "compose known": ("compose", "a = Slice(x[9], [-1], [L], [0], [-2]); y = Slice(a, [1], [3], [0], [1])"),
        "compose open": ("compose", "a = Slice(x[n], [1], [9], [0], [1]); y = Slice(a, [2], [M], [0], [1])"),
        "compose other axes": (
            "compose",
            "a = Slice(x[n, m], [-3], [-1], [0], [1]); y = Slice(a, [-1], [L], [1], [-1])",
        ),
        "compose through Identity": (
            "compose",
            "a = Slice(x[9], [1], [8], [0], [1]); b = Identity(a); y = Slice(b, [1], [3], [0], [1])",
        ),
        "identity known": ("identity", "a = Slice(x[4], [-9], [9], [0], [1]); y = Neg(a)"),
        "identity open": ("identity", "a = Slice(x[n], [0], [M], [0], [1]); y = Neg(a)"),
        "identity of one part": ("identity", "a = Split(x[4], [4]); y = Neg(a)"),
        "identity unread": ("identity", "a = Slice(x[4], [1], [2], [0], [1]); y = Neg(x)"),
        "identity of an axis": ("identity", "y = Slice(x[4, 4], [0, 1], [4, 2])"),
        "identity that comes out": ("identity", "y = Slice(x[4], [0], [4], [0], [1])"),
        "merge spelled otherwise": (
            "merge",
            "a = Slice(x[4], [1], [3], [0], [1]); b = Slice(x, [1], [3]); y = Add(a, b)",
        ),
        "merge open": (
            "merge",
            "a = Slice(x[n], [-3], [-1], [0], [1]); b = Slice(x, [-3], [-1], [0], [1]); y = Add(a, b)",
        ),
        "merge Gathers": ("merge", "a = Gather(x[4], 1); b = Gather(x, -3); y = Add(a, b)"),
        "merge Shapes": ("merge", "s = Shape(x[n]); t = Shape(x); a = Gather(s, 0); b = Gather(t, 0); y = Add(a, b)"),
        "merge with a part": ("merge", "a, b = Split(x[4], [1, 3]); c = Slice(x, [1], [4], [0], [1]); y = Add(b, c)"),
        "merge with a part of one": ("merge", "a, b = Split(x[4], [1, 3]); c = Gather(x, 0); y = Mul(b, c)"),
        "merge Splits": (
            "merge",
            "a, b = Split(x[4], [1, 3]); c, d, e = Split(x, [1, 0, 3]); f = Mul(a, e); y = Mul(b, f)",
        ),
        "split": ("split", "a, b = Split(x[4], [1, 3]); y = Neg(b)"),
        "part": ("part", "a, b = Split(x[4], [1, 3]); y = Slice(b, [1], [2], [0], [1])"),
        "concat": ("concat", "a = Concat(x[4], x, axis=0); y = Slice(a, [5], [7], [0], [1])"),
        "concat backwards": ("concat", "a = Concat(x[4], x, axis=0); y = Slice(a, [3], [L], [0], [-1])"),
        "concat other axes": ("concat", "a = Concat(x[4, n], x, axis=0); y = Slice(a, [4, 1], [8, 2])"),
        "concat Split": ("concat", "m = Neg(x[4]); a = Concat(x, m, axis=0); b, c = Split(a, [4, 4]); y = Sub(b, c)"),
        "gather upwards": ("gather", "y = Gather(x[9], [1, 2, 3])"),
        "gather progression": ("gather", "y = Gather(x[9], [-1, 6, 4])"),
        "gather one of a list": ("gather", "y = Gather(x[9], [5])"),
        "chain Squeeze between": (
            "chain",
            "a = Slice(x[4, 6], [1], [2], [0], [1]); b = Squeeze(a, [0]); y = Slice(b, [2], [5], [0], [1])",
        ),
        "chain axis stays": ("chain", "a = Gather(x[4, 6], 1); y = Unsqueeze(a, [0])"),
        "chain Gather of Gather": ("chain", "a = Gather(x[4, 6], 1); y = Gather(a, 2)"),
        "chain to Gather": ("chain", "a = Slice(x[9], [2], [8], [0], [1]); y = Gather(a, 3)"),
        "chain new axis whole": (
            "chain",
            "a = Slice(x[9], [2], [8], [0], [1]); b = Unsqueeze(a, [0]); y = Slice(b, [0], [3], [1], [1])",
        ),
        "chain before a Slice that composes in one axis": (
            "chain",
            "a = Slice(x[6, n], [-3], [M], [1], [1]); b = Squeeze(Unsqueeze(a, [0]), [0]); "
            "y = Slice(b, [1, -2], [M, M])",
        ),
        "siblings": ("siblings", "y = Slice(x[4], [0], [1], [0], [1]); z = Slice(x, [1], [4], [0], [1])"),
        "siblings by chance": (
            "siblings",
            "a = Slice(x[4, n], [2], [M], [0], [1]); b = Gather(x, 0); c = Slice(x, [1], [2], [0], [1]); "
            "d = Slice(x, [0], [3], [0], [1]); y = Concat(a, c, d, axis=0); z = Neg(b)",
        ),
        "siblings of single indices": (
            "siblings",
            model("y0 = Gather(x[3, n], 0); y1 = Gather(x, 1); y2 = Gather(x, 2)", outputs="y0 y1 y2"),
        ),
        "siblings of a single index and the rest": (
            "siblings",
            "y = Gather(x[4, n], 0); z = Slice(x, [1], [M], [0], [1])",
        ),
        "siblings with a Split": (
            "siblings",
            "a, b, c = Split(x[4], [1, 2, 1]); d = Slice(x, [1], [3], [0], [1]); e = Concat(c, d, axis=0); "
            "y = Mul(a, e)",
        ),
        "siblings with a small gap": (
            "siblings",
            "y = Slice(x[4, 256], [0], [1], [0], [1]); z = Slice(x, [3], [4], [0], [1])",
        ),
        "nested": ("nested", "a, b = Split(x[8], [4, 4]); c, d = Split(b, [1, 3]); y = Concat(d, a, c, axis=0)"),
        "nested in a Slice": ("nested", "a = Slice(x[8], [2], [8], [0], [1]); b, c = Split(a, [1, 5]); y = Mul(b, c)"),
        "fold constant": ("fold", "a = Slice(floats(3), [0], [2], [0], [1]); y = Mul(a, x[2])"),
        "fold Shape": ("fold", "s = Shape(x[n, 4]); a = Slice(s, [1], [2], [0], [1]); y = Add(a, [1])"),
        "fold integers": (
            "fold",
            "s = Shape(x[4, 2]); t = Mul(s, s); a = Gather(t, 0); b = Cast(a, to=1); y = Mul(x, b)",
        ),
        "fold bounds": ("fold", "s = Shape(x[4]); e = Sub(s, [1]); y = Slice(x, [0], e)"),
        "fold a Shape as bounds": ("fold", "s = Shape(x[4]); y = Slice(x, [1], s)"),
        "fold nothing": ("fold", "a = Slice(x[4], [2], [2], [0], [1]); y = Concat(a, x, axis=0)"),
        "fold Shape of a slice": (
            "fold",
            model(
                "a = Slice(x[4], [1], [3], [0], [1]); s = Shape(a); e = Expand(x, [3, 4]); t = Tile(e, [2, 1]); "
                "y = Add(s, [0])",
                outputs="y t",
            ),
        ),
        "fold size beside an open one": (
            "fold",
            "s = Shape(x[n, 6]); a = Gather(s, [0]); b = Gather(s, [1]); t = Concat(a, b, axis=0); "
            "y = Reshape(Reshape(x, t), [-1])",
        ),
        "fold size beside two open ones and a 0": (
            "fold",
            "s = Shape(x[n, m, 6, k]); a = Gather(s, [1]); b = Gather(s, [2]); c = Gather(s, [3]); "
            "t = Concat([0], a, b, c, axis=0); y = Reshape(Reshape(x, t), [-1])",
        ),
        "fold size in a shape that fails at size 0 anyway": (
            "fold",
            "s = Shape(x[n, 6, h, w]); a = Unsqueeze(Gather(s, 0), [0]); b = Unsqueeze(Gather(s, 1), [0]); "
            "c = Unsqueeze(Mul(Gather(s, 2), Gather(s, 3)), [0]); t = Concat(a, b, c, axis=0); "
            "y = Reshape(Reshape(x, t), [-1])",
        ),
        "chain in a shape without a 0": (
            "chain",
            "s = Shape(x[n, m]); a = Unsqueeze(Gather(s, 1), [0]); t = Concat([-1], a, axis=0); "
            "y = Reshape(Reshape(x, t), [-1])",
        ),
        "scalar": ("scalar", "y = Gather(x[4, 3], -1, axis=1)"),
        "up Transpose": ("up", "a = Transpose(x[4, 6], perm=[1, 0]); y = Slice(a, [1], [3], [0], [1])"),
        "up Transpose reversed": ("up", "a = Transpose(x[4, 6, 2]); y = Slice(a, [1], [3], [1], [1])"),
        "up Unsqueeze": ("up", "a = Unsqueeze(x[4], [0]); y = Slice(a, [1], [3], [1], [1])"),
        "up Squeeze": ("up", "a = Squeeze(x[1, 4], [0]); y = Slice(a, [1], [3], [0], [1])"),
        "up Reshape": ("up", "a = Reshape(x[2, 3, 4], [6, 4]); y = Slice(a, [1], [3], [1], [1])"),
        "up elementwise": ("up", "a = Mul(x[4, 6], [[2.0], [3.0], [4.0], [5.0]]); y = Slice(a, [1], [3], [1], [1])"),
        "up Expand": ("up", "a = Expand(x[1, 6], [4, 6]); y = Slice(a, [0, 1], [2, 3])"),
    }
)
STAYS: Cases[str | None] = Cases(
    {
        "strided rank": ("strided", "y = StridedSlice(x, [0], [1])", "rank of its data is not known"),
        "strided run-time": ("strided", "s = Shape(x[2, 3]); y = StridedSlice(x, s, s)", "not a constant"),
        "strided beyond": (
            "strided",
            "y = StridedSlice(x[2, n], [2], [3], shrink_axis_mask=[1])",
            "shrinks axis 0 to index 2",
        ),
        "strided step": ("strided", "y = StridedSlice(x[n], [2], [3], [0])", "is 0, but it must not be"),
        "compose open from the end": (
            "compose",
            "a = Slice(x[n], [1], [-1], [0], [1]); y = Slice(a, [0], [2], [0], [1])",
            "the size of axis 0 is not known, and no single Slice",
        ),
        "compose run-time": (
            "compose",
            "s = Shape(x[4]); a = Slice(x, [0], s); y = Slice(a, [0], [2], [0], [1])",
            "not a constant",
        ),
        "compose in a tile": (
            "compose",
            "a = Slice(x[9], [1], [5], [0], [1]); y = Slice(a, [0], [2], [0], [1]); z = Slice(a, [2], [4], [0], [1])",
            "one Split can replace it",
        ),
        "compose contested": (
            "compose",
            "a = Slice(x[n], [-1], [M], [0], [-1]); y = Slice(a, [0], [2], [0], [1])",
            "engines disagree about it",
        ),
        "compose contested second": (
            "compose",
            "a = Slice(x[9], [0], [5], [0], [1]); y = Slice(a, [-8], [L], [0], [-1])",
            "engines disagree about it",
        ),
        "identity shorter": ("identity", "y = Slice(x[4], [0], [3], [0], [1])", None),
        "identity open and bounded": ("identity", "y = Slice(x[n], [0], [2147483647], [0], [1])", None),
        "identity of one part, open": ("identity", "y = Split(x[n], [4])", "is not known"),
        "merge others": ("merge", "y = Slice(x[4], [0], [3], [0], [1]); z = Slice(x, [0], [2], [0], [1])", None),
        "merge of others": (
            "merge",
            "m = Neg(x[4]); y = Slice(x, [0], [3], [0], [1]); z = Slice(m, [0], [3], [0], [1])",
            None,
        ),
        "split two read": ("split", "y, z = Split(x[4], [1, 3])", None),
        "split open": ("split", "a, y = Split(x[n], [1, 3])", "is not known"),
        "part open": ("part", "a, b = Split(x[n], [1, 3]); y = Slice(b, [1], [2], [0], [1])", "is not known"),
        "concat of two": (
            "concat",
            "a = Concat(x[4], x, axis=0); y = Slice(a, [3], [6], [0], [1])",
            "exactly one operand",
        ),
        "concat open": ("concat", "a = Concat(x[n], x, axis=0); y = Slice(a, [0], [1], [0], [1])", "are known"),
        "concat Split elsewhere": (
            "concat",
            "a = Concat(x[4], x, axis=0); y, z = Split(a, [3, 5])",
            "are not the operands",
        ),
        "gather repeated": ("gather", "y = Gather(x[9], [1, 1])", "not an arithmetic progression"),
        "gather jumping": ("gather", "y = Gather(x[9], [0, 1, 3])", "not an arithmetic progression"),
        "gather open": ("gather", "y = Gather(x[n], [0, 1])", "does not fail at an index out of range"),
        "gather beyond": ("gather", "y = Gather(x[2], [1, 2])", "out of range"),
        "gather old by steps": (
            "gather",
            model("y = Gather(x[9], [3, 5])", opset=9),
            "the new Slice needs step 2 on axis 0, but Slice has no steps before opset 10, and this is opset 9",
        ),
        "gather old and backwards": ("gather", model("y = Gather(x[9], [3, 2])", opset=9), "needs step -1"),
        "chain cut new axis": (
            "chain",
            "a = Slice(x[9], [2], [8], [0], [1]); b = Unsqueeze(a, [0]); y = Slice(b, [1], [1], [0], [1])",
            "it cuts a new axis",
        ),
        "chain Squeeze without axes": (
            "chain",
            "a = Slice(x[2, 3], [0], [1], [0], [1]); y = Squeeze(a)",
            "does not name its axes",
        ),
        "chain beside a sibling": (
            "chain",
            "a = Slice(x[2, 3], [0], [1], [0], [1]); y = Squeeze(a, [0]); b = Slice(x, [1], [2], [0], [1]); "
            "z = Squeeze(b, [0])",
            None,
        ),
        "chain no shorter": ("chain", "a = Slice(x[9, 2], [2], [3], [1], [1]); y = Unsqueeze(a, [0])", None),
        "siblings with a large gap": (
            "siblings",
            "y = Slice(x[4, 1024], [0], [1], [0], [1]); z = Slice(x, [3], [4], [0], [1])",
            "so that a Split would not pay",
        ),
        "siblings with an open gap": (
            "siblings",
            "y = Slice(x[4, n], [0], [1], [0], [1]); z = Slice(x, [3], [4], [0], [1])",
            "so that a Split would not pay",
        ),
        "siblings that overlap": (
            "siblings",
            "y = Slice(x[4], [0], [3], [0], [1]); z = Slice(x, [1], [4], [0], [1])",
            "so that a Split would not pay",
        ),
        "siblings of few single indices": (
            "siblings",
            model("y0 = Gather(x[2, n], 0); y1 = Gather(x, 1)", outputs="y0 y1"),
            "so that a Split would not pay",
        ),
        "siblings in a GLU": (
            "siblings",
            "a = Slice(x[4], [0], [2], [0], [1]); b = Slice(x, [2], [4], [0], [1]); c = Sigmoid(b); y = Mul(a, c)",
            "is multiplied by the Sigmoid of another",
        ),
        "siblings open": ("siblings", "y = Slice(x[n], [0], [1], [0], [1]); z = Slice(x, [1], [M], [0], [1])", None),
        "siblings of two axes": (
            "siblings",
            "y = Slice(x[4, 4], [0, 0], [1, 2]); z = Slice(x, [1], [4], [0], [1])",
            None,
        ),
        "siblings by steps": (
            "siblings",
            "y = Slice(x[4], [0], [4], [0], [2]); z = Slice(x, [1], [4], [0], [2])",
            None,
        ),
        "nested on another axis": ("nested", "y, b = Split(x[4, 4], [1, 3]); z, w = Split(b, [2, 2], axis=1)", None),
        "nested in a Slice of two axes": (
            "nested",
            "a = Slice(x[8, 4], [2, 1], [8, 3], [0, 1], [1, 1]); b, c = Split(a, [1, 5]); y = Mul(b, c)",
            None,
        ),
        "nested and read": (
            "nested",
            model("y, b = Split(x[8], [4, 4]); z, w = Split(b, [1, 3])", outputs="y b z w"),
            None,
        ),
        "nested in a GLU": (
            "nested",
            "a, b = Split(x[8], [2, 6]); c, y = Split(b, [2, 4]); d = Sigmoid(c); z = Mul(a, d)",
            "is multiplied by the Sigmoid of another",
        ),
        "merge in a GLU": (
            "merge",
            "a, b = Split(x[4], [2, 2]); c = Slice(x, [2], [4], [0], [1]); d = Sigmoid(c); y = Mul(a, d); z = Neg(b)",
            "is multiplied by the Sigmoid of another",
        ),
        "nested in a far Slice": (
            "nested",
            "a = Slice(x[2048], [0], [8], [0], [1]); y, z = Split(a, [1, 7])",
            "more than 4 KiB",
        ),
        "fold large": (
            "fold",
            "a = Slice(floats(4000), [0], [3000], [0], [1]); y = Mul(a, x[3000]); z = Neg(floats(4000))",
            None,
        ),
        "fold open Shape": ("fold", "s = Shape(x[n]); y = Slice(s, [0], [1], [0], [1])", None),
        "fold rounded": ("fold", "e = Exp(floats(3)); a = Slice(e, [0], [2], [0], [1]); y = Mul(a, x[2])", None),
        "fold run-time bounds": (
            "fold",
            "s = Shape(x[n]); e = Sub(s, [1]); y = Slice(x, [0], e)",
            "computed alike for all inputs of the model",
        ),
        "fold size beside a 0 and an open one": (
            "fold",
            "s = Shape(x[n, m, 6]); a = Gather(s, [1]); b = Gather(s, [2]); t = Concat([0], a, b, axis=0); "
            "y = Reshape(x, t)",
            WOULD_FAIL,
        ),
        "fold size 0 beside an open one": (
            "fold",
            "s = Shape(x[6, n, 0]); a = Gather(s, [1]); b = Gather(s, [2]); t = Concat([6], a, b, axis=0); "
            "y = Reshape(x, t)",
            WOULD_FAIL,
        ),
        "fold factor of a size": (
            "fold",
            "s = Shape(x[n, m, 2, 3]); a = Gather(s, [1]); b = Mul(Gather(s, [2]), [3]); "
            "t = Concat([0], a, b, axis=0); y = Reshape(x, t)",
            WOULD_FAIL,
        ),
        "fold size beside a copied one": (
            "fold",
            "s = Shape(x[n, m, 6]); a = Unsqueeze(Mul(Gather(s, 0), 1), [0]); b = Gather(s, [2]); c = Gather(s, [1]); "
            "t = Concat(a, b, c, axis=0); y = Reshape(x, t)",
            WOULD_FAIL,
        ),
        "chain of a copied size": (
            "chain",
            "s = Shape(x[n, m]); a = Unsqueeze(Gather(s, 1), [0]); t = Concat([0], a, axis=0); y = Reshape(x, t)",
            WOULD_FAIL,
        ),
        "siblings with a copied size": (
            "siblings",
            "s = Shape(x[3, n, m]); a = Slice(s, [0], [1], [0], [1]); b = Unsqueeze(Gather(s, 1), [0]); "
            "c = Slice(s, [2], [3], [0], [1]); t = Concat([3], b, [0], axis=0); y = Reshape(x, t); z = Add(a, c)",
            WOULD_FAIL,
        ),
        "merge with a copied size": (
            "merge",
            "s = Shape(x[n, m]); a = Slice(s, [1], [2], [0], [1]); b = Unsqueeze(Gather(s, 1), [0]); "
            "t = Concat([0], b, axis=0); y = Reshape(x, t); z = Neg(a)",
            WOULD_FAIL,
        ),
        "concat with a copied size": (
            "concat",
            "s = Shape(x[n, m]); a = Gather(s, [0]); b = Unsqueeze(Gather(s, 1), [0]); c = Concat(b, [5], axis=0); "
            "d, e = Split(c, [1, 1]); t = Concat(a, d, axis=0); y = Reshape(x, t)",
            WOULD_FAIL,
        ),
        "identity before a copied size": (
            "identity",
            "s = Shape(x[n, m]); a = Gather(s, [0]); b = Slice(s, [0], [2], [0], [1]); "
            "c = Unsqueeze(Gather(b, 1), [0]); t = Concat(a, c, axis=0); y = Reshape(x, t)",
            WOULD_FAIL,
        ),
        "scalar of a Shape": ("scalar", "s = Shape(x[n, 3]); y = Gather(s, 0)", None),
        "scalar open": ("scalar", "y = Gather(x[n, 3], 0)", "does not fail at an index out of range"),
        "up read twice": (
            "up",
            "a = Transpose(x[4, 6]); y = Slice(a, [1], [3], [0], [1]); z = Neg(a)",
            "the output of Transpose 'n0', which it cuts, has other readers or is an output of the graph",
        ),
        "up cut new axis": (
            "up",
            "a = Unsqueeze(x[4], [0]); y = Slice(a, [1], [1], [0], [1])",
            "it cuts an axis that Unsqueeze",
        ),
        "up joined axis": (
            "up",
            "a = Reshape(x[2, 3], [6]); y = Slice(a, [1], [3], [0], [1])",
            "axis 0 matches no input axis of Reshape",
        ),
        "up rounded": ("up", "a = Exp(x[4]); y = Slice(a, [1], [3], [0], [1])", None),
        "up fewer elements of more bytes": (
            "up",
            "y = Slice(Greater(x[6], z[6]), [0], [2], [0])",
            "moving it would not reduce the bytes that are written",
        ),
        "up not fewer bytes": (
            "up",
            "a = Add(x[4], [1.0, 2.0, 3.0, 4.0]); y = Slice(a, [0], [3], [0], [1])",
            "not reduce the bytes",
        ),
        "up open": ("up", "a = Transpose(x[n, 4]); y = Slice(a, [1], [3], [0], [1])", "not all sizes"),
    }
)


def sizes(proto: onnx.ModelProto) -> tuple[int, ...]:
    return tuple(dim.dim_value or 5 for dim in proto.graph.input[0].type.tensor_type.shape.dim)
