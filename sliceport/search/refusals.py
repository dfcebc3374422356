"""The search for all nodes of a model that an engine does not run, after the first one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sliceport.engines.engine import Array
from sliceport.engines.failure import Failure
from sliceport.engines.side import Result, Side
from sliceport.search.case import Case, Subject, compute, make_case
from sliceport.search.graph import Graph, GraphNode, find_ancestors, find_boundary
from sliceport.search.search import Search
from sliceport.verdict.difference import Tolerances

_MAX_REFUSALS = 20
"""Limit for the nodes that a report names."""


def find_other_refusals(subject: Subject, first: Case) -> Iterator[Case]:
    """Yield the other nodes that the engine `bad` does not run, given the `first` case that a search found.

    The other nodes of the operator of a case are tried alone. The engine `good` then computes the outputs of the nodes
    found so far. If the rest of the model does not run, it is searched in the same way. So the number of runs grows
    with the number of nodes of the refused operators, not with the size of the model.

    Raises:
        BudgetSpent, MissingExtra, UsageError, ChildLost: See `Side.run`.
    """
    subject = subject._replace(values={**subject.values})
    graph, bad, good, values = subject
    refused, case = {first.main_node: first}, first
    while len(refused) < _MAX_REFUSALS:
        for other in _find_refused_alone(subject, case):
            if refused.setdefault(other.main_node, other) is other:
                yield other
        computed = compute(graph, good, values, [name for node in refused for name in node.writes])
        if computed is None or computed.keys() <= values.keys():
            return  # without new values, the rest of the model cannot run
        values |= computed
        result = _run_rest(graph, bad, values, refused)
        found = Search(subject, result, Tolerances()).run() if isinstance(result, Failure) else None
        if found is None:
            return
        case = found.alone or found  # the failure of the model may name a fusion instead of a node
        if refused.setdefault(case.main_node, case) is not case:
            return  # the search finds the same node again
        yield case


def _run_rest(graph: Graph, bad: Side, values: Mapping[str, Array], refused: Iterable[GraphNode]) -> Result:
    """Run the nodes whose outputs `values` lacks; return {} if no output is left, or if a value is missing."""
    # The inputs of refused nodes become outputs, so that nodes before them also run: these may be refused, too.
    read_names = [name for node in refused for name in node.reads]
    outputs = [name for name in dict.fromkeys((*graph.outputs, *read_names)) if name not in values]
    rest = make_case(graph, find_ancestors(graph, outputs, values), outputs, values)
    return rest.run(bad) if rest is not None and outputs else {}


def _find_refused_alone(subject: Subject, first: Case) -> Iterator[Case]:
    """Yield a case for each other node of the same operator that is refused alone, in the way of `first`.

    Yield nothing if `first` consists of several nodes, or is in a body, or if the engine `good` does not compute the
    inputs of all these nodes in one run.
    """
    graph, bad, good, values = subject
    others = [
        i for i, node in enumerate(graph.nodes) if node.op_type == first.culprit.op_type and i not in first.numbers
    ]
    if len(first.numbers) > 1 or first.scope or not others:
        return
    read_values = compute(graph, good, values, find_boundary(graph, others)) or {}
    for i in others:
        case = make_case(graph, [i], graph.nodes[i].writes, read_values)
        failure = None if case is None else case.run(bad)
        if case is not None and isinstance(failure, Failure) and failure.is_like(first.failure):
            yield replace(case, failure=failure)
