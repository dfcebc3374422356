"""Random graphs of slicing and what stands around it, for hypothesis."""

from __future__ import annotations

from random import Random

import onnx
from fuzz.graph_builder import Builder, numbers
from hypothesis import strategies as st
from onnx import TensorProto, helper

MOST_NODES = 12
OPSETS = (11, 13, 18)
MAKERS = (
    *("slice", "slice", "slice", "split", "siblings", "gather", "concat", "view", "view"),
    *("transpose", "elementwise", "reshape", "expand"),
)


@st.composite
def graphs(draw: st.DrawFn, *, is_open: bool, all_read: bool = False) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """Draw a model of one input `x`, and the shape that it was made for.

    Args:
        is_open: Whether some sizes of the input are left open.
        all_read: Whether every value that no node reads is an output.
    """
    random = Random(draw(st.integers(0, 2**32)))
    shape = tuple(random.randint(2, 8) for _ in range(random.randint(1, 3)))
    opened = random.sample(range(len(shape)), random.randint(1, len(shape))) if is_open else []
    builder = Builder(random, random.choice(OPSETS), 8, makers=MAKERS, constants=("initializer",), is_contested=False)
    builder.add_input("x", numbers(shape), opened)
    for _ in range(random.randint(2, MOST_NODES)):
        builder.add_something()
    read = {name for node in builder.nodes for name in node.input}
    leaves = [name for name in builder.data if name not in read] or ["x"]
    some = leaves if all_read else random.sample(leaves, random.randint(1, len(leaves)))
    model = builder.model([])
    for i, name in enumerate(some):
        model.graph.node.append(helper.make_node("Identity", [name], [f"y{i}"]))
        dims = [None] * builder.values[name].ndim
        model.graph.output.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, dims))
    return model, shape
