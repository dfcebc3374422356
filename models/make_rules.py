"""Make the `rule_*` models: one small hand-made model for each rule of the lowering.

python models/make_rules.py [--out DIR] [NAME ...]
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

import onnx
from onnx import parser

HEAD = '<ir_version: 9, opset_import: ["" : {opset}]>\n'

# name: (opset, text, purpose)
RULES: dict[str, tuple[int, str, str]] = {
    "rule_identity": (
        13,
        """g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
            s = Constant <value_ints = [0, 0]> ()
            e = Constant <value_ints = [9223372036854775807, 3]> ()
            w = Slice (x, s, e)
            y = Relu (w)
            z = Split <axis = 1> (x)
        }""",
        "a slice and a one-part split that keep everything: aliases",
    ),
    "rule_empty": (
        13,
        """g (float[2,3] x) => (float[2,0] y, float[0,3] z) {
            s = Constant <value_ints = [5]> ()
            e = Constant <value_ints = [9]> ()
            a = Constant <value_ints = [-1]> ()
            y = Slice (x, s, e, a)
            b = Constant <value_ints = [0]> ()
            c = Constant <value_ints = [0]> ()
            z = Slice (x, b, c, b)
        }""",
        "nothing selected: no operator",
    ),
    "rule_split_empty_part": (
        13,
        """g (float[2,4] x) => (float[2,0] a, float[2,3] b, float[2,1] c, float[2,0] d, float[2,4] e) {
            p = Constant <value_ints = [0, 3, 1]> ()
            a, b, c = Split <axis = 1> (x, p)
            q = Constant <value_ints = [0, 4]> ()
            d, e = Split <axis = 1> (x, q)
        }""",
        "empty parts are left out of the operator; the second split is then an alias",
    ),
    "rule_glu": (
        13,
        """g (float[2,4] x) => (float[2,2] y) {
            p, q = Split <axis = 1> (x)
            s = Sigmoid (q)
            y = Mul (p, s)
        }""",
        "a gated linear unit, which onnxruntime's DirectML provider fuses wrongly: harden",
    ),
    "rule_split_unused": (
        11,
        """g (float[2,6] x) => (float[2,2] b) {
            a, b, c = Split <axis = 1> (x)
        }""",
        "one output of three is used: a slice moves fewer bytes than a split",
    ),
    "rule_split_uneven": (
        18,
        """g (float[7,2] x) => (float[3,2] a, float[3,2] b, float[1,2] c) {
            a, b, c = Split <num_outputs = 3> (x)
        }""",
        "num_outputs with a smaller last part",
    ),
    "rule_siblings": (
        13,
        """g (float[2,8,4] x) => (float[2,3,4] l, float[2,5,4] r, float[2,4,4] m) {
            zero = Constant <value_ints = [0]> ()
            one = Constant <value_ints = [1]> ()
            cut = Constant <value_ints = [-5]> ()
            end = Constant <value_ints = [9223372036854775807]> ()
            two = Constant <value_ints = [2]> ()
            m = Slice (x, zero, end, one, two)
            l = Slice (x, zero, cut, one)
            r = Slice (x, cut, end, one)
        }""",
        "two siblings that tile an axis become one split; a third with a step does not join",
    ),
    "rule_coalesce": (
        13,
        """g (float[4,3,5] x) => (float[2,3,5] a, float[4,3,5] b, float[4,1,3] c) {
            one = Constant <value_ints = [1]> ()
            three = Constant <value_ints = [3]> ()
            zero = Constant <value_ints = [0]> ()
            a = Slice (x, one, three, zero)
            starts = Constant <value_ints = [-1, -1]> ()
            ends = Constant <value_ints = [-9223372036854775808, -9223372036854775808]> ()
            axes = Constant <value_ints = [1, 2]> ()
            steps = Constant <value_ints = [-1, -1]> ()
            b = Slice (x, starts, ends, axes, steps)
            cs = Constant <value_ints = [1, 2]> ()
            ce = Constant <value_ints = [2, 5]> ()
            c = Slice (x, cs, ce, axes)
        }""",
        "axes become one past an offset, both reversed, and across an axis of one kept element",
    ),
    "rule_rank_nine": (
        13,
        """g (float[2,2,2,2,2,2,2,2,3] x) => (float[1,2,2,2,2,2,2,2,2] y) {
            s = Constant <value_ints = [1, 0]> ()
            e = Constant <value_ints = [2, 3]> ()
            a = Constant <value_ints = [0, 8]> ()
            p = Constant <value_ints = [1, 2]> ()
            y = Slice (x, s, e, a, p)
        }""",
        "rank 9 coalesces to two dimensions",
    ),
    "rule_rank_limit": (
        13,
        """g (float[3,3,3,3,3,3,3,3,3] x) => (float[2,2,2,2,2,2,2,2,2] y) {
            s = Constant <value_ints = [0, 0, 0, 0, 0, 0, 0, 0, 0]> ()
            e = Constant <value_ints = [2, 2, 2, 2, 2, 2, 2, 2, 2]> ()
            y = Slice (x, s, e)
        }""",
        "nine dimensions that do not coalesce: refused, more than DirectML's eight",
    ),
    "rule_types": (
        13,
        """g (bfloat16[4,6] h, bool[4,6] b, int64[4,6] i, double[4,6] d) =>
            (bfloat16[4,3] p, bool[4,3] q, int64[4,3] r, double[4,3] t) {
            s = Constant <value_ints = [1]> ()
            e = Constant <value_ints = [6]> ()
            a = Constant <value_ints = [1]> ()
            k = Constant <value_ints = [2]> ()
            p = Slice (h, s, e, a, k)
            q = Slice (b, s, e, a, k)
            r = Slice (i, s, e, a, k)
            t = Slice (d, s, e, a, k)
        }""",
        "types that DirectML lacks, at some feature level or at all, move as bits",
    ),
    "rule_strings": (
        13,
        """g (string[4] x) => (string[2] y) {
            s = Constant <value_ints = [1]> ()
            e = Constant <value_ints = [3]> ()
            y = Slice (x, s, e)
        }""",
        "strings are refused",
    ),
    "rule_subgraphs": (
        13,
        """g (bool c, float[4,6] x) => (float[4,2] y) {
            y = If (c) <
                then_branch = then_g () => (float[4,2] t) {
                    ts = Constant <value_ints = [1]> ()
                    te = Constant <value_ints = [3]> ()
                    ta = Constant <value_ints = [1]> ()
                    t = Slice (x, ts, te, ta)
                },
                else_branch = else_g () => (float[4,2] u) {
                    u, v, w = Split <axis = 1> (x)
                }
            >
        }""",
        "nodes in both branches of an If",
    ),
    "rule_function": (
        13,
        """g (float[4,6] x, float[2,8] z) => (float[4,3] a, float[2,4] b) {
            a = local.half (x)
            b = local.half (z)
        }
        <domain: "local", opset_import: ["" : 13]>
        half (v) => (l) {
            l, r = Split <axis = -1> (v)
        }""",
        "a function called with two shapes: two nodes",
    ),
    "rule_opset9": (
        9,
        """g (float[4,6] x) => (float[2,3] y, float[4,2] a, float[4,4] b) {
            y = Slice <starts = [1, 0], ends = [-1, 3]> (x)
            a, b = Split <axis = 1, split = [2, 4]> (x)
        }""",
        "parameters as attributes",
    ),
    "rule_symbolic": (
        13,
        """g (float[batch,seq,8] x) => (float[batch,1,8] y, float[batch,seq,4] a, float[batch,seq,4] b) {
            last = Constant <value_ints = [-1]> ()
            end = Constant <value_ints = [9223372036854775807]> ()
            axis = Constant <value_ints = [1]> ()
            y = Slice (x, last, end, axis)
            a, b = Split <axis = 2> (x)
        }""",
        "open dimensions: --input-shapes says what they are",
    ),
}


# models in OpenVINO IR, name: (the .xml file, the 64-bit constants of the .bin file, purpose)
OPENVINO_RULES: dict[str, tuple[str, tuple[int, ...], str]] = {
    "rule_new_axis": (
        """<?xml version="1.0"?>
<net name="new_axis" version="11">
    <layers>
        <layer id="0" name="x" type="Parameter" version="opset1">
            <data shape="2,3" element_type="f32" />
            <output><port id="0" precision="FP32" names="x"><dim>2</dim><dim>3</dim></port></output>
        </layer>
        <layer id="1" name="begin" type="Const" version="opset1">
            <data element_type="i64" shape="2" offset="0" size="16" />
            <output><port id="0" precision="I64"><dim>2</dim></port></output>
        </layer>
        <layer id="2" name="end" type="Const" version="opset1">
            <data element_type="i64" shape="2" offset="16" size="16" />
            <output><port id="0" precision="I64"><dim>2</dim></port></output>
        </layer>
        <layer id="3" name="strides" type="Const" version="opset1">
            <data element_type="i64" shape="2" offset="32" size="16" />
            <output><port id="0" precision="I64"><dim>2</dim></port></output>
        </layer>
        <layer id="4" name="row" type="StridedSlice" version="opset1">
            <data begin_mask="0,0" end_mask="0,0" new_axis_mask="0,1" shrink_axis_mask="1,0" ellipsis_mask="0,0" />
            <input>
                <port id="0" precision="FP32"><dim>2</dim><dim>3</dim></port>
                <port id="1" precision="I64"><dim>2</dim></port>
                <port id="2" precision="I64"><dim>2</dim></port>
                <port id="3" precision="I64"><dim>2</dim></port>
            </input>
            <output><port id="4" precision="FP32" names="y"><dim>1</dim><dim>3</dim></port></output>
        </layer>
        <layer id="5" name="result" type="Result" version="opset1">
            <input><port id="0" precision="FP32"><dim>1</dim><dim>3</dim></port></input>
        </layer>
    </layers>
    <edges>
        <edge from-layer="0" from-port="0" to-layer="4" to-port="0" />
        <edge from-layer="1" from-port="0" to-layer="4" to-port="1" />
        <edge from-layer="2" from-port="0" to-layer="4" to-port="2" />
        <edge from-layer="3" from-port="0" to-layer="4" to-port="3" />
        <edge from-layer="4" from-port="4" to-layer="5" to-port="0" />
    </edges>
</net>
""",
        (1, 0, 2, 0, 1, 1),
        "x[1, newaxis], for which OpenVINO's CPU plugin returns memory that it never wrote: harden",
    ),
}


def make_openvino(name: str) -> tuple[bytes, bytes]:
    """Return the model of a rule as OpenVINO IR: the .xml and the .bin file."""
    text, values, _ = OPENVINO_RULES[name]
    return text.encode(), struct.pack(f"<{len(values)}q", *values)


def make(name: str) -> onnx.ModelProto:
    """Return the model of a rule."""
    opset, text, _ = RULES[name]
    head = HEAD.format(opset=opset)
    if "domain:" in text:
        head = head.replace("]>", ', "local" : 1]>')
    model = parser.parse_model(head + text)
    for node in model.graph.node:
        node.name = node.name or f"{node.op_type.lower()}_{node.output[0]}"
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Write the models."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent)
    arguments.add_argument("names", nargs="*", default=[*RULES, *OPENVINO_RULES])
    options = arguments.parse_args()
    for name in options.names:
        if name in OPENVINO_RULES:
            for suffix, content in zip((".xml", ".bin"), make_openvino(name), strict=True):
                (options.out / f"{name}{suffix}").write_bytes(content)
            continue
        (options.out / f"{name}.onnx").write_bytes(make(name).SerializeToString())


if __name__ == "__main__":
    main()
