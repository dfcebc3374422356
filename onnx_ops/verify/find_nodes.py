"""The nodes of a model that the DirectML provider refuses or computes differently. A case is a part that runs alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from onnx_ops.runtime import onnxruntime_cpu
from onnx_ops.verify.directml_provider import OnnxruntimeDML
from onnx_ops.verify.onnx_graph import OnnxGraph
from sliceport.device import Device
from sliceport.engines.engine import Array
from sliceport.engines.failure import Failure
from sliceport.engines.model_run import Finding
from sliceport.engines.side import Budget, BudgetSpent, Result, Side
from sliceport.search.case import Case, compute, make_case
from sliceport.search.graph import GraphNode, find_ancestors, find_boundary
from sliceport.search.search import Search, search_each
from sliceport.wording import list_names

_MAX_FINDINGS = 20
"""Limit for the refused nodes that a report names."""
_ADVICE = "a longer --timeout lets the search finish"
CANNOT_COMPILE = "80004005 Call failed"
"""Part of onnxruntime's message about a shader that the adapter cannot compile."""


def find_refusals(device: Device, graph: OnnxGraph, inputs: Mapping[str, Array], message: str) -> tuple[Finding, ...]:
    """Find at most `_MAX_FINDINGS` nodes that the provider refuses instead of leaving them to the CPU.

    A search finds the first of these nodes, and the other nodes of its operator are tried alone. The CPU provider then
    computes the outputs of the refused nodes. If the rest of the model does not run, it is searched in the same way. So
    the number of runs grows with the number of nodes of the refused operators, not with the size of the model.

    `message` is the error of the provider for the whole model on `inputs`. If --timeout ends the search, one more
    finding is about the whole model. Finally, each part is tried on a new host program, and dropped if it runs there.
    """
    dml, cpu = _open_sides(device)
    # The values that the next search need not compute: the inputs of the model, and the outputs of refused nodes.
    values, cases = dict(inputs), list[Case]()
    result: Result = Failure("error", "", message)
    unfinished: list[Finding] = []
    try:
        while isinstance(result, Failure) and len(cases) < _MAX_FINDINGS:
            found = Search(graph, dml, cpu, values, result).run()
            if found is None:
                break
            # Prefer a node that fails alone, even if its message differs from that of the model. The message of the
            # model may name a fusion instead of a node.
            first = found.alone or found
            if first.main_node in [case.main_node for case in cases]:
                break  # the search finds the same node again
            cases.append(first)
            for case in _find_refused_alone(graph, first, dml, cpu, values):
                cases.append(case)  # one by one, to keep the cases that precede a BudgetSpent
            names = [name for case in cases for name in case.main_node.writes if name not in values]
            computed = compute(graph, cpu, values, names)
            if not computed:
                break  # without these values, the rest of the model cannot run
            values |= computed
            result = _run_rest(graph, dml, values, cases)
    except BudgetSpent as spent:
        text = f"the DirectML provider refuses the model ({message.rstrip('.')}), and {spent}; {_ADVICE}."
        unfinished.append(Finding("refused", "", "", text))
    device.close()  # the next run starts a new host program
    dml = replace(dml, budget=Budget())  # without a time limit, so that all cases are tried
    repeated = [(case, dml.try_run(case.model, case.inputs)) for case in cases[:_MAX_FINDINGS]]
    refusals = [_describe_refusal(case, failure) for case, failure in repeated if isinstance(failure, Failure)]
    return (*refusals, *unfinished)


def _run_rest(graph: OnnxGraph, dml: Side, values: Mapping[str, Array], cases: Sequence[Case]) -> Result:
    """Run the rest of the model on the provider: the nodes whose outputs `values` lacks. Return outputs or the failure.

    `cases` are the refused nodes. Return {} if no output is left, or if `values` lacks a value that the remaining nodes
    read.
    """
    # The inputs of refused nodes become outputs, so that nodes before them also run: these may be refused, too.
    read_names = [name for case in cases for name in case.main_node.reads]
    outputs = [name for name in dict.fromkeys((*graph.outputs, *read_names)) if name not in values]
    rest = make_case(graph, find_ancestors(graph, outputs, values), outputs, values)
    return dml.try_run(rest.model, rest.inputs) if rest is not None and outputs else {}


def _find_refused_alone(
    graph: OnnxGraph, first: Case, dml: Side, cpu: Side, values: Mapping[str, Array]
) -> Iterator[Case]:
    """Yield a case for each other node of the same operator that is refused alone with a message like that of `first`.

    Yield nothing if `first` consists of several nodes, or is in a body, or if the CPU provider does not compute the
    inputs of all these nodes in one run.
    """
    others = [
        i for i, node in enumerate(graph.nodes) if node.op_type == first.culprit.op_type and i not in first.numbers
    ]
    if len(first.numbers) > 1 or first.scope or not others:
        return
    read_values = compute(graph, cpu, values, find_boundary(graph, others)) or {}
    for i in others:
        case = make_case(graph, [i], graph.nodes[i].writes, read_values)
        failure = None if case is None else dml.try_run(case.model, case.inputs)
        if case is not None and isinstance(failure, Failure) and failure.is_like(first.failure):
            yield case


def find_differences(
    device: Device, graph: OnnxGraph, inputs: Mapping[str, Array], outputs: Sequence[str]
) -> tuple[Finding, ...]:
    """Find, for each output, the first node leading to it that the provider computes differently from the CPU.

    An output gets no finding of its own if it differs only because of a node found for an earlier output. If no part
    differs alone, a finding names only the output. After --timeout, a last finding names the remaining outputs.
    """
    dml, cpu = _open_sides(device)
    findings: list[Finding] = []
    blamed: set[GraphNode] = set()
    remaining = list(outputs)
    failures = [Failure("values", output, "it differs") for output in outputs]
    try:
        for failure, located in search_each(graph, dml, cpu, inputs, failures, tolerance_for=lambda _: None):
            output, case = failure.output, None if located is None else located.case
            remaining.remove(output)
            if case is not None:
                blamed.add(case.main_node)
                findings.append(_describe_difference(case, output))
            elif blamed.isdisjoint(graph.nodes[i] for i in find_ancestors(graph, [output])):
                text = f"output {output!r} differs from {onnxruntime_cpu.NAME}, and no part of the model differs alone."
                findings.append(Finding("different", "", "", text))
    except BudgetSpent as spent:
        text = f"results differ from {onnxruntime_cpu.NAME} in {list_names(remaining)}, and {spent}; {_ADVICE}."
        findings.append(Finding("different", "", "", text))
    return tuple(findings)


def _open_sides(device: Device) -> tuple[Side, Side]:
    """Return the provider and onnxruntime's CPU provider, which share a time limit if --timeout sets one."""
    budget = Budget()
    budget.end_before_timeout()
    return Side(OnnxruntimeDML(device), {}, budget), replace(onnxruntime_cpu.side(), budget=budget)


def _describe_difference(case: Case, output: str) -> Finding:
    """Return the finding about `case`, the smallest part that differs on the way to an output."""
    cause = " (graph fusion is to blame: the results are right if the values inside the fusion become outputs, too)"
    text = (
        f"{case.culprit_text} is the first node on the way to output {output!r} that the DirectML provider computes "
        f"differently from {onnxruntime_cpu.NAME}{cause if case.is_fusion else ''}"
    )
    text += f" ({case.note})" if case.note else ""
    if case.suspects:  # the time was over before the search found the culprit, so the finding names no node
        return Finding("different", "", "", f"{text}; {_ADVICE}.")
    return Finding("different", case.culprit.name, case.culprit.op_type, f"{text}.")


def is_adapters_fault(finding: Finding) -> bool:
    """Return whether the provider refuses a node only because the adapter cannot compile it."""
    return finding.kind == "refused" and CANNOT_COMPILE in finding.message


def _describe_refusal(case: Case, failure: Failure) -> Finding:
    """Return the finding about `case`, a node or several nodes that the provider refuses."""
    node, why = case.culprit, "; ".join(filter(None, (failure.message, case.note)))
    place = "".join(f" in {holder}" for holder in reversed(case.scope))
    if len(case.numbers) > 1:
        text = "is the last node of the smallest part of the model that the DirectML provider does not run"
    elif CANNOT_COMPILE in why:
        text = "cannot be compiled by this adapter"
    else:
        text = "is refused by the DirectML provider"
    return Finding("refused", node.name, node.op_type, f"{node}{place} {text} ({why}).")
