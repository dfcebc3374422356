"""Commands on damaged IR files give a result, or a sentence that names the file and exit 2."""

from __future__ import annotations

import json
import random
import re
import struct
from pathlib import Path

import openvino as ov
import pytest
from amounts import amount
from forked import run
from openvino import opset1, opset8
from openvino_models import constant, make, parameter

import ov_ext

VALUES = (
    *("", "0", "-1", "1", "2", "99999999999999999999", "-2147483648", "1099511627776", "1,2", "abc", "i4", "u4", "nf4"),
    *("u3", "string", "boolean", "dynamic", "?", "1..3", "Parameter", "Const", "Slice", "opset1", "ov_ext", "Loop"),
)
NUMBERS = (0, 1, -1, 2, -2, 5, -9, 2**31 - 1, -(2**31), 2**31, 2**32, 2**63 - 1, -(2**63))
COMMANDS = """
import contextlib, io, json, sys, traceback
from sliceport.cli.main import main
for path in sys.argv[1:]:
    for command in (["lower", path], ["compare", path], ["harden", path, "-o", path[:-4] + "_o.xml", "--overwrite"]):
        print(json.dumps([path, command[0]]), flush=True)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                code = main(command)
            except BaseException:
                code = traceback.format_exc()
        print(json.dumps([code, said.getvalue()]), flush=True)
"""


def save(path: Path) -> tuple[str, bytes]:
    """Write a model of both operators, ours, a Split, and indices that follow from a shape; return both files."""
    x, y = parameter([4, -1, 5]), parameter([2, 3])
    masks = {"new_axis_mask": [0, 1], "shrink_axis_mask": [1, 0]}
    nodes = [
        make("Slice", [x, *map(constant, ([5, -1], [0, -9], [-2, -1], [0, 2]))], ours=False),
        make("StridedSlice", [y, *map(constant, ([1, 0], [2, 0], [1, 1]))], masks, ours=False),
        ov_ext.StridedSlice([y, [0, 0], [2, 0], [1, 1]], begin_mask=[1], shrink_axis_mask=[0, 1]),
        opset1.split(y, opset8.constant(1), 3),
    ]
    size = make("Slice", [opset8.shape_of(x), *map(constant, ([1], [2], [1], [0]))], ours=False)
    nodes.append(make("Slice", [x, constant([0]), size, constant([1]), constant([1])], ours=False))
    model = ov.Model([output for node in nodes for output in node.outputs()], [x, y], "m")
    ov.save_model(model, str(path), compress_to_fp16=False)
    return path.read_text(), path.with_suffix(".bin").read_bytes()


def damage(pick: random.Random, text: str, weights: bytes) -> tuple[str, bytes | None]:
    how = pick.random()
    if how < 0.3:
        at = pick.randrange(len(weights) // 8) * 8
        return text, weights[:at] + struct.pack("<q", pick.choice(NUMBERS)) + weights[at + 8 :]
    if how < 0.75:
        names = pick.choice((r"\w+", "shape|element_type", r"\w+_mask", r"\w+-layer|\w+-port|id"))
        found = pick.choice(list(re.finditer(rf'(?:{names})="([^"]*)"', text)))
        return text[: found.start(1)] + pick.choice(VALUES) + text[found.end(1) :], weights
    if how < 0.85:
        lines = text.splitlines()
        del lines[pick.randrange(len(lines))]
        return "\n".join(lines), weights
    if how < 0.9:
        return text[: pick.randrange(len(text))], weights
    return text, pick.choice((None, b"", weights[: pick.randrange(len(weights))]))


@pytest.mark.parametrize("seed", range(amount(2)))
def test_damaged_files_are_read_or_refused_in_a_sentence(tmp_path: Path, seed: int) -> None:
    text, weights = save(tmp_path / "good.xml")
    paths = []
    for i in range(40):
        damaged, left = damage(random.Random(f"{seed} {i}"), text, weights)
        paths.append(tmp_path / f"m{i}.xml")
        paths[-1].write_text(damaged)
        if left is not None:
            paths[-1].with_suffix(".bin").write_bytes(left)
    done = run(["-c", COMMANDS, *map(str, paths)], timeout=600)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (lines[-1], done.stderr[-500:])
    codes = []
    for (path, command), (code, said) in zip(lines[::2], lines[1::2], strict=True):
        codes.append(code)
        assert code in (0, 1, 2), (command, path, code)
        if code == 2:
            assert re.fullmatch(r"sliceport: [^\n]*\.\n", said), (command, said)
            assert Path(path).stem in said
    assert codes.count(2) > 10
    assert len(codes) - codes.count(2) > 10
