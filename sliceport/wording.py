"""What messages call options: arguments of Python functions, or options of the command line, as the caller has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from sliceport.shell import input_shapes_option, join

Dims = Sequence[int | str | None]

_FIRST, _FURTHER = 1, 16
_MAX_SAID = 300
"""Characters of what a library says, which may hold all of a file."""
_is_command_line = ContextVar("is_command_line", default=False)


@contextmanager
def command_line() -> Iterator[None]:
    """While it lasts, messages name options of the command line."""
    token = _is_command_line.set(True)
    try:
        yield
    finally:
        _is_command_line.reset(token)


def spell(python: str, shell: str) -> str:
    """An option as the caller has it: in Python, or on the command line.

    >>> spell("overwrite=True", "--overwrite")
    'overwrite=True'
    >>> with command_line():
    ...     spell("overwrite=True", "--overwrite")
    '--overwrite'
    """
    return shell if _is_command_line.get() else python


def shorten(text: str, most: int = _MAX_SAID) -> str:
    """A text on one line, without its end where that is far away.

    >>> shorten("a long text", 6)
    'a long...'
    """
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}..."


def example_shapes(shapes: Mapping[str, Dims | None]) -> str:
    """The option `input_shapes` with an example size wherever one is open; the same for the same symbol.

    Args:
        shapes: By input, its sizes: a number, a symbol, or None; None for a shape of which nothing is known.

    >>> example_shapes({"x": ("batch", 3)})
    "input_shapes={'x': (1, 3)}"
    >>> with command_line():
    ...     example_shapes({"x": ("batch", 3)})
    '--input-shapes x:1,3'
    """
    sizes: dict[str, int] = {}
    examples: dict[str, tuple[int, ...]] = {}
    for name, dims in shapes.items():
        found = []
        for axis, dim in enumerate((None, None) if dims is None else dims):
            example = _FURTHER if axis else _FIRST
            if isinstance(dim, int):
                example = dim
            elif dim is not None:
                example = sizes.setdefault(dim, example)
            found.append(example)
        examples[name] = tuple(found)
    return spell(f"input_shapes={examples!r}", join(input_shapes_option(examples)))
