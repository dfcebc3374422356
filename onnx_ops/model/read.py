"""Reading the ModelProto in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import onnx

from sliceport.errors import ModelError
from sliceport.wording import shorten


def read_proto(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """The model in a file; tensors in external data files stay there.

    Raises:
        ModelError: The file cannot be read or is not an ONNX model.
    """
    if os.path.isdir(path):
        raise ModelError(f"'{os.fspath(path)}': it cannot be read (Is a directory).")
    try:
        return onnx.load(os.fspath(path), format="protobuf", load_external_data=False)
    except OSError as error:
        reason = f"it cannot be read ({error.strerror or error})"
    except Exception as error:  # protobuf has its own classes of errors, by format
        reason = f"it is not an ONNX model ({shorten(str(error)).rstrip('.')})"
    raise ModelError(f"'{os.fspath(path)}': {reason}.")


@contextmanager
def file_named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors name the file that a model was read from."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"'{os.fspath(path)}': {error}") from error.__cause__
