"""Passes of Olive that rewrite and harden ONNX models.

Olive finds passes through its package config. `python -m sliceport.integrations.olive` prints Olive's own package
config with these passes added.
"""

from __future__ import annotations

import json
import logging
import sys
from abc import abstractmethod
from pathlib import Path
from typing import Any

from olive.model.utils import resolve_onnx_path
from olive.package_config import OlivePackageConfig
from olive.passes import Pass
from olive.passes.onnx.common import get_external_data_config, model_proto_to_olive_model
from olive.passes.pass_config import PassConfigParam

import sliceport
from sliceport.errors import SliceportError
from sliceport.formats import Result

_EVERYWHERE = {f"supported_{kind}": ["*"] for kind in ("providers", "accelerators", "precisions")}
logger = logging.getLogger(__name__)


def _option(type_: Any, default: Any, description: str) -> PassConfigParam:
    return PassConfigParam(type_=type_, default_value=default, description=description)


_VERIFY = _option(bool, False, "Whether to run the model before and after the pass, and to fail if the outputs differ.")


class _SliceportPass(Pass):
    """A pass that saves the model that a function of sliceport returns."""

    @abstractmethod
    def _change(self, model: Any, config: Any) -> Result:
        """Return the changed model with its report."""

    def _run_for_config(self, model: Any, config: Any, output_model_path: str) -> Any:
        """Change a model and save it. Olive calls this method.

        Raises:
            SliceportError: The model cannot be changed, or the verification failed.
        """
        path = resolve_onnx_path(output_model_path, Path(model.model_path).name)
        result = self._change(model.load_model(), config)
        if not result.is_written:
            raise SliceportError(result.text())
        logger.info(result.text())
        return model_proto_to_olive_model(result.model, path, config)


class SliceportRewrite(_SliceportPass):
    """`sliceport.rewrite` as a pass."""

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> dict[str, PassConfigParam]:  # noqa: ARG003
        return {
            "simplify": _option(bool, False, "Whether to simplify all other nodes as well, by onnxscript's optimizer."),
            "verify": _VERIFY,
            **get_external_data_config(),
        }

    def _change(self, model: Any, config: Any) -> Result:
        return sliceport.rewrite(model, simplify=config.simplify, verify=config.verify)


class SliceportHarden(_SliceportPass):
    """`sliceport.harden` as a pass."""

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> dict[str, PassConfigParam]:  # noqa: ARG003
        return {
            "target": _option(str, "onnxruntime-dml", "The engine, or `portable` for a form that all engines read."),
            "without": _option(list[str], [], "The forms of slicing that the engine does not accept."),
            "read_as": _option(str, None, "The meaning of a backward Slice to 2**63 - 1: `standard` or `onnxruntime`."),
            "verify": _VERIFY,
            **get_external_data_config(),
        }

    def _change(self, model: Any, config: Any) -> Result:
        options = {"target": config.target, "without": config.without, "read_as": config.read_as}
        return sliceport.harden(model, **options, verify=config.verify)


def package_config() -> dict[str, Any]:
    """Return Olive's package config with the passes of this module."""
    config: dict[str, Any] = json.loads(Path(OlivePackageConfig.get_default_config_path()).read_text(encoding="utf-8"))
    for name in ("SliceportRewrite", "SliceportHarden"):
        config["passes"][name] = {"module_path": f"sliceport.integrations.olive.{name}", **_EVERYWHERE}
    return config


if __name__ == "__main__":
    json.dump(package_config(), sys.stdout, indent=2)
