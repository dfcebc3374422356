"""The frames between the client and the host program.

A frame is a 32-bit length of the header, a 64-bit length of the payload (both little-endian), the header as JSON in
UTF-8 and the payload. A request's header contains `do`; an answer's header contains the result, or `error` with `call`,
`hresult` and `message`. The payload of a request begins with the image of an operator (`sliceport.directml.abi.Image`)
or with a model. The bytes of tensors follow, in the order in which the header names them.

On Linux the payload of a request is not in the pipe but in memory that both processes share, because Wine reads pipes
slowly. Descriptors of data files follow the frame through a socket, one in each message. On Windows the host program
opens data files by their paths.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from sliceport.device.errors import DeviceError

PREFIX = struct.Struct("<IQ")
MAX_HEADER, MAX_PAYLOAD = 64 * 2**20, 8 * 2**30
"""Limits of the host program in bytes; it exits if a frame announces more."""


def encode_head(header: dict[str, Any], payload_size: int) -> bytes:
    """Return the start of the frame of a request or an answer, up to its payload.

    Raises:
        DeviceError: The header or payload exceeds its limit.
    """
    text = json.dumps(header, separators=(",", ":")).encode()
    for part, size, limit in (("header", len(text), MAX_HEADER), ("payload", payload_size, MAX_PAYLOAD)):
        if size > limit:
            raise DeviceError(f"a {part} of {size} bytes exceeds the limit of the DirectML host program ({limit}).")
    return PREFIX.pack(len(text), payload_size) + text
