"""What `docs/strided_slice.md` is made of: run as a script it writes the page; `test_page.py` runs its cases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from divergences import OPENVINO, OPENVINO_DEFECTS

PAGE = Path(__file__).parent.parent / "docs" / "strided_slice.md"


@dataclass(frozen=True)
class Difference:
    """A place where the specification's text or examples and OpenVINO differ.

    Attributes:
        op: The operator.
        text: What the specification says.
        reality: What OpenVINO's shape inference and its reference do, and ours.
        case: A case that shows it, as `openvino_child.py` takes it.
        result: Shape and elements that come out, of OpenVINO's reference and of ours; None where OpenVINO refuses.
        ours: What ours gives where OpenVINO refuses.
    """

    op: str
    text: str
    reality: str
    case: dict[str, Any]
    result: tuple[tuple[int, ...], tuple[int, ...]] | None
    ours: tuple[tuple[int, ...], tuple[int, ...]] | None = None


def strided(
    sizes: list[int], begin: list[int], end: list[int], strides: list[int], **masks: list[int]
) -> dict[str, Any]:
    """A StridedSlice."""
    return {"op": "StridedSlice", "sizes": sizes, "indices": [begin, end, strides], "masks": masks}


def cut(sizes: list[int], *indices: list[int]) -> dict[str, Any]:
    """A Slice."""
    return {"op": "Slice", "sizes": sizes, "indices": list(indices)}


DIFFERENCES = (
    Difference(
        "StridedSlice",
        "begin equal to end keeps one element",
        "nothing is kept",
        strided([4], [2], [2], [1]),
        ((0,), ()),
    ),
    Difference(
        "StridedSlice",
        "a negative stride is subtracted from the index",
        "it is added, so the walk goes backwards",
        strided([4], [3], [0], [-1]),
        ((3,), (3, 2, 1)),
    ),
    Difference(
        "StridedSlice",
        "backwards with end_mask the end is 0, and element 0 cannot be reached; the example `[1:, :, ::-1]` gives 3 of 4",
        "element 0 comes out, all 4 of them",
        strided([4], [0], [0], [-1], begin_mask=[1], end_mask=[1]),
        ((4,), (3, 2, 1, 0)),
    ),
    Difference(
        "StridedSlice",
        "backwards a begin below the axis becomes element 0 (as the text has it, and not as NumPy, which selects nothing)",
        "element 0, as the text says",
        strided([5], [-9], [-20], [-1]),
        ((1,), (0,)),
    ),
    Difference(
        "StridedSlice",
        "each mask may have a length of its own: shorter ones are padded, further bits ignored; two examples do so",
        "masks of different lengths are refused (`All masks of StridedSlice must have the same size`); ours takes them",
        strided([2, 3], [1, 0], [2, 2], [1, 1], begin_mask=[0, 1], end_mask=[0]),
        None,
        ((1, 2), (3, 4)),
    ),
    Difference(
        "StridedSlice",
        "where an axis is shrunk, begin must equal end",
        "end is ignored",
        strided([3], [1], [7], [1], begin_mask=[0], shrink_axis_mask=[1]),
        ((), (1,)),
    ),
    Difference(
        "StridedSlice",
        "indices beyond the axis are clamped silently",
        "not that of a shrunk axis: it raises",
        strided([3], [3], [4], [1], begin_mask=[0], shrink_axis_mask=[1]),
        None,
    ),
    Difference(
        "StridedSlice",
        "the stride must not be 0",
        "it may be 0 where it is ignored: at a shrunk, new or elided axis",
        strided([3], [1], [2], [0], begin_mask=[0], shrink_axis_mask=[1]),
        ((), (1,)),
    ),
    Difference(
        "StridedSlice",
        "the ellipsis hides rank - (M - sum(new_axis_mask) - 1) axes",
        "bits of new_axis_mask beyond the entries, and at the ellipsis, do not count",
        strided([2, 3], [0, 1], [0, 2], [1, 1], begin_mask=[0] * 3, ellipsis_mask=[1, 0, 0], new_axis_mask=[0, 0, 1]),
        ((2, 1), (1, 4)),
    ),
    Difference(
        "StridedSlice",
        "the example of clamping in two dimensions, begin [1234, 2], end [1234, 4321], strides [1, -1], gives shape [1, 1]",
        "it gives [0, 0]",
        strided([2, 2], [1234, 2], [1234, 4321], [1, -1]),
        ((0, 0), ()),
    ),
    Difference(
        "Slice",
        "the rules are those of Python",
        "but for a backward walk from below the axis, which begins at element 0",
        cut([5], [-9], [-20], [-1], [0]),
        ((1,), (0,)),
    ),
    Difference(
        "Slice",
        "backwards to the greatest integer (not in the text; onnxruntime takes it for the far end and reverses the axis)",
        "nothing, as by the text",
        cut([4], [-1], [2**31 - 1], [-1], [0]),
        ((0,), ()),
    ),
)

LIMITS = (
    (
        "any device but CPU (HETERO and AUTO that come down to CPU work)",
        "custom operators run on the CPU plugin alone",
        "`use_builtin_ops(model)` before compiling",
    ),
    (
        "indices of 64 bits that only come at run time",
        "the plugin cuts them to their low 32 bits before any operator sees them: INT64_MAX is -1 then, and INT64_MIN 0; "
        "nothing tells them from a real -1 or 0",
        "use INT32_MAX and INT32_MIN, which mean as far as possible; constants are read right, whatever their size",
    ),
    (
        "data of i64 and u64 (through i32), f64 (through f32), i16 and u16 (through i32)",
        "the plugin computes in the narrower type",
        "`Model.evaluate` moves every bit",
    ),
    (
        "data of u1 on the plugin, of u3 and u6 anywhere",
        "the plugin has no such tensors",
        "`Model.evaluate` slices u1; u3 and u6 are refused with a sentence",
    ),
    (
        "fused rotary embeddings and other fusions that look for the built-in Slice",
        "a custom operator is opaque to them: results differ in the last bits, and time in more",
        "`use_builtin_ops(model)`",
    ),
    (
        "a data type by the names Slice and StridedSlice",
        "the plugin takes any operator of those names for its own and refuses dynamic shapes, so ours are Slice8 and "
        "StridedSlice1, version ov_ext, in IR files",
        "",
    ),
)
OF_PYTHON = (
    (
        "memory of dynamic models, of each `Slice(…)` and of `model.clone()`",
        "OpenVINO never frees an operator written in Python, and clones it for each inference of a dynamic model: 3.6 KiB for one "
        "that does nothing and 3.0 KiB for each constant index; ours adds 0.5 KiB. Static models: nothing",
    ),
    (
        "Ctrl-C while one of ours runs",
        "OpenVINO makes a RuntimeError of whatever an operator in Python raises; `KeyboardInterrupt` is in its message",
    ),
    ("`benchmark_app`, C++", "they load operators in C++ only"),
    (
        "bounds of a shape behind ShapeOf, ours, and one more operator",
        "OpenVINO works out bounds behind a Python operator only where they are exact; a consumer right behind ours gets them",
    ),
    (
        "tiny tensors",
        "a call into Python costs 5 to 10 us, in a dynamic model 30 to 60: see `benchmarks/evaluate.py`",
    ),
)


def call(case: dict[str, Any]) -> str:
    """A case in words."""
    names = ("begin", "end", "strides") if case["op"] == "StridedSlice" else ("start", "stop", "step", "axes")
    said = [f"{name} {values}" for name, values in zip(names, case["indices"], strict=False)]
    said += [f"{name} {mask}" for name, mask in case.get("masks", {}).items()]
    late = case.get("run_time", False)
    if isinstance(late, list):
        said.append(f"{', '.join(name for name, is_late in zip(names, late, strict=False) if is_late)} at run time")
    else:
        said += ["at run time"] * late
    said += [
        f"indices of {kinds}" for kinds in (case.get("index_type"), " and ".join(case.get("index_types", ()))) if kinds
    ]
    said += ["constant"] * case.get("constant", False)
    shape = case.get("shape", case["sizes"])
    known = "" if shape == case["sizes"] else f" known as {case['sizes']}"
    return f"{case.get('element', 'i32')}{shape}{known}, {', '.join(said)}"


def result(found: tuple[tuple[int, ...], Any] | None) -> str:
    """A result in words."""
    if found is None:
        return "refused"
    shape, values = found
    return f"{list(shape)}" + (f": {', '.join(map(str, values))}" if values and values != "right" else "")


def page() -> str:
    """The page."""
    version = OPENVINO.split("-")[0]
    lines = [
        "# StridedSlice-1 and Slice-8: the text, OpenVINO, and ours",
        f"Made from `tests/strided_slice_page.py` and `tests/divergences.py`; every case here is run by the tests, on OpenVINO "
        f"{version} and on ours. Data counts from 0.",
        "",
        "## Where the specification and OpenVINO differ",
        "Ours follows OpenVINO's shape inference and reference, and takes what the text allows beyond that.",
        "",
        "| operator | the text or an example | what OpenVINO computes, and ours | case | OpenVINO | ours |",
        "|---|---|---|---|---|---|",
    ]
    for entry in DIFFERENCES:
        ours = entry.ours if entry.ours is not None else entry.result
        cells = [entry.op, entry.text, entry.reality, f"`{call(entry.case)}`", result(entry.result), result(ours)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"## What OpenVINO {version} computes wrongly",
        "Ours is right in each, and `ov_ext.harden` rewrites each. An entry that is no longer true fails the tests.",
        "",
        "| defect | where | right | instead OpenVINO | case | right result |",
        "|---|---|---|---|---|---|",
    ]
    where = {"openvino-cpu": "CPU plugin", "openvino-reference": "constant folding, Model.evaluate"}
    for defect in OPENVINO_DEFECTS:
        cells = [defect.id, where[defect.engine], defect.specification, defect.engine_does]
        cells += [f"`{call(defect.case)}`", result(defect.specified)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Beside these, what only comes at run time and is left as it is: by a step whose low 32 bits are -2^31, or with StridedSlice "
        "0, the plugin divides, which may end the process; of a shrunk index that is out of range it takes the nearest element, ours "
        "raises; `harden` leaves it as it is.",
        "",
        "## Limits of custom operators",
        "| what | why | workaround |",
        "|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in LIMITS),
        "",
        "## Limits of operators in Python",
        "Operators in C++ have none of these: `python -m ov_ext.native build` builds them. Nor have the built-in ones: `harden(model)` "
        "leaves to these what they compute right, and `use_builtin_ops(model)` everything.",
        "",
        "| what | why |",
        "|---|---|",
        *(f"| {' | '.join(row)} |" for row in OF_PYTHON),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
