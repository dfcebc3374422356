"""The protocols of engines, which `compare` and `diff` compare with one another.

An operator engine runs the operators that a slicing node was lowered to, and a validator accepts or refuses these
operators; both work for models of every format. A node engine runs the slicing node itself, and a model engine runs
whole models. Node and model engines name their formats. Engines register in the entry point group `sliceport.engines`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union, runtime_checkable

from sliceport.directml.lowered import LoweredNode

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sliceport.device import NodeRun
    from sliceport.directml.operators import Operator

    Bytes = npt.NDArray[np.uint8]

Array: TypeAlias = "npt.NDArray[Any]"
Value = Union["Array", tuple["Value", ...], None]
"""A value of a model: an array, a sequence, a map (a tuple of its keys and its values), or None for no value."""


@dataclass(frozen=True)
class WholeModel:
    """A model to be run as a whole.

    Attributes:
        format: The name of its format.
        data: The content of its file: for `onnx` a serialized ModelProto, for `openvino` the .xml file.
        inputs: The names of its inputs, in order.
        outputs: The names of its outputs, in order.
        weights: For `openvino`, the content of the .bin file.
        data_folder: For `onnx`, the folder of external data files; empty if all data are in the model.
        data_version: Text that changes when external data files change.
    """

    format: str
    data: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: bytes = b""
    data_folder: str = ""
    data_version: str = ""

    def load(self) -> Any:
        """Return the model with all its weights, also those of external data files.

        Returns:
            For `onnx` an `onnx.ModelProto`, for `openvino` an `openvino.Model`.

        Raises:
            ModelError: The weights cannot be read, or the model is too large for protobuf.
        """
        raise NotImplementedError(f"the format {self.format} does not load models")


@dataclass(frozen=True)
class TensorBytes:
    """The bytes of a tensor that a model reads or computes.

    Attributes:
        data: The elements, packed.
        shape: The sizes.
    """

    data: Bytes
    shape: tuple[int, ...]


@dataclass(frozen=True)
class SingleNode:
    """A slicing node to be run by itself.

    Attributes:
        lowered: The resolved node and its operators.
        model: A model of the node alone, in a form that its format documents. For `onnx`, an `onnx.ModelProto` with the
            input `data` and the outputs `out0`, `out1`, ..., one for each output of the node.
    """

    lowered: LoweredNode
    model: Any


class _Named(Protocol):
    """An engine with a name for `--executors`, and a description of one line for the help of commands."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...


@runtime_checkable
class OperatorEngine(_Named, Protocol):
    """An engine that runs DirectML operators."""

    def run_operator(self, operator: Operator, data: Bytes) -> list[Bytes]:
        """Run an operator.

        Args:
            operator: The descriptor.
            data: The bytes of its input tensor's buffer, at least `total_tensor_size_in_bytes`.

        Returns:
            The bytes of each output tensor's buffer, in order.

        Raises:
            SliceportError: The engine cannot run the operator. The message becomes the finding.
        """


@runtime_checkable
class OperatorValidator(_Named, Protocol):
    """An engine that accepts or refuses DirectML operators and runs none."""

    def is_ready(self) -> bool:
        """Return whether the engine is installed. Only then does it take part in comparisons by default."""

    def validate(self, operator: Operator) -> str:
        """Validate an operator, and return the name of the library that accepts it.

        Raises:
            SliceportError: The engine refuses the operator. The message becomes the finding.
        """


@runtime_checkable
class NodeEngine(_Named, Protocol):
    """An engine that runs slicing nodes of some model formats.

    Attributes:
        formats: The names of the formats whose nodes it runs.
    """

    @property
    def formats(self) -> tuple[str, ...]: ...  # noqa: D102 - see the class

    def run_node(self, node: SingleNode, data: Bytes) -> list[Bytes]:
        """Run a node.

        Args:
            node: The node.
            data: The packed bytes of its input, which has the node's input shape and element type.

        Returns:
            The packed bytes of each output of the node, in order.

        Raises:
            SliceportError: The engine cannot run the node. The message becomes the finding.
        """


@runtime_checkable
class ModelEngine(_Named, Protocol):
    """An engine that runs whole models of some formats. It runs in a child process, so that a crash becomes a finding.

    An engine that itself runs models in another process has an attribute `is_isolated` with the value True. An engine
    with options whose values are `yes` and `no` lists their names in an attribute `flags`; their names alone mean yes.
    An engine that by default may compute in narrower types than the model declares has an attribute `exact_options`
    with the options that prevent this.

    Attributes:
        model_formats: The names of the formats whose models it runs.
        options: The names of its options, with a line about each.
    """

    @property
    def model_formats(self) -> tuple[str, ...]: ...  # noqa: D102 - see the class

    @property
    def options(self) -> Mapping[str, str]: ...  # noqa: D102 - see the class

    def version(self) -> str:
        """Return the version of the package that runs models.

        Raises:
            MissingExtra: The package is not installed.
        """

    def run_model(self, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]) -> dict[str, Value]:
        """Run a model.

        Args:
            model: The model.
            inputs: An array for each input. Strings are in arrays of objects. ml_dtypes has the types that NumPy lacks.
            options: The values of options by name; options that are left out have their defaults.

        Returns:
            The outputs by name, without outputs of types that the engine cannot return. Each is a NumPy array, a tuple
            of such values, or None for an optional output without a value.

        Raises:
            SliceportError: The engine cannot run the model. The message becomes the finding. An attribute `kind` of the
                error becomes the kind of the `Failure`.
        """


@runtime_checkable
class NamesCause(Protocol):
    """A model engine with an optional method that finds which component of the engine computes wrongly."""

    def find_cause(self, options: Mapping[str, str], fails: Callable[[Mapping[str, str]], bool]) -> str:
        """Return a sentence, without its full stop, that blames a component of the engine; empty if no cause is known.

        Args:
            options: The options of the engine in the run that fails.
            fails: A function that repeats the run with other options, and returns whether it still fails.
        """


@runtime_checkable
class PlacesNodes(Protocol):
    """An isolated model engine that can tell which provider ran each node, such as the CPU in place of the device."""

    def run_and_place(
        self, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]
    ) -> tuple[dict[str, Value], list[NodeRun]]:
        """Run a model as `ModelEngine.run_model` does, and also return each node with its provider."""


@runtime_checkable
class WritesScript(Protocol):
    """A model engine with an optional method that shows how to run a model without sliceport."""

    def script(self, options: Mapping[str, str]) -> str:
        """Return lines of Python that run a model.

        The lines read two variables: `path` is the model's file, and `inputs` maps names to arrays. They set `got` to
        the list of outputs.
        """


Engine = OperatorEngine | OperatorValidator | NodeEngine
"""An engine that `compare` can compare on slicing nodes. `diff` runs each `ModelEngine` instead."""
