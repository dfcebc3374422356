"""Graphs as exporters write them compute the same bits in the portable form, for every size of their open axes."""

from __future__ import annotations

import pytest
from exporter_graphs import GRAPHS, build, make_inputs
from running import as_arrays
from sessions import open_session

import sliceport


@pytest.mark.parametrize("target", ["portable", "opencv"])
@pytest.mark.parametrize("name", GRAPHS)
def test_portable_form_of_an_exported_graph_computes_the_same(name: str, target: str) -> None:
    opset = 18 if target == "portable" else 13
    model = build(name, opset)
    written = sliceport.harden(model, target=target).model
    before, after = open_session(model, optimized=False), open_session(written, optimized=False)
    for size in (0, 1, 2, 5):
        inputs = make_inputs(model, size)
        expected, results = as_arrays(before.run(None, inputs)), as_arrays(after.run(None, inputs))
        assert [(array.shape, array.tobytes()) for array in results] == [
            (array.shape, array.tobytes()) for array in expected
        ]
