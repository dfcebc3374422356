"""Engines that run slicing nodes of OpenVINO models. The model of a `SingleNode` is an `ov_ext.one_node.OneNode`."""

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
        """Return the bytes of each output; see `NodeEngine`.

        Raises:
            ModelError: OpenVINO fails, or would end the process by a known defect.
        """
        outputs: list[npt.NDArray[np.uint8]] = node.model.run(self.name, data)
        return outputs


EVALUATE = OpenVINOEngine("openvino", "built-in operators by Model.evaluate")
CPU_PLUGIN = OpenVINOEngine("openvino-cpu", "built-in operators on the CPU plugin")
OURS = OpenVINOEngine("ov_ext", "our operators by Model.evaluate")
