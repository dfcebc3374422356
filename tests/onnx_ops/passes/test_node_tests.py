"""The node tests of onnx, of all operators but pooling: passes change nothing that comes out, and touch no more."""

from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from amounts import some
from onnx_node_cases import all_node_tests
from sessions import run_unoptimized

from onnx_ops.model.io import from_proto
from onnx_ops.passes import rewrite
from sliceport.errors import ModelError


def same(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray) and first.dtype != object:
        return (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes())
    return np.array_equal(first, second)


@pytest.mark.skipif(np.__version__ < "2", reason="onnx makes its node tests with NumPy 2")
def test_all_operators(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    rewritten = compared = 0
    for case in some(all_node_tests()):
        assert case.model is not None
        try:
            model = from_proto(case.model)
        except ModelError:
            continue
        untouched = ir.serde.serialize_model(model)
        report = rewrite(model)
        after = ir.serde.serialize_model(model)
        if not any(report.changes.values()):
            assert after == untouched, case.name
            continue
        rewritten += 1
        onnx.checker.check_model(after)
        for arrays, _ in case.data_sets or []:
            expected = run_unoptimized(untouched, *arrays)
            if expected is not None:
                compared += 1
                got = run_unoptimized(after, *arrays)
                assert got is not None, case.name
                assert all(map(same, expected, got)), case.name
    assert rewritten > 40
    assert compared > (35 if sys.platform == "win32" else 40)  # onnxruntime-directml is older and runs fewer of them
