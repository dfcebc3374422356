"""The findings of `sliceport check`: nodes that are invalid, fragile, or have a known defect on an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sliceport.defects.defect import Defect, Divergence, Kind
from sliceport.defects.engines import ALL_TITLES, REPORTED_TITLES
from sliceport.errors import UsageError, check_names
from sliceport.wording.html_table import html_table
from sliceport.wording.shell import join

KINDS: tuple[Kind, ...] = ("invalid", "fragile", "defect")
"""The kinds of findings, in the order of reports; see `Defect.kind`."""
FAILING: tuple[Kind, ...] = ("invalid", "defect")
"""The kinds that lead to exit status 1 by default. A fragile node is right for the sizes that most models run with."""
ALL = "all"
"""The name that stands for every engine in the table of defects, also for those that only reports of users mention."""
PAGES = "https://github.com/sliceport/sliceport/blob/main/docs/defects"


@dataclass(frozen=True)
class NodeFinding:
    """A finding about one node.

    Attributes:
        defect: The entry in the table of defects that describes the finding.
        node: The name of the node; if it has no name, that of its first output.
        op: The operator of the node.
        kind: The kind of the finding. It differs from the kind of the entry if the node is wrong for some sizes only.
        detail: The values that cause the finding; may be empty.
        scope: The path to the graph of the node; see `sliceport.slicing.node.NodeInModel.scope`.
    """

    defect: Defect
    node: str
    op: str
    kind: Kind
    detail: str = ""
    scope: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeFindings:
    """The findings of formats about a model, for all engines.

    Attributes:
        nodes: The findings, in the order of the model.
        engines: The engines whose defects the formats look for in a model.
    """

    nodes: tuple[NodeFinding, ...]
    engines: tuple[str, ...]


@dataclass(frozen=True)
class Selection:
    """The engines to check for.

    Attributes:
        names: The engines and families that the caller named, or `all`; None for all engines that the tests run.
        versions: Versions by engine or family. The version of any other engine is that of `version_to_judge`.

    Raises:
        UsageError: An engine is not known, or a version is not a text that begins with a number.
    """

    names: tuple[str, ...] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        families = {name.partition("-")[0] for name in ALL_TITLES}  # `openvino` is the family of `openvino-cpu`
        engines = [*ALL_TITLES, *sorted(families - {*ALL_TITLES})]
        check_names("engine", self.names or (), [*engines, ALL])
        check_names("engine", self.versions, engines)
        for engine, version in self.versions.items():
            if not isinstance(version, str) or not version[:1].isdigit():
                rule = "must be a text that begins with a number"
                raise UsageError(f"the version of engine {engine!r} {rule}, got {version!r}.")

    def has(self, engine: str) -> bool:
        """Whether an engine is selected. The name of a family selects its engines except those in `REPORTED_TITLES`."""
        if self.names is None:
            return engine not in REPORTED_TITLES
        if engine in self.names or ALL in self.names:
            return True
        return engine not in REPORTED_TITLES and self.names_engine(engine)

    def names_engine(self, engine: str) -> bool:
        """Whether the caller named an engine or its family; `all` does not count."""
        return any(_is_engine_or_family(engine, name) for name in self.names or ())

    def versions_of(self, engine: str) -> list[str]:
        """Return the versions of an engine that are judged. A divergence that one of them lacks is left out."""
        from sliceport.defects.table import version_to_judge  # takes long, and a parser of options does not need it

        versions = [version for name, version in self.versions.items() if _is_engine_or_family(engine, name)]
        return versions or list(filter(None, [version_to_judge(engine)]))

    def find_unchecked(self, engines: Sequence[str]) -> list[str]:
        """Return the names for which nothing is checked if the formats look for defects of `engines`."""
        checked = (*engines, *REPORTED_TITLES)
        return [
            name
            for name in self.names or ()
            if name != ALL and not any(_is_engine_or_family(each, name) for each in checked)
        ]

    def divergences_of(self, defect: Defect) -> tuple[Divergence, ...]:
        """Return the wrong behaviors that a defect describes for the selected engines and versions."""
        return tuple(filter(self._selects, defect.divergences))

    def _selects(self, divergence: Divergence) -> bool:
        """Return whether a divergence is of a selected engine, and may affect each judged version of that engine."""
        engine = divergence.engine
        return self.has(engine) and all(map(divergence.may_affect, self.versions_of(engine)))


def _is_engine_or_family(engine: str, name: str) -> bool:
    """Return whether `name` is the engine or its family: `openvino` is the family of `openvino-cpu`."""
    return engine == name or engine.startswith(f"{name}-")


def harden_command(model: str, engines: Sequence[str], targets: Sequence[str] = ()) -> str:
    """Return the `sliceport harden` command for a defect of `engines`, with `--target A|B` if there are `targets`."""
    output = "OUT"
    if targets:
        output = f"OUT --target {'|'.join(targets)}"
    elif engines and all(engine.startswith("openvino") for engine in engines) and not model.endswith(".xml"):
        output = "OUT.xml --target openvino-cpu"  # models for OpenVINO are written as IR
    return f"{join(['sliceport', 'harden', model])} -o {output}"


@dataclass(frozen=True)
class CheckReport(NodeFindings):
    """The findings about a model with a selection of engines.

    Attributes:
        selection: The selected engines.
        left_out: Engines that are checked only if the caller names them, because they convert the model first.
    """

    selection: Selection = Selection()
    left_out: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[NodeFinding, ...]:
        """The findings that concern the selected engines and versions.

        Invalid nodes are always included. So are nodes that are fragile by themselves, unless the versions rule out the
        defect on every engine.
        """
        for_all = replace(self.selection, names=(ALL,))
        return tuple(
            each
            for each in self.nodes
            if each.kind == "invalid"
            or (self.selection if each.defect.kind == "defect" else for_all).divergences_of(each.defect)
        )

    @property
    def is_clean(self) -> bool:
        """Whether there is no finding."""
        return not self.findings

    def to_json(self, model: str = "MODEL") -> dict[str, Any]:
        """Return the report as JSON values. `rules` has each defect once. The `help` of a defect may name `model`."""
        engines = [engine for engine in self.engines if self.selection.has(engine)]
        reported = [engine for engine in REPORTED_TITLES if self.selection.has(engine)]
        return {
            "schema_version": 1,
            "engines": engines,
            "reported_engines": reported,
            "unchecked_engines": self.selection.find_unchecked(self.engines),
            "left_out_engines": list(self.left_out),
            "versions": {
                engine: ", ".join(versions)
                for engine in (*engines, *reported)
                if (versions := self.selection.versions_of(engine))
            },
            "findings": [
                {
                    "kind": finding.kind,
                    "rule": finding.defect.rule,
                    "op": finding.op,
                    "node": finding.node,
                    "scope": list(finding.scope),
                    "detail": finding.detail,
                }
                for finding in self.findings
            ],
            # A finding about a node on the CPU has fewer divergences, so the entry with the most comes last and stays.
            "rules": {
                defect.rule: self._describe_defect(defect, model)
                for defect in sorted((each.defect for each in self.findings), key=lambda each: len(each.divergences))
            },
        }

    def _describe_defect(self, defect: Defect, model: str) -> dict[str, Any]:
        """Return a defect as JSON values. Of the engines that are wrong, only the selected ones are included."""
        divergences = self.selection.divergences_of(defect)
        # `harden --target` avoids a divergence that has a `target`.
        targets = [divergence.target for divergence in divergences if divergence.target]
        command = harden_command(model, [divergence.engine for divergence in divergences], targets)
        return {
            "id": defect.id,
            "evidence": defect.evidence,
            "trigger": defect.trigger,
            "right": defect.right,
            "right_on": list(defect.correct_engines),
            "is_contested": defect.is_contested,
            "engines": [
                {
                    "engine": divergence.engine,
                    "versions": divergence.seen_in,
                    "does": divergence.does,
                    "issues": list(divergence.issues),
                    "target": divergence.target,
                }
                for divergence in divergences
            ],
            "help": command if targets or defect.handling == "rewritten" else defect.workaround,
            # `harden` does not rewrite every fragile node, so its command is not the help for one.
            "help_if_fragile": defect.remedy if defect.handling == "rewritten" else defect.workaround,
            "page": f"{PAGES}/{defect.rule}.md",
        }

    def __repr__(self) -> str:
        return f"<CheckReport: {self._format_counts()}>"

    def _repr_html_(self) -> str:
        rows = [
            (each.kind, each.defect.id, each.op, "/".join([*each.scope, each.node]), each.detail)
            for each in self.findings
        ]
        return html_table(self._format_counts(), ("kind", "defect", "operator", "node", "detail"), rows)

    def _format_counts(self) -> str:
        counts = Counter(finding.kind for finding in self.findings)
        return ", ".join(f"{counts[kind]} {kind}" for kind in KINDS)
