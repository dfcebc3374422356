"""Operators leave no memory behind, and survive forks, replaced constants and a Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import openvino as ov
import pytest
from amounts import long_only
from openvino_backends import NATIVE, THERE
from openvino_models import constant, make, parameter

from ov_ext.operators.copy import MIN_PARALLEL_BYTES, Plan
from ov_ext.operators.slice import Slice as InPython

GROWTH = """
import os, sys
import numpy as np, openvino as ov
from openvino_models import constant, parameter
import ov_ext
from ov_ext.operators.slice import Slice as InPython

class Empty(ov.Op):
    class_type_info = ov.DiscreteTypeInfo("Empty", "tests")
    def __init__(self, inputs=None):
        super().__init__(self)
        if inputs is not None:
            self.set_arguments(inputs)
            self.constructor_validate_and_infer_types()
    def get_type_info(self):
        return self.class_type_info
    def validate_and_infer_types(self):
        self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))
    def clone_with_new_inputs(self, inputs):
        return type(self)(inputs)
    def visit_attributes(self, visitor):
        return True
    def evaluate(self, outputs, inputs):
        outputs[0].shape = inputs[0].shape
        return True

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

def growth(kind, sizes, count):
    source = parameter(sizes)
    inputs = [source.output(0), *(constant([value]).output(0) for value in (1, 5, 1, 1))]
    model = ov.Model([kind(inputs)], [source], "m")
    request = ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1}).create_infer_request()
    tensor = ov.Tensor(np.ones((2, 6, 8), np.float32))
    for step in range(2):
        before = resident()
        for _ in range(count):
            request.infer([tensor])
    return (resident() - before) / count

sizes = eval(sys.argv[1])
print(growth(Empty, sizes, 2000), *(growth(kind, sizes, 2000) for kind in (InPython, ov_ext.Slice)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize(("sizes", "least"), [pytest.param([2, 6, 8], 0, marks=long_only), ([-1, -1, 8], 8 * 2**10)])
def test_operator_leaks_no_more_than_one_that_does_nothing(sizes: list[int], least: int) -> None:
    """OpenVINO clones an operator for each inference of a dynamic model, and never frees one in Python."""
    command = [sys.executable, "-c", GROWTH, str(sizes)]
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=300, env={**os.environ, "PYTHONPATH": path}
    )
    empty, in_python, ours = map(float, done.stdout.split())
    assert empty >= least, "OpenVINO frees them now: say so where this is documented"
    assert in_python <= empty + 2**10
    assert ours <= (2**9 if NATIVE in THERE else empty + 2**10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_can_copy() -> None:
    script = """
import os, signal
import numpy as np
from sliceport.slicing import Region
from ov_ext.operators import copy
copy._CORES = frozenset(range(4))
plan = copy.Plan(Region.of((4100, 256), (range(2, 4099), range(256))))
source = np.arange(4100 * 256, dtype=np.float32).reshape(4100, 256)
def run():
    target = np.zeros(plan.output_shape, np.float32)
    plan.copy(source, target)
    assert target.nbytes >= copy.MIN_PARALLEL_BYTES and np.array_equal(target, source[2:4099])
run()
pid = os.fork()
if pid == 0:
    signal.alarm(60)  # a child that hangs ends
    run()
    os._exit(7)
run()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "7", done.stderr
    assert MIN_PARALLEL_BYTES <= 4097 * 256 * 4


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("op", ["Slice", "StridedSlice"])
@pytest.mark.parametrize("ours", [True, False])
def test_replaced_constant_is_used_without_inferring_shapes_again(op: str, ours: bool) -> None:
    data = np.arange(1, 9, dtype=np.float32)
    source = parameter([8])
    indices = [constant(values) for values in ([0], [3], [1], *([[0]] if op == "Slice" else []))]
    original = ov.Model([make(op, [source, *indices], ours=ours)], [source], "m")
    for model in (original.clone(), original):
        (node,) = [node for node in model.get_ordered_ops() if node.get_type_name().startswith(op)]
        got = []
        for start, stop in ((0, 3), (4, 7), (1, 4)):
            node.input(1).replace_source_output(constant([start]).output(0))
            node.input(2).replace_source_output(constant([stop]).output(0))
            out = ov.Tensor(ov.Type.f32, ov.Shape([3]))
            model.evaluate([out], [ov.Tensor(data)])
            got.append(out.data.tolist())
        assert got == [[1, 2, 3], [5, 6, 7], [2, 3, 4]]


def test_ctrl_c_arrives_as_a_runtime_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    source = parameter([-1, 4])
    compiled = ov.Core().compile_model(ov.Model([InPython([source, [1], [3], [1], [1]])], [source], "m"), "CPU")
    data = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert compiled([data])[0].tolist() == [[1, 2], [5, 6]]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Plan, "copy", interrupt)
        with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
            compiled([data])
    assert compiled([data])[0].tolist() == [[1, 2], [5, 6]]
