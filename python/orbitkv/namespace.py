"""The digest that a client claims for its plain namespace inputs: src/shared/layout/namespace.ts has the layout."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping

_NAMESPACE_VERSION = 3


def _field(tag: bytes, value: bytes) -> bytes:
    return struct.pack("<I", len(tag)) + tag + struct.pack("<I", len(value)) + value


def plain_digest(inputs: Mapping[str, bytes]) -> bytes:
    """SHA-256 over tagged, length-prefixed fields in order of their tags' bytes, with an empty geometry."""
    fields = sorted((tag.encode("utf-8"), value) for tag, value in inputs.items())
    stream = b"orbitkv-namespace" + struct.pack("<II", _NAMESPACE_VERSION, len(fields))
    stream += b"".join(_field(tag, value) for tag, value in fields)
    stream += _field(b"page_first", struct.pack("<Q", 0)) + struct.pack("<II", 0, 0)
    return hashlib.sha256(stream).digest()
