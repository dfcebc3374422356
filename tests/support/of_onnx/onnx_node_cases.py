"""The official ONNX node tests: those of Slice and Split, and those of all operators but pooling."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from unittest import mock

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case import base, node
from onnx.backend.test.case.test_case import TestCase

POOLING = (".averagepool", ".lppool", ".maxpool")
"""Of operators in which nothing is sliced and that no pass knows, as it knows no other that computes; to make their
data takes three times as long as those of all others."""


def all_node_tests() -> list[TestCase]:
    """Return the tests of every operator but pooling."""
    with warnings.catch_warnings(), mock.patch.object(base, "process_snippet", return_value=("", "")):
        # Else the source of each is looked up, for onnx's pages.
        warnings.simplefilter("ignore")  # making the data of every operator overflows here and there
        for module in pkgutil.walk_packages(node.__path__, f"{node.__name__}."):
            if not module.name.endswith(POOLING):
                importlib.import_module(module.name)
    return list(node._NodeTestCases)


def node_tests() -> dict[str, tuple[onnx.ModelProto, list[np.ndarray], list[np.ndarray]]]:
    """Model, inputs and outputs of every node test whose nodes are Slices and Splits, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("onnx.backend.test.case.node.slice")
        importlib.import_module("onnx.backend.test.case.node.split")
    found = {}
    for case in node._NodeTestCases:  # `collect_testcases` makes the data of every operator, and that only once
        if case.model is not None and {n.op_type for n in case.model.graph.node} <= {"Slice", "Split"}:
            for inputs, outputs in case.data_sets or []:
                found[case.name] = (case.model, list(inputs), list(outputs))
    return found


CASES = node_tests()


def with_constants(model: onnx.ModelProto, inputs: list[np.ndarray]) -> onnx.ModelProto:
    """Return the model with the test's own parameters as initializers: everything but the data."""
    constant = onnx.ModelProto()
    constant.CopyFrom(model)
    for value, array in list(zip(model.graph.input, inputs, strict=True))[1:]:
        constant.graph.initializer.append(numpy_helper.from_array(array, value.name))
        constant.graph.input.remove(next(i for i in constant.graph.input if i.name == value.name))
    return constant
