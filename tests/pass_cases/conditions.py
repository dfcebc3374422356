"""Each condition of each rule: a case that it holds for, and one that it does not with what is said of that one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVarTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from onnx_ops import strided_slice_op
from onnx_ops.model.io import from_proto

M, L = 2**63 - 1, -(2**63)

Written = tuple[str, list[Any], str] | tuple[str, list[Any], str, dict[str, Any]]
"""An operator, what it reads, the names of its outputs and, if it has any, its attributes."""


def build(
    shape: Sequence[int | str] | None,
    *nodes: Written,
    opset: int = 13,
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, npt.NDArray[Any]] | None = None,
) -> onnx.ModelProto:
    """Build a model of nodes (operator, inputs, outputs, attributes); lists and integers among inputs are constants."""
    made: list[onnx.NodeProto] = []
    initializers: list[onnx.TensorProto] = []
    for op_type, inputs, names, *attributes in nodes:
        read = []
        for value in inputs:
            if not isinstance(value, str):
                array = np.array(value, np.int64)
                initializers.append(numpy_helper.from_array(array, f"c{len(initializers)}"))
                value = initializers[-1].name  # noqa: PLW2901
            read.append(value)
        made.append(helper.make_node(op_type, read, names.split(), f"n{len(made)}", **(attributes or [{}])[0]))
    initializers += [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        initializers,
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ov_ext", 1)], ir_version=9
    )
    return onnx.shape_inference.infer_shapes(proto, data_prop=True)


def cut(source: str, start: int, end: int, out: str, axis: int = 0, step: int = 1) -> Written:
    return ("Slice", [source, [start], [end], [axis], [step]], out)


def build_strided(
    shape: Sequence[int | str], begin: list[int], end: list[int], strides: list[int] | None = None, **masks: list[int]
) -> onnx.ModelProto:
    """Return a model of one ov_ext::StridedSlice, which carries the operator's function."""
    lists = [begin, end] + ([] if strides is None else [strides])
    strided_slice_op.register()
    proto = build(shape, ("StridedSlice", ["x", *lists], "y", {"domain": "ov_ext", **masks}), opset=17)
    strided_slice_op.deregister()
    with_function = from_proto(proto)
    assert strided_slice_op.embed_function(with_function)
    return ir.serde.serialize_model(with_function)


Model = onnx.ModelProto | partial[onnx.ModelProto]
"""One that is there, or that is yet to be built."""
Said = TypeVarTuple("Said")


class Cases(dict[str, tuple[str, Model, *Said]], Generic[*Said]):
    """By name a pass, a model, and for some what is said of it; models are built when they are asked for by name."""

    def __getitem__(self, case: str) -> tuple[str, onnx.ModelProto, *Said]:
        there = super().__getitem__(case)
        built = there[1]() if isinstance(there[1], partial) else there[1]
        made = (there[0], built, *there[2:])
        self[case] = made
        return made


model, strided = partial(partial, build), partial(partial, build_strided)

FIRES = Cases(
    {
        "strided cut": ("strided", strided([4, "n"], [1, 0], [3, -1], [1, 2])),
        "strided dropped": ("strided", strided([4, 6], [-1, 0], [0, 9], shrink_axis_mask=[1])),
        "strided dropped open": ("strided", strided(["n", 6], [1, 0], [0, 9], shrink_axis_mask=[1])),
        "strided new": ("strided", strided([4, 6], [0, 1, 0], [0, 3, 0], new_axis_mask=[1, 0, 1])),
        "strided masks": (
            "strided",
            strided(
                [4, 6], [3, 3, 0], [1, 1, 0], [-1, -2, 1], begin_mask=[1], end_mask=[0, 1], new_axis_mask=[0, 0, 1]
            ),
        ),
        "strided ellipsis": (
            "strided",
            strided(
                [4, "n", 6],
                [1, 0, 0, 2],
                [0, 0, 0, 5],
                shrink_axis_mask=[1],
                ellipsis_mask=[0, 1],
                new_axis_mask=[0, 0, 1],
            ),
        ),
        "strided whole": ("strided", strided([4, 6], [0], [9])),
        "strided contested": ("strided", strided([4, 6], [-1], [M], [-1])),
        "strided contested open": ("strided", strided(["n", 6], [-1], [M], [-1])),
        "compose known": ("compose", model([9], cut("x", -1, L, "a", step=-2), cut("a", 1, 3, "y"))),
        "compose open": ("compose", model(["n"], cut("x", 1, 9, "a"), cut("a", 2, M, "y"))),
        "compose other axes": ("compose", model(["n", "m"], cut("x", -3, -1, "a"), cut("a", -1, L, "y", 1, -1))),
        "compose through Identity": (
            "compose",
            model([9], cut("x", 1, 8, "a"), ("Identity", ["a"], "b"), cut("b", 1, 3, "y")),
        ),
        "identity known": ("identity", model([4], cut("x", -9, 9, "a"), ("Neg", ["a"], "y"))),
        "identity open": ("identity", model(["n"], cut("x", 0, M, "a"), ("Neg", ["a"], "y"))),
        "identity of one part": ("identity", model([4], ("Split", ["x", [4]], "a"), ("Neg", ["a"], "y"))),
        "identity unread": ("identity", model([4], cut("x", 1, 2, "a"), ("Neg", ["x"], "y"))),
        "identity of an axis": ("identity", model([4, 4], ("Slice", ["x", [0, 1], [4, 2]], "y"))),
        "identity that comes out": ("identity", model([4], cut("x", 0, 4, "y"))),
        "merge spelled otherwise": (
            "merge",
            model([4], cut("x", 1, 3, "a"), ("Slice", ["x", [1], [3]], "b"), ("Add", ["a", "b"], "y")),
        ),
        "merge open": (
            "merge",
            model(["n"], cut("x", -3, -1, "a"), cut("x", -3, -1, "b"), ("Add", ["a", "b"], "y")),
        ),
        "merge Gathers": (
            "merge",
            model([4], ("Gather", ["x", 1], "a"), ("Gather", ["x", -3], "b"), ("Add", ["a", "b"], "y")),
        ),
        "merge Shapes": (
            "merge",
            model(
                ["n"],
                ("Shape", ["x"], "s"),
                ("Shape", ["x"], "t"),
                ("Gather", ["s", 0], "a"),
                ("Gather", ["t", 0], "b"),
                ("Add", ["a", "b"], "y"),
            ),
        ),
        "merge with a part": (
            "merge",
            model([4], ("Split", ["x", [1, 3]], "a b"), cut("x", 1, 4, "c"), ("Add", ["b", "c"], "y")),
        ),
        "merge with a part of one": (
            "merge",
            model([4], ("Split", ["x", [1, 3]], "a b"), ("Gather", ["x", 0], "c"), ("Mul", ["b", "c"], "y")),
        ),
        "merge Splits": (
            "merge",
            model(
                [4],
                ("Split", ["x", [1, 3]], "a b"),
                ("Split", ["x", [1, 0, 3]], "c d e"),
                ("Mul", ["a", "e"], "f"),
                ("Mul", ["b", "f"], "y"),
            ),
        ),
        "split": ("split", model([4], ("Split", ["x", [1, 3]], "a b"), ("Neg", ["b"], "y"))),
        "part": ("part", model([4], ("Split", ["x", [1, 3]], "a b"), cut("b", 1, 2, "y"))),
        "concat": ("concat", model([4], ("Concat", ["x", "x"], "a", {"axis": 0}), cut("a", 5, 7, "y"))),
        "concat backwards": (
            "concat",
            model([4], ("Concat", ["x", "x"], "a", {"axis": 0}), cut("a", 3, L, "y", step=-1)),
        ),
        "concat other axes": (
            "concat",
            model([4, "n"], ("Concat", ["x", "x"], "a", {"axis": 0}), ("Slice", ["a", [4, 1], [8, 2]], "y")),
        ),
        "concat Split": (
            "concat",
            model(
                [4],
                ("Neg", ["x"], "m"),
                ("Concat", ["x", "m"], "a", {"axis": 0}),
                ("Split", ["a", [4, 4]], "b c"),
                ("Sub", ["b", "c"], "y"),
            ),
        ),
        "gather upwards": ("gather", model([9], ("Gather", ["x", [1, 2, 3]], "y"))),
        "gather progression": ("gather", model([9], ("Gather", ["x", [-1, 6, 4]], "y"))),
        "gather one of a list": ("gather", model([9], ("Gather", ["x", [5]], "y"))),
        "chain Squeeze between": (
            "chain",
            model([4, 6], cut("x", 1, 2, "a"), ("Squeeze", ["a", [0]], "b"), cut("b", 2, 5, "y")),
        ),
        "chain axis stays": (
            "chain",
            model([4, 6], ("Gather", ["x", 1], "a"), ("Unsqueeze", ["a", [0]], "y")),
        ),
        "chain Gather of Gather": ("chain", model([4, 6], ("Gather", ["x", 1], "a"), ("Gather", ["a", 2], "y"))),
        "chain to Gather": ("chain", model([9], cut("x", 2, 8, "a"), ("Gather", ["a", 3], "y"))),
        "chain new axis whole": (
            "chain",
            model([9], cut("x", 2, 8, "a"), ("Unsqueeze", ["a", [0]], "b"), cut("b", 0, 3, "y", axis=1)),
        ),
        "siblings": ("siblings", model([4], cut("x", 0, 1, "y"), cut("x", 1, 4, "z"), outputs=("y", "z"))),
        "siblings by chance": (
            "siblings",
            model(
                [4, "n"],
                cut("x", 2, M, "a"),
                ("Gather", ["x", 0], "b"),
                cut("x", 1, 2, "c"),
                cut("x", 0, 3, "d"),
                ("Concat", ["a", "c", "d"], "y", {"axis": 0}),
                ("Neg", ["b"], "z"),
                outputs=("y", "z"),
            ),
        ),
        "siblings of single indices": (
            "siblings",
            model([3, "n"], *(("Gather", ["x", i], f"y{i}") for i in range(3)), outputs=("y0", "y1", "y2")),
        ),
        "siblings of a single index and the rest": (
            "siblings",
            model([4, "n"], ("Gather", ["x", 0], "y"), cut("x", 1, M, "z"), outputs=("y", "z")),
        ),
        "siblings with a Split": (
            "siblings",
            model(
                [4],
                ("Split", ["x", [1, 2, 1]], "a b c"),
                cut("x", 1, 3, "d"),
                ("Concat", ["c", "d"], "e", {"axis": 0}),
                ("Mul", ["a", "e"], "y"),
            ),
        ),
        "siblings with a small gap": (
            "siblings",
            model([4, 256], cut("x", 0, 1, "y"), cut("x", 3, 4, "z"), outputs=("y", "z")),
        ),
        "nested": (
            "nested",
            model(
                [8],
                ("Split", ["x", [4, 4]], "a b"),
                ("Split", ["b", [1, 3]], "c d"),
                ("Concat", ["d", "a", "c"], "y", {"axis": 0}),
            ),
        ),
        "nested in a Slice": (
            "nested",
            model([8], cut("x", 2, 8, "a"), ("Split", ["a", [1, 5]], "b c"), ("Mul", ["b", "c"], "y")),
        ),
        "fold constant": (
            "fold",
            model([2], cut("k", 0, 2, "a"), ("Mul", ["a", "x"], "y"), constants={"k": np.arange(3, dtype=np.float32)}),
        ),
        "fold Shape": (
            "fold",
            model(["n", 4], ("Shape", ["x"], "s"), cut("s", 1, 2, "a"), ("Add", ["a", [1]], "y")),
        ),
        "fold integers": (
            "fold",
            model(
                [4, 2],
                ("Shape", ["x"], "s"),
                ("Mul", ["s", "s"], "t"),
                ("Gather", ["t", 0], "a"),
                ("Cast", ["a"], "b", {"to": 1}),
                ("Mul", ["x", "b"], "y"),
            ),
        ),
        "fold bounds": (
            "fold",
            model(
                [4],
                ("Shape", ["x"], "s"),
                ("Sub", ["s", [1]], "e"),
                ("Slice", ["x", [0], "e"], "y"),
            ),
        ),
        "fold a Shape as bounds": ("fold", model([4], ("Shape", ["x"], "s"), ("Slice", ["x", [1], "s"], "y"))),
        "fold nothing": ("fold", model([4], cut("x", 2, 2, "a"), ("Concat", ["a", "x"], "y", {"axis": 0}))),
        "fold Shape of a slice": (
            "fold",
            model(
                [4],
                cut("x", 1, 3, "a"),
                ("Shape", ["a"], "s"),
                ("Expand", ["x", [3, 4]], "e"),
                ("Tile", ["e", [2, 1]], "t"),
                ("Add", ["s", [0]], "y"),
                outputs=("y", "t"),
            ),
        ),
        "scalar": ("scalar", model([4, 3], ("Gather", ["x", -1], "y", {"axis": 1}))),
        "up Transpose": ("up", model([4, 6], ("Transpose", ["x"], "a", {"perm": [1, 0]}), cut("a", 1, 3, "y"))),
        "up Transpose reversed": ("up", model([4, 6, 2], ("Transpose", ["x"], "a"), cut("a", 1, 3, "y", axis=1))),
        "up Unsqueeze": ("up", model([4], ("Unsqueeze", ["x", [0]], "a"), cut("a", 1, 3, "y", axis=1))),
        "up Squeeze": ("up", model([1, 4], ("Squeeze", ["x", [0]], "a"), cut("a", 1, 3, "y"))),
        "up Reshape": ("up", model([2, 3, 4], ("Reshape", ["x", [6, 4]], "a"), cut("a", 1, 3, "y", axis=1))),
        "up elementwise": (
            "up",
            model(
                [4, 6],
                ("Mul", ["x", "k"], "a"),
                cut("a", 1, 3, "y", axis=1),
                constants={"k": np.array([[2], [3], [4], [5]], np.float32)},
            ),
        ),
        "up Expand": ("up", model([1, 6], ("Expand", ["x", [4, 6]], "a"), ("Slice", ["a", [0, 1], [2, 3]], "y"))),
    }
)
STAYS = Cases(
    {
        "strided rank": (
            "strided",
            model(None, ("StridedSlice", ["x", [0], [1]], "y", {"domain": "ov_ext"})),
            "rank of its data is not known",
        ),
        "strided run-time": (
            "strided",
            model([2, 3], ("Shape", ["x"], "s"), ("StridedSlice", ["x", "s", "s"], "y", {"domain": "ov_ext"})),
            "not a constant",
        ),
        "strided beyond": (
            "strided",
            model([2, "n"], ("StridedSlice", ["x", [2], [3]], "y", {"domain": "ov_ext", "shrink_axis_mask": [1]})),
            "shrinks axis 0 to index 2",
        ),
        "strided step": (
            "strided",
            model(["n"], ("StridedSlice", ["x", [2], [3], [0]], "y", {"domain": "ov_ext"})),
            "is 0, but it must not be",
        ),
        "compose open from the end": (
            "compose",
            model(["n"], cut("x", 1, -1, "a"), cut("a", 0, 2, "y")),
            "the size of axis 0 is not known, and no single Slice",
        ),
        "compose run-time": (
            "compose",
            model([4], ("Shape", ["x"], "s"), ("Slice", ["x", [0], "s"], "a"), cut("a", 0, 2, "y")),
            "not a constant",
        ),
        "compose in a tile": (
            "compose",
            model([9], cut("x", 1, 5, "a"), cut("a", 0, 2, "y"), cut("a", 2, 4, "z"), outputs=("y", "z")),
            "one Split can replace it",
        ),
        "compose contested": (
            "compose",
            model(["n"], cut("x", -1, M, "a", step=-1), cut("a", 0, 2, "y")),
            "engines disagree about it",
        ),
        "identity shorter": ("identity", model([4], cut("x", 0, 3, "y")), None),
        "identity open and bounded": ("identity", model(["n"], cut("x", 0, 2**31 - 1, "y")), None),
        "identity of one part, open": ("identity", model(["n"], ("Split", ["x", [4]], "y")), "is not known"),
        "merge others": ("merge", model([4], cut("x", 0, 3, "y"), cut("x", 0, 2, "z"), outputs=("y", "z")), None),
        "merge of others": (
            "merge",
            model([4], ("Neg", ["x"], "m"), cut("x", 0, 3, "y"), cut("m", 0, 3, "z"), outputs=("y", "z")),
            None,
        ),
        "split two read": ("split", model([4], ("Split", ["x", [1, 3]], "y z"), outputs=("y", "z")), None),
        "split open": ("split", model(["n"], ("Split", ["x", [1, 3]], "a y")), "is not known"),
        "part open": ("part", model(["n"], ("Split", ["x", [1, 3]], "a b"), cut("b", 1, 2, "y")), "is not known"),
        "concat of two": (
            "concat",
            model([4], ("Concat", ["x", "x"], "a", {"axis": 0}), cut("a", 3, 6, "y")),
            "exactly one operand",
        ),
        "concat open": (
            "concat",
            model(["n"], ("Concat", ["x", "x"], "a", {"axis": 0}), cut("a", 0, 1, "y")),
            "are known",
        ),
        "concat Split elsewhere": (
            "concat",
            model([4], ("Concat", ["x", "x"], "a", {"axis": 0}), ("Split", ["a", [3, 5]], "y z"), outputs=("y", "z")),
            "are not the operands",
        ),
        "gather repeated": ("gather", model([9], ("Gather", ["x", [1, 1]], "y")), "not an arithmetic progression"),
        "gather jumping": ("gather", model([9], ("Gather", ["x", [0, 1, 3]], "y")), "not an arithmetic progression"),
        "gather open": (
            "gather",
            model(["n"], ("Gather", ["x", [0, 1]], "y")),
            "does not fail at an index out of range",
        ),
        "gather beyond": ("gather", model([2], ("Gather", ["x", [1, 2]], "y")), "out of range"),
        "gather old by steps": (
            "gather",
            model([9], ("Gather", ["x", [3, 5]], "y"), opset=9),
            "the new Slice needs step 2 on axis 0, but Slice has no steps before opset 10, and this is opset 9",
        ),
        "gather old and backwards": ("gather", model([9], ("Gather", ["x", [3, 2]], "y"), opset=9), "needs step -1"),
        "chain cut new axis": (
            "chain",
            model([9], cut("x", 2, 8, "a"), ("Unsqueeze", ["a", [0]], "b"), cut("b", 1, 1, "y")),
            "it cuts a new axis",
        ),
        "chain beside a sibling": (
            "chain",
            model(
                [2, 3],
                cut("x", 0, 1, "a"),
                ("Squeeze", ["a", [0]], "y"),
                cut("x", 1, 2, "b"),
                ("Squeeze", ["b", [0]], "z"),
                outputs=("y", "z"),
            ),
            None,
        ),
        "chain no shorter": ("chain", model([9, 2], cut("x", 2, 3, "a", 1), ("Unsqueeze", ["a", [0]], "y")), None),
        "siblings with a large gap": (
            "siblings",
            model([4, 1024], cut("x", 0, 1, "y"), cut("x", 3, 4, "z"), outputs=("y", "z")),
            "would save no operator",
        ),
        "siblings with an open gap": (
            "siblings",
            model([4, "n"], cut("x", 0, 1, "y"), cut("x", 3, 4, "z"), outputs=("y", "z")),
            "would save no operator",
        ),
        "siblings that overlap": (
            "siblings",
            model([4], cut("x", 0, 3, "y"), cut("x", 1, 4, "z"), outputs=("y", "z")),
            "would save no operator",
        ),
        "siblings of few single indices": (
            "siblings",
            model([2, "n"], *(("Gather", ["x", i], f"y{i}") for i in range(2)), outputs=("y0", "y1")),
            "would save no operator",
        ),
        "siblings in a GLU": (
            "siblings",
            model(
                [4],
                cut("x", 0, 2, "a"),
                cut("x", 2, 4, "b"),
                ("Sigmoid", ["b"], "c"),
                ("Mul", ["a", "c"], "y"),
            ),
            "is multiplied by the Sigmoid of another",
        ),
        "siblings open": ("siblings", model(["n"], cut("x", 0, 1, "y"), cut("x", 1, M, "z"), outputs=("y", "z")), None),
        "siblings of two axes": (
            "siblings",
            model([4, 4], ("Slice", ["x", [0, 0], [1, 2]], "y"), cut("x", 1, 4, "z"), outputs=("y", "z")),
            None,
        ),
        "siblings by steps": (
            "siblings",
            model([4], cut("x", 0, 4, "y", step=2), cut("x", 1, 4, "z", step=2), outputs=("y", "z")),
            None,
        ),
        "nested on another axis": (
            "nested",
            model(
                [4, 4],
                ("Split", ["x", [1, 3]], "y b"),
                ("Split", ["b", [2, 2]], "z w", {"axis": 1}),
                outputs=("y", "z", "w"),
            ),
            None,
        ),
        "nested and read": (
            "nested",
            model([8], ("Split", ["x", [4, 4]], "y b"), ("Split", ["b", [1, 3]], "z w"), outputs=("y", "b", "z", "w")),
            None,
        ),
        "nested in a GLU": (
            "nested",
            model(
                [8],
                ("Split", ["x", [2, 6]], "a b"),
                ("Split", ["b", [2, 4]], "c y"),
                ("Sigmoid", ["c"], "d"),
                ("Mul", ["a", "d"], "z"),
                outputs=("y", "z"),
            ),
            "is multiplied by the Sigmoid of another",
        ),
        "merge in a GLU": (
            "merge",
            model(
                [4],
                ("Split", ["x", [2, 2]], "a b"),
                cut("x", 2, 4, "c"),
                ("Sigmoid", ["c"], "d"),
                ("Mul", ["a", "d"], "y"),
                ("Neg", ["b"], "z"),
                outputs=("y", "z"),
            ),
            "is multiplied by the Sigmoid of another",
        ),
        "nested in a far Slice": (
            "nested",
            model([2048], cut("x", 0, 8, "a"), ("Split", ["a", [1, 7]], "y z"), outputs=("y", "z")),
            "more than 4 KiB",
        ),
        "fold large": (
            "fold",
            model(
                [3000],
                cut("k", 0, 3000, "a"),
                ("Mul", ["a", "x"], "y"),
                ("Neg", ["k"], "z"),
                outputs=("y", "z"),
                constants={"k": np.arange(4000, dtype=np.float32)},
            ),
            None,
        ),
        "fold open Shape": ("fold", model(["n"], ("Shape", ["x"], "s"), cut("s", 0, 1, "y")), None),
        "fold rounded": (
            "fold",
            model(
                [2],
                ("Exp", ["k"], "e"),
                cut("e", 0, 2, "a"),
                ("Mul", ["a", "x"], "y"),
                constants={"k": np.arange(3, dtype=np.float32)},
            ),
            None,
        ),
        "fold run-time bounds": (
            "fold",
            model(["n"], ("Shape", ["x"], "s"), ("Sub", ["s", [1]], "e"), ("Slice", ["x", [0], "e"], "y")),
            "not the same for all inputs",
        ),
        "scalar of a Shape": ("scalar", model(["n", 3], ("Shape", ["x"], "s"), ("Gather", ["s", 0], "y")), None),
        "scalar open": ("scalar", model(["n", 3], ("Gather", ["x", 0], "y")), "does not fail at an index out of range"),
        "up read twice": (
            "up",
            model([4, 6], ("Transpose", ["x"], "a"), cut("a", 1, 3, "y"), ("Neg", ["a"], "z"), outputs=("y", "z")),
            "has other readers too",
        ),
        "up cut new axis": (
            "up",
            model([4], ("Unsqueeze", ["x", [0]], "a"), cut("a", 1, 1, "y")),
            "it cuts an axis that Unsqueeze",
        ),
        "up joined axis": (
            "up",
            model([2, 3], ("Reshape", ["x", [6]], "a"), cut("a", 1, 3, "y")),
            "axis 0 matches no input axis of Reshape",
        ),
        "up rounded": ("up", model([4], ("Exp", ["x"], "a"), cut("a", 1, 3, "y")), None),
        "up not fewer bytes": (
            "up",
            model(
                [4], ("Add", ["x", "k"], "a"), cut("a", 0, 3, "y"), constants={"k": np.arange(1, 5, dtype=np.float32)}
            ),
            "not reduce the bytes",
        ),
        "up open": ("up", model(["n", 4], ("Transpose", ["x"], "a"), cut("a", 1, 3, "y")), "not all sizes"),
    }
)


def sizes(proto: onnx.ModelProto) -> tuple[int, ...]:
    return tuple(dim.dim_value or 5 for dim in proto.graph.input[0].type.tensor_type.shape.dim)
