"""Sizes that are chosen for inputs: distinct primes, the same wherever a symbol stands."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from onnx_models import save

import sliceport
from sliceport.engines.sizes import DeclaredShapes, InputShapes, choose_sizes, fill_sizes
from sliceport.errors import ModelError
from sliceport.formats import declared_shapes


@pytest.mark.parametrize(
    ("declared", "chosen"),
    [
        ({"x": ("batch", 3, "h", "w")}, {"x": (2, 3, 23, 29)}),
        ({"x": ("batch", "seq"), "y": ("seq", "batch", "seq")}, {"x": (2, 23), "y": (23, 2, 23)}),
        ({"x": (None, None), "y": (None, 4)}, {"x": (2, 23), "y": (3, 4)}),
        ({"x": (1, 2), "y": (), "z": None}, {}),
        ({"x": (0, None)}, {"x": (0, 23)}),
        ({"x": ("n",), "y": (1, "n")}, {"x": (2,), "y": (1, 2)}),
        ({"x": ("a", "a + past"), "past": (1, "past")}, {"x": (2, 25), "past": (1, 23)}),
        ({"x": (1, "2*s")}, {"x": (1, 46)}),
        ({"x": (1, "s//2 - 1", "s", "(s + 3) % 5")}, {"x": (1, 10, 23, 1)}),
        ({"x": ("batch-size", "s - 9999")}, {"x": (2, 29)}),
        ({"x": ("batch", "size", "size-batch", "batch-size")}, {"x": (2, 23, 21, 29)}),
        ({"x": (1, "s // 0", "s ** 9", "f(s)", "1 +", "seq len")}, {"x": (1, 43, 23, 29, 31, 37)}),
        ({"x": (range(1, 9), range(2, 100), range(4, 8), range(1, 2), range(24, 29))}, {"x": (2, 23, 5, 1, 28)}),
        ({"x": (1, range(5, 5))}, {"x": (1, 23)}),
    ],
)  # fmt: skip
def test_sizes_are_chosen(declared: DeclaredShapes, chosen: dict[str, tuple[int, ...]]) -> None:
    assert choose_sizes(declared) == chosen


@pytest.mark.parametrize(
    ("declared", "given", "chosen", "filled"),
    [
        ({"x": ("b", 3), "y": ("b", None)}, {"x": (23, 3)}, {"y": (23, 29)}, {"y": (23, 1)}),
        ({"x": ("past+1",), "y": ("past+1", "past")}, {"x": (5,)}, {"y": (5, 23)}, {"y": (5, 1)}),
        ({"x": ("None",), "y": (None,)}, {"x": (4,)}, {"y": (2,)}, {"y": (1,)}),
    ],
)
def test_given_sizes_hold_for_the_same_symbols_only(
    declared: DeclaredShapes, given: InputShapes, chosen: InputShapes, filled: InputShapes
) -> None:
    assert choose_sizes(declared, given) == chosen
    assert fill_sizes(declared, given, 1) == filled


def test_sizes_stay_distinct_where_there_are_many() -> None:
    declared = {f"past_{i}": (f"batch_{i}", None) for i in range(100)}
    sizes = [size for shape in choose_sizes(declared).values() for size in shape]
    assert len(set(sizes)) == 200
    assert all(size % divisor for size, divisor in product(sizes, range(2, 40)) if divisor < size)


def test_shapes_of_a_model_are_chosen(tmp_path: Path) -> None:
    graph = "(float[batch, seq, 4] x) => (y, z) { [half] y, z = Split<axis = 1, num_outputs = 2>(x) }"
    file = save(graph, tmp_path / "m.onnx")
    assert choose_sizes(declared_shapes(file)) == {"x": (2, 23, 4)}
    assert sliceport.lower(file, input_shapes=choose_sizes(declared_shapes(file))).summary["lowered"] == 1


def test_of_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match="m.onnx': it is not an ONNX model"):
        choose_sizes(declared_shapes(tmp_path / "m.onnx"))
