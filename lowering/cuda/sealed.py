"""A payload with its length and hash in front, so that a damaged or cut file is noticed.

It keeps accidents out, not people: whoever can write the file can write the hash too. Files are
taken only where nobody else can write them (:func:`lowering.ground.files.distrust`).

Layout: magic (16 bytes), length of the payload (8 bytes), its SHA-256 (32 bytes), the payload. A
payload with a header: the header's length (4 bytes), the header in JSON, what follows.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

__all__ = ["NONSENSE", "seal", "sealed_payload", "split_header", "with_header"]

_HEAD = struct.Struct("<16sQ32s")
_SIZE = struct.Struct("<I")

NONSENSE = KeyError, TypeError, ValueError, OverflowError, RecursionError, struct.error
"""What reading a header raises that somebody else wrote."""


def seal(magic: bytes, payload: bytes) -> bytes:
    """The bytes of a file of the kind that ``magic`` names, 16 bytes."""
    return _HEAD.pack(magic, len(payload), hashlib.sha256(payload).digest()) + payload


def sealed_payload(magic: bytes, data: bytes) -> bytes | None:
    """The payload of a file, None if it is of another kind or not whole."""
    if len(data) < _HEAD.size:
        return None
    kind, length, digest = _HEAD.unpack_from(data)
    payload = data[_HEAD.size :]
    if kind != magic or length != len(payload) or hashlib.sha256(payload).digest() != digest:
        return None
    return payload


def with_header(header: dict[str, Any], rest: bytes) -> bytes:
    """A payload of a header, which JSON can hold, and bytes."""
    text = json.dumps(header).encode()
    return _SIZE.pack(len(text)) + text + rest


def split_header(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the bytes of a payload."""
    (size,) = _SIZE.unpack_from(payload)
    end = _SIZE.size + size
    return json.loads(payload[_SIZE.size : end]), payload[end:]
