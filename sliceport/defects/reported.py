"""Reports by users of engines that no test here can run: the entries of `reported.toml`, each with its threads."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sliceport.defects.cases import OnnxCase
from sliceport.defects.defect import Defect, Divergence, Example, gives


def _read_entry(entry: Mapping[str, Any]) -> Defect:
    """Return the entry of a table `report` of the file, whose comment describes the keys."""
    shape, result_shape = (tuple(entry[key]) if key in entry else None for key in ("shape", "result_shape"))
    case = OnnxCase(entry["graph"], entry.get("opset", 13), shape)
    return Defect(
        **{key: entry[key] for key in ("id", "trigger", "right", "workaround")},
        kind=entry.get("kind", "defect"),
        divergences=tuple(
            Divergence(
                one["engine"],
                one["does"],
                tuple(one.get("versions", ())),
                tuple(one["issues"]),
                until=one.get("until", ""),
            )
            for one in entry["divergences"]
        ),
        examples=(Example(case, right=gives(*entry["result"], shape=result_shape), seen={}),),
        handling="found",
        evidence="reported",
    )


REPORTED = {
    entry["id"]: _read_entry(entry)
    for entry in tomllib.loads(Path(__file__).with_name("reported.toml").read_text("utf-8"))["report"]
}
"""The entries by their ids."""
