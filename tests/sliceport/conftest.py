"""The engine with a planted fault, for the tests of `diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx_models import save
from planted_faults import Differ, Fault, Faulty

from sliceport.engines import side
from sliceport.engines.registry import model_engines
from sliceport.search.diff import diff
from sliceport.search.report import DiffReport


@pytest.fixture
def differ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Differ:
    """Compare an engine with a fault with onnxruntime's CPU provider, or with an engine of another fault."""

    def run(graph: str | Path, fault: Fault, reference: Fault | None = None, **options: Any) -> DiffReport:
        known = {**model_engines(), "faulty": Faulty(fault)}
        if reference is not None:
            good = Faulty(reference)
            good.name = options["against"] = "reference"
            known["reference"] = good
        monkeypatch.setattr(side, "model_engines", lambda: known)
        path = save(graph, tmp_path / "model.onnx") if isinstance(graph, str) else graph
        return diff(path, **{"on": "faulty", **options})

    return run
