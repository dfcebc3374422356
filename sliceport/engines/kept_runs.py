"""Results of runs that are kept in a folder, so that an interrupted search can continue."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sliceport.engines.engine import Value, WholeModel
from sliceport.engines.failure import Failure
from sliceport.errors import UsageError
from sliceport.sandbox.place import write_files
from sliceport.version import __version__


@dataclass(frozen=True)
class KeptRuns:
    """A folder with one file for each run, named by a hash of engine, model, inputs and sliceport's version."""

    folder: Path

    def path_of(self, engine_title: str, model: WholeModel, inputs: Mapping[str, Any]) -> Path:
        """Return the path of the file for a run. The file need not exist."""
        return self.folder / f"{digest_run(f'{__version__} {engine_title} {model.data_version}', model, inputs)}.npz"

    def read(self, path: Path) -> Mapping[str, Value] | Failure | None:
        """Return the result of a run; None if it is not kept, or its file is damaged."""
        try:
            import ml_dtypes  # noqa: F401  # it adds types such as bfloat16 to the names that NumPy knows

            with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as archive:
                arrays = dict(archive)
            if "failure" in arrays:
                return Failure(*arrays["failure"].tolist())
            count = arrays.pop("count")
            # Each of the other keys is an element type and the name of an output.
            parts = [(*key.split(" ", 1), array) for key, array in arrays.items()]
            outputs = {name: array.view(np.dtype(kind)) for kind, name, array in parts}
            return outputs if len(outputs) == count else None
        except Exception:  # NumPy and zipfile raise a dozen kinds of errors for a damaged file
            return None

    def write(self, path: Path, result: Mapping[str, Value] | Failure) -> None:
        """Try to write a result. Skip crashes and lack of memory. Skip all outputs if any is text or not an array."""
        arrays: dict[str, Any] = {}
        if isinstance(result, Failure):
            if result.kind in ("memory", "crash"):  # the machine may be the cause, or another process
                return
            arrays["failure"] = np.array(astuple(result))
        else:
            for name, array in result.items():
                if not isinstance(array, np.ndarray) or array.dtype == object:
                    return
                arrays[f"{array.dtype.name} {name}"] = array
            arrays["count"] = np.array(len(result))  # `read` uses it to notice arrays that a damaged zip file has lost
        with suppress(UsageError):  # the folder may be full, or not writable
            write_files([path], lambda folder: np.savez(folder / path.name, **arrays), overwrite=True)


def open_kept_runs(folder: str | os.PathLike[str]) -> KeptRuns:
    """Return an object that keeps the results of runs in a folder. Make the folder if it does not exist.

    Raises:
        UsageError: The folder cannot be made.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"folder '{os.fspath(folder)}' cannot be made ({error.strerror}).") from None
    return KeptRuns(Path(folder))


def digest_run(key: str, model: WholeModel, inputs: Mapping[str, Any]) -> str:
    """Return a hash of the text `key`, of a model without its external data files, and of inputs."""
    digest = hashlib.blake2b(repr((key, model.inputs, model.outputs)).encode(), digest_size=16)
    arrays = [part for name in sorted(inputs) for part in (name.encode(), *_hashed_parts(inputs[name]))]
    # Each part has a hash of its own, so that bytes which move from one part to the next change the result.
    for part in (model.data, model.weights, *arrays):
        digest.update(hashlib.blake2b(part).digest())
    return digest.hexdigest()


def _hashed_parts(array: Any) -> tuple[bytes, bytes]:
    """Return the element type with the shape, and the elements, as bytes to hash."""
    # The bytes of an array of objects would be addresses.
    data = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return repr((array.dtype.name, array.shape)).encode(), data
