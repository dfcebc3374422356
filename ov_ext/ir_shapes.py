"""The input shapes that an OpenVINO IR file declares, read without openvino and without weights."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from xml.etree import ElementTree

from sliceport.errors import ModelError
from sliceport.formats import DeclaredDim, DeclaredShapes

_PARAMETER = ["net", "layers", "layer"]
_MAX_SIZE = 2**31 - 1


def read_declared_shapes(path: str | os.PathLike[str]) -> DeclaredShapes:
    """Read the shapes of a model's inputs, by the names that `sliceport.lower` takes.

    IR files have no symbols: a size is a number, bounds, or open.

    Raises:
        ModelError: The file cannot be read, or is not an IR file.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise ModelError(f"model '{name}' is not a file.")
    try:
        return {_name_of(layer): _read_shape(layer) for layer in _parameters(name)}
    except OSError as error:
        raise ModelError(f"model '{name}' cannot be read ({error.strerror or error}).") from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ModelError(f"model '{name}' is not an OpenVINO IR file ({error}).") from None


def _parameters(path: str) -> Iterator[ElementTree.Element]:
    """Yield the layers that are inputs of the main graph. Bodies of control flow lie deeper in the file."""
    open_tags: list[str] = []
    for event, element in ElementTree.iterparse(path, ("start", "end")):  # noqa: S314 - expat limits the expansion of entities
        if event == "start":
            open_tags.append(element.tag)
            continue
        if open_tags == _PARAMETER:
            if element.get("type") == "Parameter":
                yield element
            element.clear()
        open_tags.pop()


def _name_of(layer: ElementTree.Element) -> str:
    """Return the least tensor name or else the node's name, as `ov_ext.read.name_of` does."""
    port = layer.find("output/port")
    names = "" if port is None else port.get("names", "")
    tensor_names = [name.replace("\\,", ",") for name in re.split(r"(?<!\\),", names) if name]
    return min(tensor_names) if tensor_names else layer.get("name", "")


def _read_shape(layer: ElementTree.Element) -> list[DeclaredDim] | None:
    data = layer.find("data")
    text = ("..." if data is None else data.get("shape", "...")).strip()
    if text == "...":
        return None
    return [_read_dim(dim.strip()) for dim in text.split(",")] if text else []


def _read_dim(text: str) -> DeclaredDim:
    """Read a size: `3`, `?` or `-1`, or bounds such as `2..8`, `2..` and `..8`."""
    least, dots, most = text.partition("..")
    if dots:
        return range(int(least or 0), int(most or _MAX_SIZE) + 1)
    return None if text in ("?", "-1") else int(text)
