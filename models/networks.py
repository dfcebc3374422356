"""Functions that build networks with random weights for the exports, and call them with only tensors."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

Network = tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]
"""A function that builds a module, and the inputs of the module."""


class Tensors(nn.Module):
    """A network as a function from tensors to all tensors in its output."""

    def __init__(self, network: nn.Module, call: Callable[..., Any]):
        super().__init__()
        self.network, self.call = network, call

    def forward(self, *inputs):
        leaves = pytree.tree_leaves(self.call(self.network, *inputs))
        return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))


def network(make: Callable[[], nn.Module], *inputs: torch.Tensor, call: Callable[..., Any] | None = None) -> Network:
    """Return a network and its inputs. `call` calls the network, by default as a function of the inputs."""
    return lambda: Tensors(make().eval(), call or (lambda module, *values: module(*values))).eval(), inputs


def floats(*sizes: int) -> torch.Tensor:
    """Return an input of floats."""
    return torch.linspace(-1, 1, torch.Size(sizes).numel()).reshape(sizes)


def tokens(length: int = 16, batch: int = 1) -> torch.Tensor:
    """Return an input of token ids below 32."""
    return (torch.arange(batch * length) % 30 + 2).reshape(batch, length)


def load(path: str) -> Any:
    """Return a class or function by its path, such as `torchvision.models.get_model`."""
    module, name = path.rsplit(".", 1)
    return getattr(import_module(module), name)


def build(path: str, *values: Any, **settings: Any) -> Callable[[], nn.Module]:
    """Return a function that builds a module by the path of its class or function, and imports the package first."""
    return lambda: load(path)(*values, **settings)


def first(module: nn.Module, *inputs: torch.Tensor) -> Any:
    """Call a module and return the first of its results."""
    return module(*inputs)[0]


def fields(*names: str, **options: Any) -> Callable[..., Any]:
    """Return a function that calls a network and returns fields of its output."""
    return lambda module, *values: [getattr(module(*values, **options), name) for name in names]


def config(kind: str, **settings: Any) -> Any:
    """Return a configuration of transformers."""
    return load("transformers.AutoConfig").for_model(kind, **settings)


def make_transformer(kind: str, auto: str = "AutoModel", **settings: Any) -> nn.Module:
    """Return a module of transformers with plain attention, which both exporters can export.

    Args:
        kind: The type of its configuration.
        auto: Its class, or one that chooses the class by the configuration.
        settings: Values of the configuration.
    """
    class_, configuration = load(f"transformers.{auto}"), config(kind, **settings)
    configuration._attn_implementation = "eager"
    if auto.startswith("Auto"):
        return class_.from_config(configuration, attn_implementation="eager")
    return class_(configuration)


def transformer(
    kind: str, *inputs: torch.Tensor, call: Callable[..., Any] = first, auto: str = "AutoModel", **settings: Any
) -> Network:
    """Return a network of transformers; see `make_transformer`."""
    return network(lambda: make_transformer(kind, auto, **settings), *inputs, call=call)


def uncached(module: nn.Module, ids: torch.Tensor) -> Any:
    """Call a decoder without a cache."""
    return module(ids, attention_mask=torch.ones_like(ids), use_cache=False)[0]
