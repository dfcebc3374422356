"""The public names: what `__all__` of the packages lists stands in a file, so that no change of it goes unseen."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "data" / "public_names.json"
NAMES = json.loads(FILE.read_text())


@pytest.mark.parametrize("module", sorted(NAMES))
def test_all_is_listed_in_the_file(module: str) -> None:
    names = sorted(importlib.import_module(module).__all__)
    assert names == NAMES[module], f"list in {FILE}, {module}: {names}"


@pytest.mark.parametrize("module", sorted(NAMES))
def test_every_name_is_there_and_listed(module: str) -> None:
    package = importlib.import_module(module)
    for name in NAMES[module]:
        getattr(package, name)
    assert set(NAMES[module]) <= set(dir(package))


@pytest.mark.parametrize("module", ["sliceport", "onnx_ops", "ov_ext"])
def test_other_names_are_attribute_errors(module: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'nonsense'"):
        importlib.import_module(module).nonsense  # noqa: B018


def test_errors_are_all_there() -> None:
    import sliceport
    from sliceport import errors

    defined = {
        name for name, value in vars(errors).items() if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert defined <= set(sliceport.__all__)


def test_importing_and_listing_load_nothing() -> None:
    code = "import sys, sliceport; dir(sliceport); print(sorted(m for m in sys.modules if m.startswith('sliceport.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['sliceport.lazy']\n"  # what imports the others when they are asked for
