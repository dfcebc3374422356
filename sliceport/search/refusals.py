"""The search for all nodes of a model that an engine does not run, after the first one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sliceport.engines.engine import Array
from sliceport.engines.failure import Failure
from sliceport.engines.side import Result, Side
from sliceport.search.case import Case, Subject, compute, make_case
from sliceport.search.graph import Graph, find_ancestors, find_boundary
from sliceport.search.search import Search
from sliceport.verdict.difference import Tolerances

_MAX_REFUSALS = 20
"""Limit for the nodes that a report names."""


def find_other_refusals(subject: Subject, first: Sequence[Case]) -> Iterator[Case]:
    """Yield the other nodes that the engine `bad` does not run, given the cases that a search found `first`.

    The other nodes of the operator of a case are tried alone. The engine `good` then computes the outputs of the nodes
    found so far. If the rest of the model does not run, it is searched in the same way. So the number of runs grows
    with the number of nodes of the refused operators, not with the size of the model.

    Raises:
        BudgetSpent, MissingExtra, UsageError, ChildLost: See `Side.run`.
    """
    subject = subject._replace(values={**subject.values})
    graph, bad, good, values = subject
    cases, new = list(first), list(first)
    while new and len(cases) < _MAX_REFUSALS:
        for case in new[:]:
            for other in _find_refused_alone(subject, case):
                if other.main_node not in [each.main_node for each in cases]:
                    cases.append(other)
                    yield other
        names = [name for case in cases for name in case.main_node.writes if name not in values]
        computed = compute(graph, good, values, names)
        if not computed:
            return  # without these values, the rest of the model cannot run
        values |= computed
        result = _run_rest(graph, bad, values, cases)
        found = Search(subject, result, Tolerances()).run() if isinstance(result, Failure) else None
        # A node that fails alone is preferred: the failure of the model may name a fusion instead of a node.
        new = [found.alone or found] if found is not None else []
        if new and new[0].main_node in [case.main_node for case in cases]:
            return  # the search finds the same node again
        cases += new
        yield from new


def _run_rest(graph: Graph, bad: Side, values: Mapping[str, Array], cases: Sequence[Case]) -> Result:
    """Run the nodes whose outputs `values` lacks; return {} if no output is left, or if a value is missing."""
    # The inputs of refused nodes become outputs, so that nodes before them also run: these may be refused, too.
    read_names = [name for case in cases for name in case.main_node.reads]
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
