"""What a model format is, and the formats that are installed: entry points of the group `sliceport.formats`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack, runtime_checkable

from sliceport.arguments import is_path, read_path
from sliceport.entry_points import load_entry_points
from sliceport.errors import UsageError, unknown_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

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
"""What a model says of a size: the number, a symbol, the numbers that it may be, or nothing."""
DeclaredShapes = Mapping[str, Sequence[DeclaredDim] | None]
"""By input, what a model says of its sizes; None where it does not say how many there are."""


class Changes(Protocol):
    """What was done to a model."""

    @property
    def is_complete(self) -> bool:
        """Whether everything that was found was done."""
        ...

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        ...

    def text(self, *, verbose: bool = False) -> str:
        """For people; `verbose` adds what was not done, and why."""
        ...


class Verified(Protocol):
    """What running a model before and after a change found."""

    @property
    def is_equal(self) -> bool:
        """Whether the changed model computes the same."""
        ...

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        ...


@dataclass(frozen=True)
class Result:
    """What became of a model that was rewritten or hardened into a file.

    Attributes:
        changes: What was done to it.
        verification: What its verification found; None where none was asked for.
    """

    changes: Changes
    verification: Verified | None = None

    @property
    def is_written(self) -> bool:
        """Whether the file was written: a model that failed its verification is not."""
        return self.verification is None or self.verification.is_equal

    @property
    def is_clean(self) -> bool:
        """Whether the file was written and nothing is left to do."""
        return self.is_written and self.changes.is_complete

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return self.changes.to_json() | ({} if self.verification is None else self.verification.to_json())

    def text(self, *, verbose: bool = False) -> str:
        """For people."""
        said = [] if self.verification is None else [str(self.verification)]
        return "\n".join([self.changes.text(verbose=verbose), *said])


class LowerOptions(TypedDict, total=False):
    """Options of `lower`.

    Attributes:
        input_shapes: Sizes for inputs whose shape the model leaves open, by name: integers, NumPy's too.
        feature_level: The DirectML feature level to lower for; the latest by default.
        input_layout: How the tensors that are cut lie in memory: an axis order for tensors of its rank (`NHWC`,
            `0,2,3,1`), or strides in elements by value name; packed row-major by default.
        output_layout: The same for what comes out.
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
    """Options of whatever runs a model.

    Attributes:
        input_shapes: Sizes for inputs whose shape the model leaves open, by name: integers, NumPy's too.
        inputs: Arrays for inputs, or what NumPy makes arrays of by `__array__`; random ones that fit are made for the
            others.
        seed: For the random inputs, an integer from 0 up.
    """

    input_shapes: InputShapes | None
    inputs: Arrays | None
    seed: int


class CompareOptions(RunOptions, total=False):
    """Options of `compare`, with those of `RunOptions`.

    Attributes:
        executors: The names of those that take part; by default those of the format.
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
        simplify: Whether optimizers of whole graphs take part, as often as they find something: True for the first of
            `Format.optimizers`, or the names of those that do.
    """

    simplify: bool | str | Sequence[str]


class Format(Protocol):
    """A format of models.

    Attributes:
        name: Its name, which `NodeEngine.formats` refers to.
        title: Its name in sentences.
        suffixes: How the names of its files end; an empty one stands for files that no other format claims.
        packages: The packages whose objects are models of it.
        reference: The name of what computes the expected values of a comparison, and a line about it.
        default_executors: The names of those that take part in a comparison if nobody names any.
        targets: By engine that models can be hardened for, the suffixes of files of other formats that it takes, too.
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
        """The passes that `rewrite` runs by default, and those that it runs by name only, with a line about each."""
        ...

    def lower(self, model: Any, **options: Unpack[LowerOptions]) -> Program:
        """Lower every slicing node of a model, a file or an object, to DirectML operators.

        Raises:
            SliceportError: The model cannot be read, or an option does not fit it.
        """
        ...

    def compare(self, model: Path, **options: Unpack[CompareOptions]) -> Report:
        """Compare what engines compute for the slicing nodes of a model's file.

        Raises:
            SliceportError: The model cannot be read or run, or an option does not fit it.
        """
        ...

    def run_on_directml(self, model: Path, *, against: bool, **options: Unpack[RunOptions]) -> ModelRun:
        """Run a whole model on onnxruntime's DirectML provider.

        Args:
            model: The model's file.
            against: Whether to run onnxruntime's CPU provider, too, and to find the nodes behind a difference.
            options: See `RunOptions`.

        Raises:
            SliceportError: The model cannot be read or run, or an option does not fit it.
        """
        ...

    def rewrite(
        self, model: Path, output: Path, passes: Sequence[str] | None = None, **options: Unpack[RewriteOptions]
    ) -> Result:
        """Write a model with simpler slicing.

        Raises:
            SliceportError: The model cannot be read, verified or written, or an option does not fit it.
        """
        ...

    def harden(self, model: Path, output: Path, target: str, **options: Unpack[ChangeOptions]) -> Result:
        """Write a model without the slicing that an engine computes wrongly or refuses.

        Raises:
            SliceportError: The model cannot be read, verified or written, or an option does not fit it.
        """
        ...


@runtime_checkable
class DeclaresShapes(Protocol):
    """A format that tells the shapes of a model's inputs without reading weights; a format need not be one."""

    def declared_shapes(self, model: Path) -> DeclaredShapes:
        """The shapes of the inputs that a caller has to give, in the model's order.

        Raises:
            ModelError: The model cannot be read.
        """
        ...


@runtime_checkable
class ManyFiles(Protocol):
    """A format whose models consist of several files; a format need not be one."""

    def files_beside(self, model: Path) -> tuple[str, ...]:
        """The other files of a model, whether they are there or not, sorted: names relative to its folder.

        None leaves that folder by its name. There are none for a file that is no model; nothing is raised.
        """
        ...


_METHODS = ("passes", "lower", "compare", "run_on_directml", "rewrite", "harden")


@cache
def formats() -> dict[str, Format]:
    """The formats that are installed, by name.

    Raises:
        UsageError: See `load_entry_points`.
    """
    return load_entry_points(GROUP, complain)


def complain(format_: object) -> str:
    """Why an object is no format, as the end of a sentence; empty where it is one."""
    lacking = [name for name in (*Format.__annotations__, *_METHODS) if not hasattr(format_, name)]
    return f"is no format: it lacks {', '.join(lacking)}" if lacking else ""


def format_of(model: Any) -> Format:
    """The format of a model: of a file by the end of its name, of an object by the package of its type.

    Raises:
        UsageError: No format takes it.
    """
    if is_path(model):
        name = os.fspath(model)
        claims = [(len(suffix), one) for one in formats().values() for suffix in one.suffixes if name.endswith(suffix)]
        if claims:
            return max(claims, key=lambda claim: claim[0])[1]
        raise UsageError(f"no format is installed that reads '{name}'.")
    packages = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    for one in formats().values():
        if packages.intersection(one.packages):
            return one
    raise UsageError(f"a model is a file's path or an object of {_all_packages()}, got {type(model).__name__}.")


def _all_packages() -> str:
    return ", ".join(package for one in formats().values() for package in one.packages)


def all_targets() -> tuple[str, ...]:
    """The engines that models can be hardened for."""
    return tuple(dict.fromkeys(target for one in formats().values() for target in one.targets))


def choose_target(model: Path, output: Path, target: str | None) -> tuple[Format, str]:
    """The format that hardens a file, and the engine that it is hardened for.

    Without a target it is one of the format that the output has, else of that of the model.

    Raises:
        UsageError: The target is not known, or does not take the file; or something is no path.
    """
    read_path(model, "model")
    read_path(output, "output")
    if target is not None and target not in all_targets():
        raise unknown_name("target", target, all_targets())
    name, own = os.fspath(model), format_of(model)
    wanted = [format_of(output), own] if target is None else list(formats().values())
    for one in wanted:
        for known, suffixes in one.targets.items():
            if target in (None, known) and (one is own or name.endswith(suffixes)):
                return one, known
    raise UsageError(f"'{name}' cannot be hardened for {target or 'any engine'}: it is {own.title}.")
