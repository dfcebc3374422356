"""Bad input is refused in one sentence, and never ends the process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import openvino as ov
import pytest
from openvino_backends import THERE, using
from openvino_models import MASKS, constant, parameter, pick
from openvino_processes import answers

import ov_ext
from ov_ext.model.files import read_model_bytes
from sliceport.errors import ModelError

SENTENCE = re.compile(r"(StridedSlice1|Slice8) '[^'\n]*': [^\n]*\.(\s|$)")
HUGE = [2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]


def bad_list(random: np.random.Generator, count: int) -> Any:
    """Return a list of indices, mostly of one length, sometimes of another, of another rank, or of huge values."""
    how = random.random()
    if how < 0.1:
        return int(random.integers(-3, 4))
    if how < 0.2:
        return random.integers(-3, 4, (count, int(random.integers(0, 3)))).tolist()
    if how < 0.3:
        count += 1
    values = random.integers(-4, 5, count).tolist()
    return [pick(random, *HUGE) if random.random() < 0.1 else value for value in values]


def bad_case(random: np.random.Generator) -> dict[str, Any]:
    rank = int(random.integers(0, 4))
    op = pick(random, "Slice", "StridedSlice")
    count = int(random.integers(0, 4))
    inputs = pick(random, *([3, 4, 4] if op == "Slice" else [2, 3, 3]), *range(6))
    case: dict[str, Any] = {
        "op": op,
        "ours": True,
        "sizes": random.integers(0, 4, rank).tolist(),
        "indices": [bad_list(random, count) for _ in range(inputs)],
        "index_type": pick(random, "i64", "i64", "i64", "i32", "i8", "f32", "boolean", "u64"),
        "run_time": bool(random.random() < 0.4),
        "engine": pick(random, "cpu", "reference"),
    }
    if case["index_type"] in ("i32", "i8", "u64"):
        case["indices"] = [np.clip(np.array(i, np.int64), 0, 100).tolist() for i in case["indices"]]
    if op == "StridedSlice" and random.random() < 0.8:
        values = pick(random, [0, 1], [0, 1], [0, 1], [0, 2, -1], [2**40, 1])
        case["masks"] = {m: random.choice(values, int(random.integers(0, 5))).tolist() for m in MASKS}
    return case


@pytest.mark.parametrize("seed", range(3))
def test_random_nonsense_is_refused_in_a_sentence(seed: int) -> None:
    random = np.random.default_rng(seed)
    cases = [bad_case(random) for _ in range(150)]
    found = list(answers([{**case, "kind": kind} for case in cases for kind in THERE]))
    refused = 0
    for case, got in zip(cases, batched(found, len(THERE)), strict=True):
        assert not any("exit" in one for one in got), (case, got)
        said = [SENTENCE.search(one.get("error", "")) for one in got]
        assert all(sentence or "error" not in one for sentence, one in zip(said, got, strict=True)), (case, got)
        assert len({sentence and without_name(sentence[0]) for sentence in said}) == 1, (case, got)
        assert said[0] or all(one == got[0] for one in got), (case, got)
        refused += said[0] is not None
    assert 50 < refused < 150


def batched(items: list[Any], size: int) -> list[list[Any]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def without_name(sentence: str) -> str:
    """Drop the name that OpenVINO gave a node, and the end of the line."""
    return re.sub(r" '[^'\n]*': ", ": ", sentence).strip()


def saved(tmp_path: Path, **masks: list[int]) -> str:
    source, begin = parameter([2, 3]), parameter([1])
    node = ov_ext.StridedSlice([source, constant([1]), constant([2]), constant([1])], **masks)
    other = ov_ext.Slice([begin, constant([0]), constant([1]), constant([1]), constant([0])])
    ov.save_model(ov.Model([node, other], [source, begin], "m"), str(tmp_path / "m.xml"))
    return (tmp_path / "m.xml").read_text()


def with_masks(old: str, new: str) -> Any:
    return lambda text: text.replace(f'begin_mask="{old}"', f'begin_mask="{new}"')


def test_lack_of_memory_is_no_error_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ov.Core, "read_model", Mock(side_effect=MemoryError("std::bad_alloc")))  # as pybind11 does
    with pytest.raises(MemoryError):
        read_model_bytes(b"<net/>", b"")


MALFORMED = {
    "a mask of words": with_masks("1, 0", "yes"),
    "a mask of 2": with_masks("1, 0", "2"),
    "a huge mask": with_masks("1, 0", "99999999999999999999"),
    "no masks": lambda text: re.sub(r"<data begin_mask[^>]*/>", "", text),
    "a mask that is empty": with_masks("1, 0", ""),
    "indices of floats": lambda text: text.replace('element_type="i64"', 'element_type="f64"'),
    "indices of rank 0": lambda text: text.replace('element_type="i64" shape="1"', 'element_type="i64" shape=""'),
    "a missing edge": lambda text: re.sub(r'<edge [^>]*to-port="3" */>', "", text),
    "all edges gone": lambda text: re.sub(r"<edge [^>]*/>", "", text),
    "no such version": lambda text: text.replace('version="ov_ext"', 'version="ov_ext2"'),
    "data of rank 0": lambda text: text.replace('shape="2,3"', 'shape=""'),
    "truncated": lambda text: text[: len(text) // 2],
    "not XML": lambda _: "MZ\x90\x00",
}


@pytest.mark.parametrize("title", MALFORMED)
def test_malformed_ir_does_not_end_the_process(tmp_path: Path, title: str) -> None:
    text = saved(tmp_path, begin_mask=[1, 0], ellipsis_mask=[0])
    changed = MALFORMED[title](text)
    assert changed != text
    file = tmp_path / "bad_alloc.xml"  # a name that errors quote, and that does not mean a lack of memory
    file.write_text(changed, encoding="utf-8")
    cases = [{"file": str(file), "kind": kind} for kind in THERE]
    for kind, got in zip(THERE, answers(cases), strict=True):
        assert "exit" not in got
        if "error" in got:
            expected = r"^model '.*bad_alloc\.xml' cannot be read by OpenVINO: [^\n]{10,}\.$"
            with using(kind), pytest.raises(ModelError, match=expected) as caught:
                ov_ext.read_model(file)
            assert "/" not in str(caught.value).split("OpenVINO:")[1].replace(f"{tmp_path}/", "")
