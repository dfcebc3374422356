"""Arrays of constants are cached by identity as long as the constants live."""

from __future__ import annotations

import gc

import numpy as np
import onnx_ir as ir

from onnx_ops.model.read_once import read_once, reading_once


def test_an_array_is_cached_while_its_constant_lives() -> None:
    source, read = object(), []

    def append() -> int:
        read.append(1)
        return len(read)

    assert [read_once(source, "a", append) for _ in range(2)] == [1, 2]
    with reading_once():
        assert [read_once(source, what, append) for what in "aba"] == [3, 4, 3]
        with reading_once():
            assert read_once(source, "a", append) == 3
        assert read_once(source, "a", append) == 3
    assert read_once(source, "a", append) == 5


def test_another_object_in_the_same_place_is_another() -> None:
    with reading_once():
        for i in range(100):
            tensor = ir.tensor(np.array([i]))
            assert int(read_once(tensor, "array", tensor.numpy)[0]) == i
            del tensor
            gc.collect(0)


def test_what_cannot_be_read_is_not_kept() -> None:
    source, answers = object(), iter([None, 7])

    def read() -> int:
        answer = next(answers)
        if answer is None:
            raise OSError
        return answer

    with reading_once():
        try:
            read_once(source, "it", read)
        except OSError:
            assert read_once(source, "it", read) == 7
