"""onnxruntime's profile of a run: the nodes that ran, and where."""

from __future__ import annotations

import json
from dataclasses import dataclass

_KERNEL = "_kernel_time"
"""Suffix of the names of a profile's events for nodes."""


@dataclass(frozen=True)
class NodeRun:
    """A node that ran, and the execution provider that ran it."""

    name: str
    op_type: str
    provider: str


def read_profile(profile: bytes) -> list[NodeRun]:
    """Return the nodes that ran, in order, from the JSON of a profile."""
    return [
        NodeRun(
            event["name"].removesuffix(_KERNEL), event["args"].get("op_name", ""), event["args"].get("provider", "")
        )
        for event in json.loads(profile)
        if event.get("cat") == "Node" and event["name"].endswith(_KERNEL)
    ]
