"""An ONNX model as engines take it."""

from __future__ import annotations

from typing import Any

from sliceport.engines.engine import WholeModel


class OnnxModel(WholeModel):
    """A model of the format `onnx`. This module imports onnx only to load a model, because not all engines do."""

    def load(self) -> Any:
        """Return the model as an `onnx.ModelProto` with all its weights embedded.

        Raises:
            ModelError: The weights cannot be read, or the model is too large for protobuf.
        """
        from onnx_ops.model.external_data import embed_weights

        return embed_weights(self.data, self.data_folder)
