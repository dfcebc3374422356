"""Minimal cases of defects, which are small models of ONNX or OpenVINO as data."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from sliceport.slicing.masks import MASK_ATTRIBUTES

_INITIALIZER = re.compile(r"\w+\[\d*\] (\w+) = \{([^}]*)\}")
"""An initializer in the text format of ONNX: its name and its elements."""
LIMITS = {2**63 - 1: "INT64_MAX", -(2**63): "INT64_MIN", 2**31 - 1: "INT32_MAX", -(2**31): "INT32_MIN"}
"""Names of the limits of integers in TOML files and in descriptions of cases."""
_INPUT = re.compile(r"\(\w+(\[[^\]]*\]) (\w+)")
"""The first value of a list of inputs or outputs in the text format of ONNX: its sizes and its name."""
_INDICES = {
    "StridedSlice": ("begin", "end", "strides"),
    "Slice": ("start", "stop", "step", "axes"),
    "VariadicSplit": ("axis", "split_lengths"),
    "TensorIterator": ("start", "stride", "part_size", "end", "axis"),
}
"""The index inputs of each operator of OpenVINO. For a TensorIterator, attributes of its sliced input."""


@dataclass(frozen=True)
class OnnxCase:
    """A model in the text format of ONNX, for `onnx.parser.parse_model`.

    Attributes:
        graph: The graph: an input, outputs, constants in angle brackets, and nodes with two spaces between them.
        opset: Version of the operator set.
        shape: The shape of the data; None if the graph declares it.
    """

    graph: str
    opset: int = 13
    shape: tuple[int, ...] | None = None

    @property
    def text(self) -> str:
        """The whole model in the text format."""
        return f'<ir_version: 8, opset_import: ["" : {self.opset}]> case {self.graph}'

    def to_json(self) -> dict[str, Any]:
        """Return the model as JSON values, with the shape of the data if the case has one."""
        return {"onnx": self.text} | ({} if self.shape is None else {"shape": list(self.shape)})

    def __str__(self) -> str:
        """Return the nodes, with the values of constants in place of their names, and the sizes of the first input.

        >>> str(OnnxCase("(float[4] x) => (float[n] y) <int64[1] a = {0}, int64[1] b = {2}> { y = Slice(x, a, b) }"))
        'y = Slice(x[4], [0], [2])'
        """
        head, _, body = self.graph.partition(" { ")
        replacements = {name: f"[{values}]" for name, values in _INITIALIZER.findall(head)}
        # The pattern also matches the first output, whose sizes are not shown.
        replacements |= {name: f"{name}{sizes}" for sizes, name in _INPUT.findall(head)[:1]}
        nodes = re.sub(r"\w+", lambda word: replacements.get(word[0], word[0]), body.removesuffix(" }"))
        return _replace_limits_by_names(nodes.replace("  ", "; "))  # two spaces separate nodes


@dataclass(frozen=True)
class OpenVINOCase:
    """A Slice, StridedSlice or VariadicSplit of OpenVINO, or a TensorIterator that joins the parts of the data.

    Attributes:
        op: A key of `_INDICES`.
        sizes: The sizes that the model declares for the data: a number, -1 for any size, or `(least, greatest)`.
        indices: The elements of each index input, in the order of `_INDICES`. The last inputs may be missing.
        masks: The masks by their names.
        shape: The shape of the data; by default `sizes`.
        element: The element type of the data.
        index_types: The element type of each index input; by default i64.
        run_time: Whether each index input is an input of the model rather than a constant; by default none is.
        is_constant: Whether the data are a constant.
        one_thread: Whether the CPU plugin runs the model in one thread.
        doubled_on: Axis of a Concat that doubles the data and is an output of the model, too. None without a Concat.
        is_unread: Whether the body of a TensorIterator returns a constant, element 0 of the data, instead of its part.
    """

    op: str
    sizes: tuple[int | tuple[int, int], ...]
    indices: tuple[tuple[int, ...], ...]
    masks: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    shape: tuple[int, ...] | None = None
    element: str = "i32"
    index_types: tuple[str, ...] = ()
    run_time: tuple[bool, ...] = ()
    is_constant: bool = False
    one_thread: bool = False
    doubled_on: int | None = None
    is_unread: bool = False

    @classmethod
    def of(cls, op: str, sizes: Sequence[Any], run_time: Collection[str] = (), **options: Any) -> OpenVINOCase:
        """Build a case from index inputs and masks that are given by name.

        `run_time` contains the names of the index inputs that are inputs of the model. `options` are the elements of
        index inputs and masks, and attributes of the class, all by name. The `strides` of a StridedSlice default to 1.
        """
        if op == "StridedSlice":
            options.setdefault("strides", [1] * len(options["begin"]))
        indices = {name: tuple(options.pop(name)) for name in _INDICES[op] if name in options}
        masks = {name: tuple(options.pop(name)) for name in MASK_ATTRIBUTES if name in options}
        at_run_time = tuple(name in run_time for name in indices) if run_time else ()
        return cls(op, tuple(sizes), tuple(indices.values()), masks, run_time=at_run_time, **options)

    def to_json(self) -> dict[str, Any]:
        """Return the case as JSON values, with defaults filled in."""
        return {
            "op": self.op,
            "sizes": [size if isinstance(size, int) else list(size) for size in self.sizes],
            "shape": list(self.sizes if self.shape is None else self.shape),
            "indices": list(map(list, self.indices)),
            "masks": {name: list(mask) for name, mask in self.masks.items()},
            "element": self.element,
            "index_types": list(self.index_types or ["i64"] * len(self.indices)),
            "run_time": list(self.run_time or [False] * len(self.indices)),
            "constant": self.is_constant,
            "doubled_on": self.doubled_on,
            "unread": self.is_unread,
        } | ({"config": {"INFERENCE_NUM_THREADS": 1}} if self.one_thread else {})

    def __str__(self) -> str:
        """Return the data and the parameters of the node on one line.

        >>> str(OpenVINOCase.of("StridedSlice", [4], begin=[1], end=[3], begin_mask=[1]))
        'i32[4], begin [1], end [3], strides [1], begin_mask [1]'
        """
        names = _INDICES[self.op]
        parts = [f"{name} {list(values)}" for name, values in zip(names, self.indices, strict=False)]
        parts += [f"{name} {list(mask)}" for name, mask in self.masks.items()]
        run_time = [name for name, is_input in zip(names, self.run_time, strict=False) if is_input]
        if run_time:
            parts.append("at run time" if all(self.run_time) else f"{', '.join(run_time)} at run time")
        if self.index_types:
            parts.append(f"indices of {' and '.join(dict.fromkeys(self.index_types))}")
        flags = {
            "constant": self.is_constant,
            "in one thread": self.one_thread,
            "unread": self.is_unread,
        }
        parts += [words for words, applies in flags.items() if applies]
        if self.doubled_on is not None:
            parts.append(f"doubled by a Concat on axis {self.doubled_on} that is also an output")
        shape = self.sizes if self.shape is None else self.shape
        declared = "" if shape == self.sizes else f" known as {list(self.sizes)}"
        return _replace_limits_by_names(f"{self.element}{list(shape)}{declared}, {', '.join(parts)}")


KEYS = (
    *(key for kind in (OnnxCase, OpenVINOCase) for key in kind.__annotations__ if key not in ("indices", "masks")),
    *dict.fromkeys(chain.from_iterable(_INDICES.values())),
    *MASK_ATTRIBUTES,
)
"""The keys of the cases in TOML files: of an ONNX case, then of an OpenVINO case."""


def _replace_limits_by_names(text: str) -> str:
    """Replace the limits of 32-bit and 64-bit integers in a text by their names."""
    # Each of these limits has at least 10 digits.
    return re.sub(r"-?\d{10,}", lambda number: LIMITS.get(int(number[0]), number[0]), text)
