"""The protocol of a model format, and the installed formats: entry points of the group `sliceport.formats`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sliceport.arguments import is_path, read_names, read_shapes
from sliceport.engines.engine import Engine, OperatorValidator
from sliceport.engines.entry_points import load_entry_points
from sliceport.engines.registry import describe_abilities, engines, engines_for_nodes
from sliceport.engines.sizes import DeclaredShapes, InputShapes
from sliceport.errors import UsageError, check_names
from sliceport.wording import spell

if TYPE_CHECKING:
    from sliceport.checking import NodeFindings
    from sliceport.directml.program import Program
    from sliceport.engines.comparison import Report
    from sliceport.verdict.verification import Verification

GROUP = "sliceport.formats"
Arrays = Mapping[str, Any]
"""NumPy arrays, or objects with `__array__`, by input name."""
Path = str | os.PathLike[str]
Lines = Mapping[str, str]
"""Descriptions of one line, by name."""


class Changes(Protocol):
    """The changes to a model."""

    @property
    def is_complete(self) -> bool:
        """Whether every node that needs a change was changed."""

    @property
    def is_changed(self) -> bool:
        """Whether the model was changed at all."""

    @property
    def summary(self) -> str:
        """The numbers of changes, on one line."""

    def to_json(self) -> dict[str, Any]:
        """Return the changes as JSON values."""

    def text(self, *, verbose: bool = False) -> str:
        """Format the changes for people; `verbose` adds details about nodes."""


@dataclass(frozen=True)
class Result:
    """The result of rewriting or hardening a model.

    Attributes:
        changes: The changes to the model.
        verification: The result of the verification; None if the caller did not ask for one.
        model: The changed model, of the same type as the argument; None if the argument is a path, or if the
            verification failed.
    """

    changes: Changes
    verification: Verification | None = None
    model: Any = None

    @property
    def is_written(self) -> bool:
        """Whether the changed model was written or returned. A failed verification prevents both."""
        return self.verification is None or self.verification.is_equal

    @property
    def is_clean(self) -> bool:
        """Whether `is_written` is true and every node that needs a change was changed."""
        return self.is_written and self.changes.is_complete

    @property
    def summary(self) -> str:
        """The verdict of the verification or, without one, the numbers of changes, on one line."""
        return self.changes.summary if self.verification is None else self.verification.summary

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        result = {"schema_version": 1} | self.changes.to_json()
        if self.verification is None:
            return result
        verification = self.verification.to_json()
        return result | verification | {"notes": [*result.get("notes", ()), *verification["notes"]]}

    def __repr__(self) -> str:
        return f"<Result: {self.summary}>"

    def _repr_html_(self) -> str:
        from html import escape  # only notebooks need this module

        return f"<pre>{escape(self.text())}</pre>"

    def text(self, *, verbose: bool = False) -> str:
        """Format the result for people; `verbose` adds details about nodes."""
        verification = [] if self.verification is None else [str(self.verification)]
        return "\n".join([self.changes.text(verbose=verbose), *verification])


class Format(Protocol):
    """A format of models. Its methods raise SliceportError if the model cannot be read, run or written.

    The `options` of a method are keyword arguments of the function of `sliceport` with the same name, which has checked
    and converted them.

    Attributes:
        name: Its name, which `NodeEngine.formats` refers to.
        title: Its name in sentences.
        suffixes: The suffixes of its files' names. An empty suffix claims all files that no other format claims.
        packages: The packages whose objects are models of this format.
        reference: The name and the description of the engine that computes the expected values of a comparison.
        default_executors: The names of the engines that take part in a comparison by default, besides validators.
        targets: The engines that models of this format can be hardened for, each with suffixes. Files of
            other formats that have these suffixes can be hardened for the engine, too.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    packages: tuple[str, ...]
    reference: tuple[str, str]
    default_executors: tuple[str, ...]
    targets: Mapping[str, tuple[str, ...]]

    def passes(self) -> tuple[Lines, Lines]:
        """Return the passes that `rewrite` runs by default, and those that it runs only if they are named."""

    def lower(self, model: Any, **options: Any) -> Program:
        """Lower every Slice, StridedSlice and Split of a file or an object to DirectML operators."""

    def check(self, model: Any, input_shapes: InputShapes) -> NodeFindings:
        """Find invalid and fragile nodes of a file or an object, and nodes with a defect on an engine."""

    def compare(self, model: Any, **options: Any) -> Report:
        """Compare the outputs that engines compute for the slicing nodes of a file or an object."""

    def rewrite(self, model: Any, output: Path | None, passes: Sequence[str] | None = None, **options: Any) -> Result:
        """Simplify the slicing of a model by `passes`; None means the default passes. See `harden` for `output`."""

    def harden(self, model: Any, output: Path | None, target: str, **options: Any) -> Result:
        """Rewrite the nodes that the engine `target` computes wrongly or refuses.

        A target can also be a form, such as `portable`: then all slicing nodes get this form. Write the changed model,
        or return it as an object if `output` is None.
        """


@runtime_checkable
class DeclaresShapes(Protocol):
    """A format with an optional method that reads the shapes of a model's inputs, but not its weights."""

    def declared_shapes(self, model: Any) -> DeclaredShapes:
        """Return the shapes of the inputs that a caller has to pass, in the model's order.

        Raises:
            ModelError: The model cannot be read.
        """


@runtime_checkable
class ManyFiles(Protocol):
    """A format with an optional method that lists the further files of a model."""

    def files_beside(self, model: Path) -> tuple[str, ...]:
        """Return the sorted names of the further files of a model, such as its weights, relative to its folder.

        The files need not exist, but all names stay inside the folder. If `model` is not a model, the result is empty,
        and no error is raised.
        """


@runtime_checkable
class NamesNodes(Protocol):
    """A format with an optional method that returns the ids of nodes in Google's Model Explorer."""

    def node_ids(self, model: Path) -> dict[str, dict[str, str]]:
        """Return the ids that Model Explorer gives to the nodes of each graph.

        The keys are the ids of the graphs, and the main graph is first. The id of a body is the id of its node, a slash
        and the attribute's name. The value of a key is a dict. It maps names of nodes in this graph, and names of the
        outputs of nodes, to the ids of the nodes. If Model Explorer shows a body inside the main graph, the dict of the
        main graph also has the nodes of the body. The id of the body and a slash then precede their names.

        Raises:
            ModelError: The model cannot be read or represented.
        """


@cache
def formats() -> dict[str, Format]:
    """Return the installed formats by name.

    Raises:
        UsageError: A format cannot be loaded; see `load_entry_points`.
    """
    return load_entry_points(GROUP, describe_misfit)


def describe_misfit(format_: object) -> str:
    """Return why an object is not a format, as the end of a sentence. Return an empty string if it is a format."""
    # `vars` also has private members, which Python adds to every protocol.
    members = [name for name in (*Format.__annotations__, *vars(Format)) if not name.startswith("_")]
    missing = [name for name in members if not hasattr(format_, name)]
    return f"is not a format: it lacks {', '.join(missing)}" if missing else ""


def format_of(model: Any) -> Format:
    """Return the format of a file by the suffix of its name, or of a model object by the package of its type.

    Raises:
        UsageError: No installed format reads the model, or a format cannot be loaded.
    """
    if is_path(model):
        name = os.fspath(model)
        candidates = [format_ for format_ in formats().values() if any(map(name.endswith, format_.suffixes))]
        if candidates:  # the longest suffix wins; the empty suffix matches every file
            return max(candidates, key=lambda each: max(len(end) for end in each.suffixes if name.endswith(end)))
        raise UsageError(f"no format is installed that reads '{name}'.")
    # A model may be an object of a class that is derived from a class of the format's package.
    packages = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    for format_ in formats().values():
        if packages.intersection(format_.packages):
            return format_
    all_packages = ", ".join(package for format_ in formats().values() for package in format_.packages)
    raise UsageError(f"a model is a file's path or an object of {all_packages}, got {type(model).__name__}.")


def check_fit(model: Any, options: Mapping[str, Any]) -> None:
    """Raise UsageError if `inputs` or `input_shapes` in the options of a verification do not fit a model.

    A run says so itself; this is for a model that need not run, because nothing in it changed.
    """
    shapes = read_shapes(options.get("inputs"), options.get("input_shapes"))
    if shapes:
        format_of(model).check(model, shapes)


def declared_shapes(model: Any) -> DeclaredShapes:
    """Return the declared shapes of the inputs of a model. Return an empty mapping if its format does not read shapes.

    Raises:
        ModelError: The model cannot be read.
        UsageError: No installed format reads the model, or a format cannot be loaded.
        MissingExtra: A package that reads the format is not installed.
    """
    format_ = format_of(model)
    return format_.declared_shapes(model) if isinstance(format_, DeclaresShapes) else {}


def find_converters(model: Any, names_engine: Callable[[str], bool]) -> tuple[list[Format], tuple[str, ...]]:
    """Return the other formats that convert a model for an engine and can check it then.

    Args:
        model: A file's path, or an object, which no other format converts.
        names_engine: A function that returns whether the caller named an engine.

    Returns:
        The formats with a target that converts the file and is named, and all targets that are not named.

    Raises:
        UsageError: No installed format reads the model, or a format cannot be loaded.
    """
    converters, left_out = [], []
    file = os.fspath(model) if is_path(model) else ""
    model_format = format_of(model)
    for other in formats().values():
        engines = [engine for engine, suffixes in other.targets.items() if file.endswith(suffixes)]
        if other is model_format or not engines:
            continue
        if any(map(names_engine, engines)):
            converters.append(other)
        else:
            left_out += engines
    return converters, tuple(left_out)


def all_targets() -> tuple[str, ...]:
    """Return the engines that models of the installed formats can be hardened for."""
    return tuple(dict.fromkeys(target for format_ in formats().values() for target in format_.targets))


def choose_target(model: Any, output: Path | None, target: str | None) -> tuple[Format, str]:
    """Return the format that hardens a model, and the engine to harden it for.

    Without `target`, choose the first target of the output's format that fits the model. If no target fits, or there is
    no output, choose the first target of the model's format. A given `target` is kept, whatever the output.

    Raises:
        UsageError: `target` is unknown or does not fit the model, or no installed format reads the model or the output.
    """
    if target is not None:
        check_names("target", [target], all_targets())
    model_format = format_of(model)
    name = os.fspath(model) if is_path(model) else ""
    candidates = [model_format] if output is None else [format_of(output), model_format]
    if target is not None:
        candidates = list(formats().values())
    for format_ in candidates:
        for engine, suffixes in format_.targets.items():
            # A target fits models of its own format, and all files whose names end in one of its suffixes.
            if target in (None, engine) and (format_ is model_format or name.endswith(suffixes)):
                return format_, engine
    described = f"'{name}'" if name else f"an object of {type(model).__module__.partition('.')[0]}"
    raise UsageError(f"{described} cannot be hardened for {target or 'any engine'}: it is {model_format.title}.")


def choose_engines(names: Iterable[str] | None, format_: Format) -> list[Engine]:
    """Return the engines to compare with the reference engine of a format, without the reference engine itself.

    Args:
        names: Names of engines; None for the default engines of the format and the validators that are ready.
        format_: The format of the model.

    Raises:
        UsageError: `names` is not a sequence of names, contains an unknown name, or names no engine but the reference.
    """
    available, reference = engines_for_nodes(format_.name), format_.reference[0]
    if names is None:
        ready = (name for name, each in available.items() if isinstance(each, OperatorValidator) and each.is_ready())
        names = (*format_.default_executors, *ready)
    option = spell("executors", "--executors")
    requested = read_names(names, option)
    for name in requested:
        if name in engines() and name not in (reference, *available):
            raise UsageError(f"{option}: {name!r} runs {describe_abilities(name)}, not nodes of {format_.name}.")
    check_names("executor", requested, (reference, *available))
    chosen = [available[name] for name in dict.fromkeys(requested) if name != reference]
    if not chosen:
        others = ", ".join(name for name in available if name != reference)
        raise UsageError(f"nothing to compare {reference!r} with; name another engine in {option}: {others}.")
    return chosen
