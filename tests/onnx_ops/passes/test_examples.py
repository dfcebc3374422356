"""The example in each pass's docstring is what the pass does."""

from __future__ import annotations

import inspect

import onnx_ir as ir
import pytest
from pass_cases.examples import examples, meaning, models
from platforms import assert_well_formed

from onnx_ops.model.io import from_proto
from onnx_ops.passes import HARDEN_DIRECTML, PASSES
from onnx_ops.passes.portable.harden import PORTABLE

KINDS = {kind.__name__: kind for kind in (*PASSES.values(), *HARDEN_DIRECTML, *PORTABLE)}


@pytest.mark.parametrize("name", KINDS)
def test_pass_does_what_its_example_says(name: str) -> None:
    found = examples(KINDS[name])
    file = KINDS[name].__module__.replace(".", "/") + ".py"
    assert found, f"add `Given: ... Result: ...` to the docstring of {name} in {file}"
    for given, result in found:
        given_model, result_model = models(given, result)
        before = from_proto(given_model)
        assert KINDS[name]()(before).modified
        after = ir.serde.serialize_model(before)
        assert_well_formed(after)
        assert meaning(after) == meaning(result_model)
        assert not KINDS[name]()(before).modified


def test_rules_are_numbered() -> None:
    for kind in KINDS.values():
        assert "\n1. " in inspect.cleandoc(kind.__doc__ or ""), f"number the rules in the docstring of {kind.__name__}"
