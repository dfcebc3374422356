"""Programs and comparisons as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sliceport.directml.lowered import VERDICTS, Call, LoweredNode
from sliceport.directml.operators import Operator, Slice, Slice1, Split
from sliceport.directml.program import Program
from sliceport.report.table import printable, table
from sliceport.wording import count_by_kind, count_of, format_bytes

if TYPE_CHECKING:
    from sliceport.engines.comparison import Report

_MAX_NAME = 48
"""The largest number of characters of a name in a table. Of a longer name, only the end is shown."""


def program_text(program: Program, *, verbose: bool = False, columns: int | None = None) -> str:
    """Format a program: its notes, a table of its nodes at most `columns` wide, the refusals, and the counts."""
    notes = [printable(f"note: {note}") for note in program.notes]
    rows = [("node", "op", "verdict", "becomes")]
    for lowered in program.nodes:
        op, replacement = f"{lowered.node.op_type}-{lowered.node.opset}", _describe_lowering(lowered, verbose)
        rows.append((_shorten(_node_path(lowered)), op, lowered.verdict, replacement))
    head = [table(rows, columns)] if program.nodes else ["no slicing nodes in this model"]
    lines = [f"refused: {lowered.reason.message}" for lowered in program.nodes if lowered.reason]
    return "\n".join([*notes, *head, *map(printable, _share_hints(lines)), program_summary(program)])


def _share_hints(lines: list[str]) -> list[str]:
    """Remove a hint about sizes that is at the end of several lines, and add it once, after all lines."""
    ends = [line.rpartition("; ")[2] for line in lines]
    hints = Counter(end for end in ends if "give sizes" in end)  # each ends in the full stop of its line
    shared = [hint for hint, count in hints.items() if count > 1]
    for hint in shared:
        lines = [line.removesuffix(f"; {hint}") + "." if line.endswith(f"; {hint}") else line for line in lines]
    return [*lines, *(f"hint: {hint}" for hint in shared)]


def program_summary(program: Program) -> str:
    """Format the counts of nodes and operators, the bytes that operators move, and the feature level on one line."""
    types = Counter(call.operator.schema.type.removeprefix("DML_OPERATOR_") for call in program.calls)
    operators = ", ".join(f"{count} {name}" for name, count in sorted(types.items())) or "no operators"
    moved = sum(call.moved_bytes for call in program.calls)
    nodes = count_by_kind({verdict: program.summary[verdict] for verdict in VERDICTS}, "node")
    return f"{nodes}; {operators} moving {format_bytes(moved)}; feature level {program.feature_level}"


def report_text(report: Report, *, columns: int | None = None) -> str:
    """Format comparisons: a table at most `columns` wide, findings, notes, a command to reproduce them, and counts."""
    rows = [("node", "verdict", "executor", "bytes", "result")]
    for comparison in report.comparisons:
        name, byte_count = _shorten(_node_path(comparison.lowered)), str(comparison.bytes_compared or "-")
        status = f"{comparison.status} (alone, random data)" if comparison.alone else comparison.status
        rows.append((name, comparison.lowered.verdict, comparison.executor or "-", byte_count, status))
    head = [table(rows, columns)] if report.comparisons else ["nothing to compare"]
    not_clean = [comparison for comparison in report.comparisons if not comparison.is_clean]
    lines = _share_hints([f"{comparison.status}: {comparison.detail}" for comparison in not_clean])
    lines += [f"note: {note}" for note in report.notes]
    if any(comparison.status in ("mismatch", "error") for comparison in not_clean):  # refused nodes did not run
        lines.append(f"reproduce: {report.command}")
    return "\n".join([*head, *map(printable, lines), report_summary(report)])


def report_summary(report: Report) -> str:
    """Format the counts of the comparisons and the name of the reference engine on one line."""
    counts = Counter(
        f"accepted by {comparison.detail}" if comparison.status == "accepted" else comparison.status
        for comparison in report.comparisons
    )
    # These statuses come first, in this order.
    statuses = dict.fromkeys(("equal", "mismatch", "error", "refused", "folded", *counts))
    counts_text = ", ".join(f"{counts[status]} {status}" for status in statuses if counts[status])
    total = f"{count_of(len(report.comparisons), 'comparison')} with {report.reference}"
    return printable(": ".join(filter(None, (total, counts_text))))


def _node_path(lowered: LoweredNode) -> str:
    return "/".join((*lowered.node.scope, lowered.node.name))


def _describe_lowering(lowered: LoweredNode, verbose: bool) -> str:
    """Return the code of a refusal, the operators and aliases that replace a node, or a word such as `constant`."""
    if lowered.reason is not None:
        return lowered.reason.code
    parts = [_format_call(call, verbose) for call in lowered.calls]
    for alias in lowered.aliases:
        text = f"{alias.output} = {alias.value}"
        if alias.tensor is not None:
            text += f" + {count_of(alias.byte_offset, 'byte')}, strides {_format_dims(alias.tensor.strides)}"
        parts.append(text)
    return "; ".join(parts) or {"folded": "constant", "empty": "no elements"}.get(lowered.verdict, "")


def _format_call(call: Call, verbose: bool) -> str:
    operator = call.operator
    name = operator.schema.type.removeprefix("DML_OPERATOR_")
    text = f"#{call.id} {name} {operator.input_tensor.data_type.name} {_format_dims(operator.input_tensor.sizes)}"
    return text + _format_parameters(operator) if verbose else text


def _format_parameters(operator: Operator) -> str:
    """Format the parameters of an operator, after a space. Add the strides of its tensors unless all are packed."""
    text = ""
    if isinstance(operator, Slice | Slice1):
        prefix = "input_window_" if isinstance(operator, Slice1) else ""
        fields = ("offsets", "sizes", "strides")
        text = "".join(f" {name} {_format_dims(getattr(operator, prefix + name))}" for name in fields)
    elif isinstance(operator, Split):
        parts = [tensor.sizes[operator.axis] for tensor in operator.output_tensors]
        text = f" axis {operator.axis} into {_format_dims(parts)}"
    read, *written = [_format_dims(tensor.strides) for tensor in (operator.input_tensor, *operator.outputs)]
    targets = ", ".join(written) if len(set(written)) > 1 else written[0]
    return text if read == targets == "packed" else f"{text}, tensor strides {read} to {targets}"


def _format_dims(values: Sequence[int] | None) -> str:
    """Format sizes or strides. Strides are None for a packed tensor."""
    return "packed" if values is None else f"[{','.join(map(str, values))}]"


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"...{name[3 - _MAX_NAME :]}"
