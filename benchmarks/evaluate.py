"""Our Slice against the built-in one on OpenVINO's CPU plugin, as ratios of time: `python benchmarks/evaluate.py`.

One process; the variants take turns and the best of all turns counts; inputs are shared and outputs not copied, or the
copies would hide the operators. A ratio below 1 means that ours is faster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from math import exp, log
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset8

import ov_ext
from ov_ext.slice import Slice

LARGE, MEDIUM, TINY = (64, 1024, 256), (4, 256, 256), (1, 8, 8)
"""Shapes: 64 MiB and 1 MiB of float32, and nothing to speak of."""
FORMS: dict[str, tuple[tuple[Any, ...], str]] = {
    "all but the ends": ((slice(None), slice(1, -1)), "contiguous"),
    "half of the last axis": ((slice(None), slice(None), slice(0, None, None), "half"), "contiguous"),
    "every other row": ((slice(None), slice(1, None, 2)), "outer"),
    "every other of all": ((slice(None, None, 2), slice(None, None, 2)), "outer"),
    "every other element": ((slice(None), slice(None), slice(None, None, 2)), "inner"),
    "every third element": ((slice(None), slice(1, None), slice(None, None, 3)), "inner"),
    "rows backwards": ((slice(None), slice(None, None, -1)), "backwards rows"),
    "elements backwards": ((slice(None), slice(None), slice(None, None, -1)), "reversed"),
}
FAR = 2**31 - 1


class Nothing(Slice):
    """A Python operator of the same shape whose evaluate does nothing: the floor."""

    class_type_info = ov.DiscreteTypeInfo("Nothing", "benchmark")

    def evaluate(self, outputs: Any, inputs: Any) -> bool:  # noqa: ARG002 - the base class's signature
        """Say where the output would go, and no more."""
        if outputs[0].data.shape != self.sizes:
            outputs[0].shape = self.sizes
        return True

    def validate_and_infer_types(self) -> None:
        """Say that nothing is known, and no more."""
        if self.get_input_partial_shape(0).is_dynamic:
            self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))
        else:
            self.set_output_type(0, self.get_input_element_type(0), ov.PartialShape(list(self.sizes)))


def bounds(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[list[int], ...]:
    """Starts, stops, steps and axes of an index."""
    slices = list(index[: len(shape)])
    if index[-1] == "half":
        slices[-1] = slice(0, shape[-1] // 2)
    starts, stops, steps = [], [], []
    for cut in slices:
        step = cut.step or 1
        starts.append(cut.start if cut.start is not None else (0 if step > 0 else -1))
        stops.append(cut.stop if cut.stop is not None else (FAR if step > 0 else -FAR))
        steps.append(step)
    return starts, stops, steps, list(range(len(slices)))


def model(kind: Callable[..., Any], data: np.ndarray, index: tuple[Any, ...], dynamic: bool) -> ov.Model:
    """A model of one slice."""
    shape = [-1] * data.ndim if dynamic else list(data.shape)
    source = opset8.parameter(shape, ov.Type(data.dtype))
    constants = [opset8.constant(np.array(values, np.int64)) for values in bounds(index, data.shape)]
    return ov.Model([kind([source, *constants])], [source], "m")


def times(kinds: dict[str, Callable[..., Any]], data: np.ndarray, index: Any, dynamic: bool, budget: float) -> Any:
    """Seconds of the best of all turns, by kind."""
    runs, best = {}, dict.fromkeys(kinds, float("inf"))
    for name, kind in kinds.items():
        request = ov.Core().compile_model(model(kind, data, index, dynamic), "CPU").create_infer_request()
        request.set_input_tensor(ov.Tensor(data, shared_memory=True))
        request.infer(share_outputs=True)
        runs[name] = request
    start = time.perf_counter()
    inner = 50 if data.nbytes < 2**16 else 1
    turns = 0
    while turns < 5 or time.perf_counter() - start < budget:
        turns += 1
        for name, request in runs.items():
            begun = time.perf_counter()
            for _ in range(inner):
                request.infer(share_outputs=True)
            best[name] = min(best[name], (time.perf_counter() - begun) / inner)
    return best


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def main() -> None:
    """Print the table and the aims."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each line; default 1")
    parser.add_argument("--tiny", action="store_true", help="only the tiny ones")
    options = parser.parse_args()
    budget = options.seconds
    kinds: dict[str, Callable[..., Any]] = {"built-in": lambda inputs: opset8.slice(*inputs), "ours": ov_ext.Slice}
    found: dict[str, list[float]] = {}
    print("type  size    what                     shapes    built-in us     ours us   ratio")
    for size, shape in (("large", LARGE), ("medium", MEDIUM), ("tiny", TINY)):
        for kind in () if options.tiny and size != "tiny" else (np.float32, np.float16, np.uint8):
            scale = 4 // np.dtype(kind).itemsize
            sizes = (shape[0] * scale, *shape[1:]) if size != "tiny" else shape
            data = np.random.default_rng(0).integers(0, 100, sizes).astype(kind)
            for title, (index, family) in FORMS.items():
                for dynamic in (False, True):
                    if size == "large" and dynamic:
                        continue
                    taken = times(kinds, data, index, dynamic, budget)
                    ratio = taken["ours"] / taken["built-in"]
                    shapes = "dynamic" if dynamic else "static"
                    found.setdefault(f"{size} {shapes}", []).append(ratio)
                    found.setdefault(f"{size} {family}", []).append(ratio)
                    print(
                        f"{np.dtype(kind).name:8}{size:8}{title:25}{shapes:8}"
                        f"{taken['built-in'] * 1e6:12.1f}{taken['ours'] * 1e6:12.1f}{ratio:8.2f}",
                        flush=True,
                    )
    floor = []
    data = np.zeros(TINY, np.float32)
    for index, _ in FORMS.values():
        Nothing.sizes = data[tuple(cut if cut != "half" else slice(None) for cut in index[:3])].shape
        taken = times({"nothing": Nothing, "ours": ov_ext.Slice}, data, index, True, budget)
        floor.append(taken["ours"] / taken["nothing"])
    if not options.tiny:
        moved = [r for key in ("large static", "medium static", "medium dynamic") for r in found[key]]
        print(f"large, the worst:                     {max(found['large static']):.2f} (aim: at most 1.1)")
        for family in ("inner", "reversed"):
            print(f"large, {family}, the worst:".ljust(38) + f"{max(found[f'large {family}']):.2f} (aim: below 0.5)")
        print(f"large and medium, geometric mean:     {mean(moved):.2f} (aim: below 0.75)")
    print(f"tiny static, geometric mean:          {mean(found['tiny static']):.2f} (aim: below 1.7)")
    print(f"tiny dynamic, over the built-in one:  {mean(found['tiny dynamic']):.1f}")
    print(f"tiny dynamic, over one that does nothing: {mean(floor):.2f} (aim: at most 1.15)")


if __name__ == "__main__":
    main()
