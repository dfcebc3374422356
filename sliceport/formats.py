"""The protocol of a model format, and the installed formats: entry points of the group `sliceport.formats`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack, runtime_checkable

from sliceport.arguments import check_path, is_path
from sliceport.entry_points import load_entry_points
from sliceport.errors import UsageError, unknown_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sliceport.checking import CheckedModel
    from sliceport.directml.feature_levels import FeatureLevel
    from sliceport.directml.layouts import Layout
    from sliceport.directml.program import Program
    from sliceport.engines.comparison import Report
    from sliceport.engines.model_run import ModelRun

    Arrays = Mapping[str, npt.NDArray[np.generic]]

GROUP = "sliceport.formats"
InputShapes = Mapping[str, Sequence[int]]
Path = str | os.PathLike[str]
Lines = Mapping[str, str]
"""Names and a line about each."""
DeclaredDim = int | str | range | None
"""A size as a model declares it: the number, a symbol, the possible numbers, or None if it is open."""
DeclaredShapes = Mapping[str, Sequence[DeclaredDim] | None]
"""Declared sizes by input name; None for an input of unknown rank."""


class Changes(Protocol):
    """The changes to a model."""

    @property
    def is_complete(self) -> bool:
        """Whether every node that needs a change was changed."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the changes as JSON values."""
        ...

    def text(self, *, verbose: bool = False) -> str:
        """Format the changes for people; `verbose` adds the nodes that were not changed, with reasons."""
        ...


class Verified(Protocol):
    """The result of running a model before and after a change."""

    @property
    def is_equal(self) -> bool:
        """Whether the changed model computes the same."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        ...


@dataclass(frozen=True)
class Result:
    """The result of rewriting or hardening a model into a file.

    Attributes:
        changes: The changes to the model.
        verification: The result of the verification; None if the caller did not ask for one.
    """

    changes: Changes
    verification: Verified | None = None

    @property
    def is_written(self) -> bool:
        """Whether the file was written; a model that fails its verification is not written."""
        return self.verification is None or self.verification.is_equal

    @property
    def is_clean(self) -> bool:
        """Whether the file was written and nothing is left to do."""
        return self.is_written and self.changes.is_complete

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return self.changes.to_json() | ({} if self.verification is None else self.verification.to_json())

    def text(self, *, verbose: bool = False) -> str:
        """Format the result for people."""
        verification = [] if self.verification is None else [str(self.verification)]
        return "\n".join([self.changes.text(verbose=verbose), *verification])


class LowerOptions(TypedDict, total=False):
    """Options of `lower`.

    Attributes:
        input_shapes: Sizes for inputs whose shape the model leaves open, by name: integers, NumPy's too.
        feature_level: The DirectML feature level to lower for; the latest by default.
        input_layout: Memory layout of the tensors that are sliced: an axis order for tensors of its rank (`NHWC`,
            `0,2,3,1`), or strides in elements by value name; packed row-major by default.
        output_layout: The same for the outputs.
        views: Whether forward slices that start at a multiple of 16 bytes become views of their input's buffer.
        strict: Whether a refused node raises instead of being reported.
    """

    input_shapes: InputShapes | None
    feature_level: str | FeatureLevel
    input_layout: Layout
    output_layout: Layout
    views: bool
    strict: bool


class RunOptions(TypedDict, total=False):
    """Options of the functions that run a model.

    Attributes:
        input_shapes: Sizes for inputs whose shape the model leaves open, by name: integers, NumPy's too.
        inputs: Arrays for inputs, or objects with `__array__`, by name; all other inputs get random arrays.
        seed: The seed of the random arrays, an integer from 0 up.
    """

    input_shapes: InputShapes | None
    inputs: Arrays | None
    seed: int


class CompareOptions(RunOptions, total=False):
    """Options of `compare`, with those of `RunOptions`.

    Attributes:
        executors: The names of the engines that take part; by default those of the format.
        feature_level: The DirectML feature level to lower for; the latest by default.
    """

    executors: Sequence[str] | None
    feature_level: str | FeatureLevel


class ChangeOptions(RunOptions, total=False):
    """Options of `rewrite` and `harden`, with those of `RunOptions`.

    Attributes:
        verify: Whether to run the model before and after, and to write it only if it computes the same.
        overwrite: Whether to replace the output and its weights.
    """

    verify: bool
    overwrite: bool


class RewriteOptions(ChangeOptions, total=False):
    """Options of `rewrite`, with those of `ChangeOptions`.

    Attributes:
        simplify: Whether optimizers of whole graphs run too, repeatedly while they change something: True for the
            first of `Format.optimizers`, or the names of the optimizers.
    """

    simplify: bool | str | Sequence[str]


class Format(Protocol):
    """A format of models. Its methods raise SliceportError if the model cannot be read, run or written.

    Attributes:
        name: Its name, which `NodeEngine.formats` refers to.
        title: Its name in sentences.
        suffixes: The suffixes of its files' names; an empty one stands for all files that no other format claims.
        packages: The packages whose objects are models of it.
        reference: The name of the engine that computes the expected values of a comparison, and a line about it.
        default_executors: The names of the engines that take part in a comparison by default.
        targets: The engines that models can be hardened for; for each, the suffixes of files of other formats that it
            also takes.
        optimizers: The optimizers of whole graphs that `rewrite` can use, the default first, with a line about each.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    packages: tuple[str, ...]
    reference: tuple[str, str]
    default_executors: tuple[str, ...]
    targets: Mapping[str, tuple[str, ...]]
    optimizers: Lines

    def passes(self) -> tuple[Lines, Lines]:
        """Return the default passes of `rewrite`, and the passes that it runs on request, with a line about each."""
        ...

    def lower(self, model: Any, **options: Unpack[LowerOptions]) -> Program:
        """Lower every slicing node of a model, a file or an object, to DirectML operators."""
        ...

    def check(self, model: Any) -> CheckedModel:
        """Find the nodes of a model, a file or an object, that are invalid, fragile, or have a defect on an engine."""
        ...

    def compare(self, model: Path, **options: Unpack[CompareOptions]) -> Report:
        """Compare the outputs that engines compute for the slicing nodes of a model's file."""
        ...

    def run_on_directml(self, model: Path, *, against: bool, **options: Unpack[RunOptions]) -> ModelRun:
        """Run a whole model on onnxruntime's DirectML provider.

        Args:
            model: The model's file.
            against: Whether to run onnxruntime's CPU provider as well, and to find the nodes that cause a difference.
            options: Options; `RunOptions` lists them.
        """
        ...

    def rewrite(
        self, model: Path, output: Path, passes: Sequence[str] | None = None, **options: Unpack[RewriteOptions]
    ) -> Result:
        """Write a model with simpler slicing."""
        ...

    def harden(self, model: Path, output: Path, target: str, **options: Unpack[ChangeOptions]) -> Result:
        """Write a model without the slicing that an engine computes wrongly or refuses."""
        ...


@runtime_checkable
class DeclaresShapes(Protocol):
    """A format with an optional method that reads the shapes of a model's inputs, but not its weights."""

    def declared_shapes(self, model: Path) -> DeclaredShapes:
        """Return the shapes of the inputs that a caller has to pass, in the model's order.

        Raises:
            ModelError: The model cannot be read.
        """
        ...


@runtime_checkable
class ManyFiles(Protocol):
    """A format with an optional method that lists the further files of a model."""

    def files_beside(self, model: Path) -> tuple[str, ...]:
        """Return the other files of a model, existing or not, sorted: names relative to its folder.

        No name leads out of that folder. The result is empty for a file that is not a model; nothing is raised.
        """
        ...


_METHODS = ("passes", "lower", "check", "compare", "run_on_directml", "rewrite", "harden")


@cache
def formats() -> dict[str, Format]:
    """Return the installed formats by name.

    Raises:
        UsageError: A format cannot be loaded; see `load_entry_points`.
    """
    return load_entry_points(GROUP, complain)


def complain(format_: object) -> str:
    """Return why an object is not a format, as the end of a sentence, or an empty string."""
    missing = [name for name in (*Format.__annotations__, *_METHODS) if not hasattr(format_, name)]
    return f"is not a format: it lacks {', '.join(missing)}" if missing else ""


def format_of(model: Any) -> Format:
    """Return the format of a file by the suffix of its name, or of a model object by the package of its type.

    Raises:
        UsageError: No installed format takes the model.
    """
    if is_path(model):
        name = os.fspath(model)
        claims = [(len(suffix), one) for one in formats().values() for suffix in one.suffixes if name.endswith(suffix)]
        if claims:
            # The longest suffix wins; the empty suffix claims every file.
            return max(claims, key=lambda claim: claim[0])[1]
        raise UsageError(f"no format is installed that reads '{name}'.")
    packages = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    for one in formats().values():
        if packages.intersection(one.packages):
            return one
    packages_of_all = ", ".join(package for one in formats().values() for package in one.packages)
    raise UsageError(f"a model is a file's path or an object of {packages_of_all}, got {type(model).__name__}.")


def all_targets() -> tuple[str, ...]:
    """Return the engines that models can be hardened for."""
    return tuple(dict.fromkeys(target for one in formats().values() for target in one.targets))


def choose_target(model: Path, output: Path, target: str | None) -> tuple[Format, str]:
    """Return the format that hardens a file, and the engine to harden it for.

    Without `target`, the output's format decides on the engine, or the model's format if the former has no engine that
    takes the file.

    Raises:
        UsageError: `target` is unknown or does not take the file, or `model` or `output` is not a path.
    """
    check_path(model, "model")
    check_path(output, "output")
    if target is not None and target not in all_targets():
        raise unknown_name("target", target, all_targets())
    name, own = os.fspath(model), format_of(model)
    candidates = [format_of(output), own] if target is None else list(formats().values())
    for one in candidates:
        for engine, suffixes in one.targets.items():
            if target in (None, engine) and (one is own or name.endswith(suffixes)):
                return one, engine
    raise UsageError(f"'{name}' cannot be hardened for {target or 'any engine'}: it is {own.title}.")
