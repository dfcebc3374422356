"""Engines that run slicing nodes as OpenVINO has them; the model of a `SingleNode` is an `ov_ext.one_node.OneNode`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceport.engines.engine import SingleNode

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class OpenVINOEngine:
    """One of the ways in which OpenVINO computes a node."""

    name: str
    description: str
    formats: tuple[str, ...] = ("openvino",)

    def run_node(self, node: SingleNode, data: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
        """See `NodeEngine`.

        Raises:
            ModelError: OpenVINO fails, or is known to end the process with this node.
        """
        outputs: list[npt.NDArray[np.uint8]] = node.model.run(self.name, data)
        return outputs


EVALUATE = OpenVINOEngine("openvino", "built-in operators by Model.evaluate")
CPU_PLUGIN = OpenVINOEngine("openvino-cpu", "built-in operators on the CPU plugin")
OURS = OpenVINOEngine("ov_ext", "our operators by Model.evaluate")
