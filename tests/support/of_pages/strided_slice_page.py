"""Contents of `docs/strided_slice.md`; as a script this writes the page, and `test_page.py` runs its cases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sliceport.defects.cases import OpenVINOCase
from sliceport.defects.engines import OPENVINO, VERSIONS

PAGE = Path(__file__).parents[3] / "docs" / "strided_slice.md"


@dataclass(frozen=True)
class Difference:
    """A place where the specification's text or examples and OpenVINO differ.

    Attributes:
        op: The operator.
        text: The claim of the specification.
        reality: The behaviour of OpenVINO's shape inference and reference, and of ours.
        case: A case that shows it.
        result: Shape and elements that come out, of OpenVINO's reference and of ours; None if OpenVINO refuses.
        ours: The result of ours if OpenVINO refuses.
    """

    op: str
    text: str
    reality: str
    case: OpenVINOCase
    result: tuple[tuple[int, ...], tuple[int, ...]] | None
    ours: tuple[tuple[int, ...], tuple[int, ...]] | None = None


def strided_slice(sizes: Any, begin: list[int], end: list[int], strides: list[int], **masks: Any) -> OpenVINOCase:
    return OpenVINOCase.of("StridedSlice", sizes, begin=begin, end=end, strides=strides, **masks)


def slice8(sizes: Any, *indices: list[int]) -> OpenVINOCase:
    by_name: dict[str, Any] = dict(zip(("start", "stop", "step", "axes"), indices, strict=True))
    return OpenVINOCase.of("Slice", sizes, **by_name)


DIFFERENCES = (
    Difference(
        "StridedSlice",
        "if begin equals end, one element is kept",
        "nothing is kept",
        strided_slice([4], [2], [2], [1]),
        ((0,), ()),
    ),
    Difference(
        "StridedSlice",
        "a negative stride is subtracted from the index",
        "it is added, so the indices go down",
        strided_slice([4], [3], [0], [-1]),
        ((3,), (3, 2, 1)),
    ),
    Difference(
        "StridedSlice",
        "with end_mask, a negative stride stops before element 0: the example `[1:, :, ::-1]` gives 3 elements of 4",
        "it reaches element 0, and gives all 4",
        strided_slice([4], [0], [0], [-1], begin_mask=[1], end_mask=[1]),
        ((4,), (3, 2, 1, 0)),
    ),
    Difference(
        "StridedSlice",
        "with a negative stride, a begin below the axis is clamped to element 0",
        "the same, although NumPy selects nothing",
        strided_slice([5], [-9], [-20], [-1]),
        ((1,), (0,)),
    ),
    Difference(
        "StridedSlice",
        "each mask may have another length than begin: missing bits are 0, and excess bits are ignored; two examples have such masks",
        "OpenVINO refuses masks of different lengths (`All masks of StridedSlice must have the same size`); `ov_ext` accepts them",
        strided_slice([2, 3], [1, 0], [2, 2], [1, 1], begin_mask=[0, 1], end_mask=[0]),
        None,
        ((1, 2), (3, 4)),
    ),
    Difference(
        "StridedSlice",
        "begin must equal end on a shrunk axis",
        "end is ignored",
        strided_slice([3], [1], [7], [1], begin_mask=[0], shrink_axis_mask=[1]),
        ((), (1,)),
    ),
    Difference(
        "StridedSlice",
        "indices beyond the axis are clamped",
        "an index of a shrunk axis that is out of range is an error",
        strided_slice([3], [3], [4], [1], begin_mask=[0], shrink_axis_mask=[1]),
        None,
    ),
    Difference(
        "StridedSlice",
        "strides must not be 0",
        "a stride may be 0 for a shrunk axis, a new axis or the ellipsis, where it is ignored",
        strided_slice([3], [1], [2], [0], begin_mask=[0], shrink_axis_mask=[1]),
        ((), (1,)),
    ),
    Difference(
        "StridedSlice",
        "with M entries, the ellipsis stands for rank - (M - sum(new_axis_mask) - 1) axes",
        "the same, but the sum leaves out bits of new_axis_mask at the ellipsis and beyond the last entry",
        strided_slice(
            [2, 3], [0, 1], [0, 2], [1, 1], begin_mask=[0] * 3, ellipsis_mask=[1, 0, 0], new_axis_mask=[0, 0, 1]
        ),
        ((2, 1), (1, 4)),
    ),
    Difference(
        "StridedSlice",
        "the example of clamping in two dimensions (begin [1234, 2], end [1234, 4321], strides [1, -1]) gives the shape [1, 1]",
        "its shape is [0, 0]",
        strided_slice([2, 2], [1234, 2], [1234, 4321], [1, -1]),
        ((0, 0), ()),
    ),
    Difference(
        "Slice",
        "indices follow the rules of Python",
        "they do, with one exception: with a negative step, a start below the axis is clamped to element 0, although Python selects nothing",
        slice8([5], [-9], [-20], [-1], [0]),
        ((1,), (0,)),
    ),
    Difference(
        "Slice",
        "nothing about a negative step with the greatest integer as the stop",
        "the stop is clamped, so nothing is selected; onnxruntime reverses the axis",
        slice8([4], [-1], [2**31 - 1], [-1], [0]),
        ((0,), ()),
    ),
)

LIMITS = (
    (
        "devices other than the CPU (HETERO and AUTO work if they choose the CPU)",
        "only the CPU plugin runs custom operators",
        "`use_builtin_ops(model)` before compiling",
    ),
    (
        "64-bit indices that are known only at run time",
        "the plugin [cuts them to 32 bits](defects.md#openvinos-cpu-plugin) before any operator sees them, so that INT64_MAX arrives as "
        "-1, and INT64_MIN as 0",
        "use INT32_MAX and INT32_MIN",
    ),
    (
        "data of i64, u64, i16, u16 and f64",
        "the plugin computes these integers as i32, and f64 as f32",
        "`Model.evaluate` moves every bit",
    ),
    (
        "data of u1 on the plugin, of u3 and u6 anywhere",
        "the plugin has no such tensors",
        "`Model.evaluate` slices u1; u3 and u6 are refused with an error",
    ),
    (
        "fusions that look for the built-in Slice, such as that of rotary embeddings",
        "they do not fuse a custom operator, so the last bits of results differ, and the model is slower",
        "`use_builtin_ops(model)`",
    ),
    (
        "the names Slice and StridedSlice in IR files",
        "the plugin treats any operator with one of these names as its own, and refuses dynamic shapes",
        "in IR files, ours are called Slice8 and StridedSlice1, version ov_ext",
    ),
)
OF_PYTHON = (
    (
        "memory, in each inference of a dynamic model, each `Slice(…)` and each `model.clone()`",
        "OpenVINO never frees an operator that is written in Python, and clones it for each inference of a dynamic model. Any such "
        "operator leaks 3.6 KiB, and 3.0 KiB more for each constant index; ours leak another 0.5 KiB. Static models leak nothing",
    ),
    (
        "Ctrl-C while one of our operators runs",
        "OpenVINO turns any exception of a Python operator into a RuntimeError; look for `KeyboardInterrupt` in its message",
    ),
    ("`benchmark_app`, programs in C++", "they load only operators in C++"),
    (
        "bounds of computed sizes, as of ShapeOf, one of our operators, then another operator",
        "after a Python operator, OpenVINO computes bounds only if they are exact; a node that reads our operator directly gets them",
    ),
    ("tiny tensors", "a call into Python takes 5 to 10 us, and 30 to 60 in a dynamic model (`benchmarks/evaluate.py`)"),
)


def result(found: tuple[tuple[int, ...], tuple[int, ...]] | None) -> str:
    """Format a result."""
    if found is None:
        return "an error"
    shape, values = found
    return f"{list(shape)}" + (f": {', '.join(map(str, values))}" if values else "")


def page() -> str:
    """Return the page."""
    lines = [
        "# StridedSlice and Slice in OpenVINO",
        "In some places, OpenVINO does not do what the specification of StridedSlice-1 and Slice-8 says. The operators of `ov_ext` then "
        "follow OpenVINO's shape inference and Model.evaluate, so that models keep their results. They also accept what the specification "
        "allows and OpenVINO refuses. [Known defects](defects.md#openvinos-cpu-plugin) lists the places where OpenVINO contradicts itself.",
        "",
        "## Where the specification and OpenVINO differ, or both differ from NumPy",
        f"Tests run every case here, on OpenVINO {VERSIONS[OPENVINO][-1]} and on `ov_ext`. The elements of the data are 0, 1, 2 and so on.",
        "",
        "| operator | specification | OpenVINO and `ov_ext` | case | OpenVINO gives | `ov_ext` gives |",
        "|---|---|---|---|---|---|",
    ]
    for entry in DIFFERENCES:
        ours = entry.ours if entry.ours is not None else entry.result
        cells = [entry.op, entry.text, entry.reality, f"`{entry.case}`", result(entry.result), result(ours)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "## Limits of custom operators",
        "| what | why | workaround |",
        "|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in LIMITS),
        "",
        "## Limits of operators in Python",
        "The built-in operators, and the operators in C++, which `python -m ov_ext.native build` builds, have none of these limits. "
        "`harden(model)` keeps the built-in operators wherever they compute the right result; `use_builtin_ops(model)` uses them everywhere.",
        "",
        "| what | why |",
        "|---|---|",
        *(f"| {' | '.join(row)} |" for row in OF_PYTHON),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
