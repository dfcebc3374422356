"""onnxruntime's DirectML execution provider as an executor: the node itself, as it is written."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onnx_ops.compare.one_node import element_dtype, one_node
from sliceport.engines.directml import shared_device
from sliceport.slicing.node import SlicingNode

NAME = "onnxruntime-dml"


def run(node: SlicingNode, data: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[np.uint8]]:
    """The bytes of each output of a node, by name, for its input's bytes. No node may run on the CPU.

    Raises:
        DeviceError: The provider refuses the node, or the host program failed.
    """
    shape = node.cuts[0].region.input_shape
    array = data.view(element_dtype(node.element)).reshape(shape)
    names = [f"out{i}" for i in range(len(node.cuts))]
    results = shared_device().run_onnx(one_node(node, names).SerializeToString(), {"data": array}, names)
    return {
        cut.output: np.ascontiguousarray(result).reshape(-1).view(np.uint8) if result.size else np.zeros(0, np.uint8)
        for cut, result in zip(node.cuts, results, strict=True)
    }
