"""The profiles of `profiles.toml`, which are targets of `harden`: the forms of slicing nodes that an engine lacks."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sliceport.arguments import read_names
from sliceport.defects.defect import Evidence
from sliceport.errors import UsageError, check_names
from sliceport.wording import spell

FORMS: Mapping[str, str] = {
    "steps": "steps other than 1",
    "negative-steps": "steps below 0",
    "split": "Split",
    "gather": "Gather in the place of a step",
    "axis-gaps": "a Slice of axes that do not follow each other",
}
"""Forms of nodes that an engine may lack, with a line about each."""
READINGS = ("standard", "onnxruntime")
"""The meanings of a backward Slice that ends at the greatest integer of its type; see `harden`."""


@dataclass(frozen=True)
class Profile:
    """The forms that an engine lacks, in addition to the forms that `harden` avoids for all engines.

    Attributes:
        target: The name of the profile in `harden`.
        engine: The name of the engine in the table of defects; empty if the profile is for all engines.
        versions: The versions that were run, or that reports are about.
        evidence: `proved` if `benchmarks/portable.py` runs the engine, `reported` if only `issues` are the evidence.
        without: The forms that the engine lacks, each with the reason.
        issues: The reports: `owner/repository#number`.
    """

    target: str
    engine: str = ""
    versions: tuple[str, ...] = ()
    evidence: Evidence = "proved"
    without: Mapping[str, str] = field(default_factory=dict)
    issues: tuple[str, ...] = ()


PROFILES = {
    table["target"]: Profile(**table | {key: tuple(table.get(key, ())) for key in ("versions", "issues")})
    for table in tomllib.loads(Path(__file__).with_name("profiles.toml").read_text("utf-8"))["profile"]
}
"""The profiles by target; the first one is for all engines."""


def read_form_options(target: str, without: Sequence[str], read_as: str | None) -> tuple[str, ...]:
    """Check the options `without` and `read_as` of `harden`, and return the names in `without`.

    Raises:
        UsageError: The target does not accept these options, or an option has a malformed or unknown value.
    """
    if target not in PROFILES and (without or read_as is not None):
        option = spell("without", "--without") if without else spell("read_as", "--read-as")
        targets = ", ".join(PROFILES)
        raise UsageError(f"{option} is for the targets {targets}, and the target is {target}.")
    names = tuple(read_names(without, "without"))
    check_names("form", names, FORMS)
    if read_as is not None:
        check_names("reading", [read_as], READINGS)
    return names
