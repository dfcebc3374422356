"""Steps far away, at which onnx's shape inference crashes or hangs, do no harm."""

from __future__ import annotations

import itertools
from pathlib import Path

import onnx
from forked import run
from onnx_models import parse

COMMANDS = """
import sys
from sliceport.cli.main import main
for name in sys.argv[1:]:
    print(name, flush=True)
    for words in (["lower", name], ["rewrite", name, "-o", f"o_{name}"], ["harden", name, "-o", f"h_{name}"]):
        assert main(words) == 0, words
"""
STEPS = (2**63 - 1, -(2**63), 2**62, 2**31 - 1)


def model_of(step: int, *, in_function: bool) -> onnx.ModelProto:
    """Parse a Slice of a Shape, for which onnx has its own inference, in the main graph or in a function."""
    start, end = (0, 4) if step > 0 else (-1, -(2**63))
    values = {"s": start, "e": end, "a": 0, "t": step}
    constants = " ".join(f"{name} = Constant<value_ints = [{value}]>()" for name, value in values.items())
    cut = f"{{ {constants} h = Shape(x) d = Slice(h, s, e, a, t) y = Slice(x, s, e, a, t) }}"
    function = f'<domain: "local", opset_import: ["" : 13]> cut (x) => (d, y) {cut}'
    body = f"{{ d, y = local.cut(x) }} {function}" if in_function else cut
    return parse(f"(float[5,3,1,2] x) => (int64[n] d, float[a,b,c,d] y) {body}", 13, local=1)


def test_steps_that_crash_onnx_are_lowered(tmp_path: Path) -> None:
    """All models are lowered in one process, which prints the name of each before it may crash."""
    names = []
    for step, in_function in itertools.product(STEPS, (False, True)):
        names.append(f"by_{step}_{in_function}.onnx")
        onnx.save(model_of(step, in_function=in_function), tmp_path / names[-1])
    ran = run(["-c", COMMANDS, *names], tmp_path)
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    assert [line for line in ran.stdout.splitlines() if line in names] == names
