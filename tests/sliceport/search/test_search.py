from types import SimpleNamespace
from typing import Any

from sliceport.engines.failure import Failure
from sliceport.search.graph import GraphNode
from sliceport.search.search import find_named


def test_a_message_names_no_node_without_a_name() -> None:
    graph: Any = SimpleNamespace(nodes=[GraphNode("", "Print", ("x",), ()), GraphNode("n", "Relu", ("x",), ("y",))])
    assert find_named(graph, Failure("error", "", "node 'n' failed")) == [1]
