"""Shapes, types and constants of a model's values, worked out in a worker process.

`propagate` does the work. It asks onnx about single nodes, whose inference ends the process on some malformed ones; the
worker is then started again, and that node is left out.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from onnx_ops.infer.facts import Facts
from onnx_ops.infer.propagate import get_ready, propagate
from onnx_ops.model.views import ModelView
from sliceport import guarded, limits, progress

SECONDS = 4.0
"""Processor time after which nothing more is inferred of a small model."""
_SECONDS_PER_BYTE = 0.5e-6
GRACE = 3.0
"""Processor time that a single node may take beyond that."""
_WAIT_SECONDS = 0.0 if sys.platform == "win32" else 60.0
"""How much longer it may take on a loaded machine; not on Windows, where no processor time is limited."""
_START = 60.0
"""Seconds that the start of a worker may take."""
_MEMORY = 2**29
_MEMORY_PER_BYTE = 32
_MAX_DEATHS = 4
_ALL = -1

_fatal: set[bytes] = set()
"""Digests of what ended or blocked a worker when onnx was asked it, so that it is not asked again."""
_MAX_FATAL = 1024

logger = logging.getLogger(__name__)


def infer(model: ModelView) -> dict[Any, Facts]:
    """Infer types, shapes and constants for all graph inputs and node outputs. Values without facts are omitted.

    Args:
        model: The model; it is not changed. Tensors in other files are not read.
    """
    try:
        serialized, values = model.serialize()
    except Exception as error:  # too large, or something that a file cannot hold
        logger.debug("shape inference is left out: %s", error)
        return {}
    facts = _propagate(serialized)
    if len(values) != len(facts):
        return {}
    return {value: found for value, found in zip(values, facts, strict=True) if not found.is_empty}


def infer_shapes(model: ModelView) -> dict[Any, Facts]:
    """Give values the types and sizes that can be inferred; a value about which nothing follows keeps what is written.

    Large and missing constants of the main graph become inputs.

    Returns:
        The facts, constants included.
    """
    model.detach_weights()
    facts = infer(model)
    for value, found in facts.items():
        model.set_type(value, found.element, found.dims)
    return facts


def _propagate(model: bytes) -> list[Facts]:
    most = SECONDS + _SECONDS_PER_BYTE * len(model)
    skipped: list[int] = []
    killed = ""
    for attempt in range(_MAX_DEATHS):
        seconds = max(min(most, limits.seconds_left()), 0.0)
        try:
            guarded.call(get_ready, timeout=_START)  # so that the time for a model is its own
            with _Journal() as journal:
                try:
                    result: list[Facts] = guarded.call(
                        call_within,
                        seconds + min(GRACE, seconds),
                        propagate,
                        *(model, tuple(skipped), journal.name, seconds, frozenset(_fatal)),
                        timeout=seconds + GRACE + _WAIT_SECONDS,
                        memory=_MEMORY + _MEMORY_PER_BYTE * len(model),
                    )
                except (guarded.WorkerKilled, guarded.WorkerTerminated):
                    raise
                except (guarded.WorkerDied, MemoryError, RecursionError) as error:
                    node, digest = journal.read()
                    logger.debug("shape inference of node number %s: the worker %s", node, error)
                    if digest and len(_fatal) < _MAX_FATAL:
                        _fatal.add(digest)
                    skipped.append(_ALL if node is None or attempt == _MAX_DEATHS - 2 else node)
                    continue
            return result
        except (guarded.WorkerKilled, guarded.WorkerTerminated) as error:  # not by anything in the model
            killed = str(error)
        except (OSError, MemoryError, guarded.WorkerDied) as error:
            guarded.call_status().lost_worker = True
            _announce(str(error) if isinstance(error, guarded.WorkerDied) else f"could not be started ({error})")
            return []
    if killed:
        _announce(killed)
    return []


def _announce(failure: str) -> None:
    progress.announce(f"shapes are not inferred: the worker process for it {failure}.")


class _Journal:
    """A file that says which node the worker is at; nothing is left of it, however the processes end (see `propagate`).

    Raises:
        OSError: It cannot be made, or read.
    """

    def __enter__(self) -> _Journal:
        with limits.uninterrupted():
            self._handle, self.name = tempfile.mkstemp(prefix="sliceport-")
        return self

    def __exit__(self, *_: object) -> None:
        with limits.uninterrupted(), contextlib.suppress(OSError):
            os.close(self._handle)
            os.unlink(self.name)

    def read(self) -> tuple[int | None, bytes]:
        """The number and the digest of the node that the worker was at; None and nothing where it was at none."""
        os.lseek(self._handle, 0, os.SEEK_SET)
        said = os.read(self._handle, 16)
        return (int.from_bytes(said[:8], "little"), said[8:]) if len(said) == 16 else (None, b"")


def call_within(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a worker process, which ends after so much processor time."""
    with guarded.processor_time(seconds):
        return function(*arguments)
