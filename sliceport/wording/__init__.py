"""Wording of messages, with options named as the caller wrote them, in Python or on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from sliceport.wording.shell import input_shapes_option, join

Dims = Sequence[int | str | None]
"""A declared shape: sizes, symbols, and None for other open sizes."""

_MAX_LENGTH = 300
"""The largest number of characters quoted from a library's message, because a message may contain a whole file."""
_is_command_line = ContextVar("is_command_line", default=False)


@contextmanager
def command_line_spelling() -> Iterator[None]:
    """Make `spell` return the spelling of the command line inside the `with` block."""
    token = _is_command_line.set(True)
    try:
        yield
    finally:
        _is_command_line.reset(token)


def spell(python: str, shell: str) -> str:
    """Return the spelling of an option that fits the caller: `python` or `shell`.

    >>> spell("overwrite=True", "--overwrite")
    'overwrite=True'
    >>> with command_line_spelling():
    ...     spell("overwrite=True", "--overwrite")
    '--overwrite'
    """
    return shell if _is_command_line.get() else python


def shorten(text: str, limit: int = _MAX_LENGTH) -> str:
    """Put a text on one line. Replace everything after the first `limit` characters by `…`.

    >>> shorten("a long text", 6)
    'a long…'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def count_of(number: int, noun: str) -> str:
    """Return a number and its noun, which takes a plural s unless the number is 1.

    >>> count_of(2, "node")
    '2 nodes'
    """
    return f"{number} {noun}{'s' * (number != 1)}"


def count_by_kind(counts: Mapping[str, int], noun: str) -> str:
    """Return a total with its noun, and the counts by kind that are not 0.

    >>> count_by_kind({"lowered": 2, "alias": 0, "refused": 1}, "node")
    '3 nodes: 2 lowered, 1 refused'
    """
    parts = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    return ": ".join(filter(None, (count_of(sum(counts.values()), noun), parts)))


def format_bytes(count: int) -> str:
    """Return a number of bytes in a unit in which it is less than 1024, up to GiB.

    >>> format_bytes(1536)
    '1.5 KiB'
    """
    if count < 2**10:
        return count_of(count, "byte")
    number, units = count / 2**10, ["KiB", "MiB", "GiB"]
    while round(number, 1) >= 2**10 and len(units) > 1:  # rounded, so that the text is never "1024.0 KiB"
        number /= 2**10
        units.pop(0)
    return f"{number:.1f} {units[0]}"


def list_names(names: Iterable[str], limit: int = 8) -> str:
    """Format names for a sentence: sorted, quoted, and at most `limit` of them.

    >>> list_names(["w", "b", "x"], 2)
    "'b', 'w' and 1 more"
    """
    ordered = sorted(names)
    more = f" and {len(ordered) - limit} more" if len(ordered) > limit else ""
    return ", ".join(map(repr, ordered[:limit])) + more


def format_findings(findings: Iterable[tuple[str, str, str]], *, verbose: bool = False) -> list[str]:
    """Return lines of findings, one for all nodes of the same operator with the same text.

    A finding is the operator of a node, the name of the node, and a text. A line about a single node names the node.
    If `verbose`, a line about several nodes is followed by their names.

    >>> format_findings([("Slice", "a", "cut"), ("Gather", "b", "cut"), ("Slice", "c", "cut")], verbose=True)
    ['2 Slice: cut', '    a', '    c', "1 Gather 'b': cut"]
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for op, node, text in findings:
        groups.setdefault((op, text), []).append(node)
    lines = []
    for (op, text), nodes in groups.items():
        name = f" {nodes[0]!r}" if len(nodes) == 1 else ""
        lines.append(f"{len(nodes)} {op}{name}: {text}")
        if verbose and not name:
            lines += [f"    {repr(node)[1:-1]}" for node in nodes]  # a name may hold a newline
    return lines


def format_issue(title: str, versions: str, sections: Mapping[str, Iterable[str]]) -> str:
    """Format an issue for the developers of an engine, in Markdown. `sections` maps headings to lines of text."""
    bodies = [f"## {heading}\n" + "".join(f"{line}\n" for line in lines) for heading, lines in sections.items()]
    return "\n".join([f"# {title}\n", f"{versions}\n", *bodies])


def example_shapes(shapes: Mapping[str, Sequence[object] | None]) -> str:
    """Return the option `input_shapes` with an example for each open size. Equal symbols have equal examples.

    >>> example_shapes({"x": ("batch", 3)})
    "input_shapes={'x': (1, 3)}"
    >>> with command_line_spelling():
    ...     example_shapes({"x": ("batch", 3)})
    '--input-shapes x:1,3'
    """
    sizes: dict[str, int] = {}
    examples = {}
    for name, dims in shapes.items():
        shape = []
        for axis, dim in enumerate((None, None) if dims is None else dims):  # an unknown rank is shown as two axes
            example = 16 if axis else 1  # axis 0 is usually the batch
            if isinstance(dim, str):
                example = sizes.setdefault(dim, example)
            shape.append(dim if isinstance(dim, int) else example)
        examples[name] = tuple(shape)
    return spell(f"input_shapes={examples!r}", join(input_shapes_option(examples)))


def phrase_for_shapes(shapes: Mapping[str, Sequence[int]]) -> str:
    """Return the end of a sentence, such as ` with --input-shapes x:1,3`. Return an empty string for no shapes."""
    option = spell(f"input_shapes={dict(shapes)!r}", join(input_shapes_option(shapes)))
    return f" with {option}" if shapes else ""


def describe_unforeseen(error: Exception, advice: str = "please report it with this model") -> str:
    """Describe an unexpected error in a sentence, which may follow the name of the model's file and a colon.

    The sentence ends with `advice`, unless there is not enough memory or the model is nested too deeply.
    """
    if isinstance(error, MemoryError | RecursionError):
        kind = "memory" if isinstance(error, MemoryError) else "nesting depth"
        return f"the model exceeds the {kind} of this machine."
    cause: BaseException = error
    while cause.__cause__ is not None:  # the first error of a chain is the reason for the others
        cause = cause.__cause__
    reason = ": ".join(filter(None, (type(cause).__name__, shorten(str(cause)))))
    return f"internal error ({reason}); {advice}."
