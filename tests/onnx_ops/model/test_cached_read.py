"""Arrays of constants are cached by identity as long as the constants live."""

from __future__ import annotations

import gc

import numpy as np
import onnx_ir as ir

from onnx_ops.model.cached_read import cached_read, caching_reads


def test_an_array_is_cached_while_its_constant_lives() -> None:
    source, read = object(), []

    def append() -> int:
        read.append(1)
        return len(read)

    assert [cached_read(source, "a", append) for _ in range(2)] == [1, 2]
    with caching_reads():
        assert [cached_read(source, what, append) for what in "aba"] == [3, 4, 3]
        with caching_reads():
            assert cached_read(source, "a", append) == 3
        assert cached_read(source, "a", append) == 3
    assert cached_read(source, "a", append) == 5


def test_another_object_in_the_same_place_is_another() -> None:
    with caching_reads():
        for i in range(100):
            tensor = ir.tensor(np.array([i]))
            assert int(cached_read(tensor, "array", tensor.numpy)[0]) == i
            del tensor
            gc.collect(0)


def test_what_cannot_be_read_is_not_kept() -> None:
    source, answers = object(), iter([None, 7])

    def read() -> int:
        answer = next(answers)
        if answer is None:
            raise OSError
        return answer

    with caching_reads():
        try:
            cached_read(source, "it", read)
        except OSError:
            assert cached_read(source, "it", read) == 7
