"""Frames to messages and back. A message is a dict: ``kind`` and the fields of the frame table.

    0            4        6        8                  16
    +------------+--------+--------+------------------+----------------+
    | u32 length | u16    | u16    | u64 request      | body, by type  |
    | of the rest| type   | flags 0| number           |                |
    +------------+--------+--------+------------------+----------------+
"""

from __future__ import annotations

import struct

from ..errors import ProtocolError
from .fields import FRAME_BYTES_MAX, WireReader, u64
from .messages import MESSAGES, REPLIES

LENGTH_WORD_BYTES = 4
HEADER_BYTES = 12

_KIND_OF_TYPE = {number: kind for kind, (number, _) in MESSAGES.items()}


def encode_frame(request: int, message: dict) -> bytes:
    """The whole frame, length word first. ValueError: a value has no place on the wire. ProtocolError: too large."""
    number, body = MESSAGES[message["kind"]]
    frame = bytearray(LENGTH_WORD_BYTES)
    frame += struct.pack("<HH", number, 0)
    u64.write(frame, request)
    body.write(frame, message)
    if len(frame) > FRAME_BYTES_MAX:
        raise ProtocolError(
            "frame_too_large",
            f"Cannot write a frame of {len(frame)} bytes, {FRAME_BYTES_MAX} are allowed: split the request",
            {"bytesMax": FRAME_BYTES_MAX},
        )
    struct.pack_into("<I", frame, 0, len(frame) - LENGTH_WORD_BYTES)
    return bytes(frame)


def decode_frame(frame: bytes) -> tuple[int, dict]:
    """Reads a frame without its length word: (request number, message). Raises ProtocolError and nothing else."""
    reader = WireReader(frame)
    number = reader.number("H")
    flags = reader.number("H")
    if flags:
        raise reader.refuse("flags are reserved and must be 0", flags)
    request = reader.number("Q")
    kind = _KIND_OF_TYPE.get(number)
    if kind is None:
        raise ProtocolError(
            "unknown_message", f"Cannot read a frame of type {number}: no such message", {"type": number}
        )
    reader.message = kind
    message = {"kind": kind, **MESSAGES[kind][1].read(reader)}
    reader.field = "end"
    if reader.remaining_bytes:
        raise reader.refuse(f"{reader.remaining_bytes} bytes left over", reader.remaining_bytes)
    return request, message


def decode_reply(frame: bytes) -> tuple[int, dict]:
    """As decode_frame, for a client: requests are refused."""
    request, message = decode_frame(frame)
    if message["kind"] not in REPLIES:
        kind = message["kind"]
        raise ProtocolError("unknown_message", f"Cannot take {kind} from this side: the client never receives it")
    return request, message
