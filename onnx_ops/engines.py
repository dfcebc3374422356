"""Engines that run single ONNX nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceport.engines.engine import SingleNode

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class OnnxruntimeDML:
    """onnxruntime's DirectML execution provider; no node may run on the CPU."""

    name = "onnxruntime-dml"
    description = "each node on onnxruntime's DirectML provider"
    formats = ("onnx",)

    def run_node(self, node: SingleNode, data: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
        """Run a node; see `NodeEngine`.

        Raises:
            DeviceError: The provider refuses the node, or the host program failed.
        """
        import numpy as np

        from onnx_ops.verify.one_node import element_dtype, output_names
        from sliceport.engines.directml import shared_device

        resolved = node.lowered.resolved
        array = data.view(element_dtype(resolved.element)).reshape(resolved.cuts[0].region.input_shape)
        names = output_names(resolved)
        results = shared_device().run_onnx(node.model.SerializeToString(), {"data": array}, names)
        flat = [np.ascontiguousarray(result).reshape(-1) for result in results]
        return [array.view(np.uint8) if array.size else np.zeros(0, np.uint8) for array in flat]


ONNXRUNTIME_DML = OnnxruntimeDML()
