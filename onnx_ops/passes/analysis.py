"""What passes share about a model: inferred shapes and types, and the search for siblings."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.passes.siblings import Siblings, find_siblings
from onnx_ops.passes.value_info import ValueInfo, infer_value_info


class Analysis:
    """What is inferred of a model; the model itself is not changed.

    Attributes:
        model: The model.
        value_info: Shapes and types. A pass records those of the values that it makes.
    """

    def __init__(self, model: ir.Model, *, folding: bool = False) -> None:
        """See `infer_value_info`."""
        self.model = model
        self.value_info = ValueInfo()
        self._folding = folding
        self._siblings: Siblings | None = None
        self.infer()

    def infer(self) -> None:
        """Infer shapes and types anew, for more may follow from what the nodes have become."""
        self.value_info = infer_value_info(self.model, folding=self._folding)
        self.forget_siblings()

    @property
    def siblings(self) -> Siblings:
        """The siblings in the model: searched for on first use, and again only after a change of the model."""
        if self._siblings is None:
            self._siblings = find_siblings(self.model, self.value_info)
        return self._siblings

    def forget_siblings(self) -> None:
        """Say that the model has changed."""
        self._siblings = None
