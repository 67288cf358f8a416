"""The client's side of completion slots: src/shared/layout/wire/slots.ts draws them. Two files of 64-byte lines, the
client's words (we write) and the Manager's words (mapped read-only).

Python has no atomics. An aligned item of a memoryview cast to 'Q' is one load or one store on CPython for x86-64 and
arm64; the order of loads is not promised on arm64, so a terminal line is believed only when word, payload and CRC32
agree over a second read of the word. Word and payload are tied together by the op id, which the CRC covers: a payload
that was loaded before the word could be the whole one of an earlier generation. Each word has one writer, so no
compare-and-swap is needed.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from dataclasses import dataclass

from .errors import ProtocolError
from .memory import is_size_sealed

LINE_BYTES = 64
STATES = 1 << 16
FREE, SUBMITTED, RUNNING, DONE, FAILED, CANCELLED = range(6)
TERMINAL = frozenset((DONE, FAILED, CANCELLED))
NONE_FAILED = 0xFFFFFFFF

_WORDS = LINE_BYTES // 8
_PAYLOAD = struct.Struct("<QIIQQQQ")
_CRC = struct.Struct("<I")
_READS_MAX = 8


@dataclass(frozen=True)
class SlotEnd:
    """How an operation ended. Times are of the Manager's monotonic clock, in nanoseconds."""

    state: int
    error_code: int
    first_failed: int | None
    bytes: int
    admit_ns: int
    done_ns: int
    layers: int


def _map(fd: int, count: int, protection: int) -> mmap.mmap:
    size = count * LINE_BYTES
    if not is_size_sealed(fd) or os.fstat(fd).st_size < size:
        raise ProtocolError("memory_not_sealed", f"Cannot map {count} slots: not sealed memory of that size")
    return mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=protection)


class SlotLines:
    """Maps both files; the descriptors stay the caller's. Close it after the last operation has ended."""

    def __init__(self, client_fd: int, manager_fd: int, count: int) -> None:
        self.count = count
        self._client_map = _map(client_fd, count, mmap.PROT_READ | mmap.PROT_WRITE)
        try:
            self._manager_map = _map(manager_fd, count, mmap.PROT_READ)
        except BaseException:
            self._client_map.close()
            raise
        self._op_ids = [0] * count
        self._client = memoryview(self._client_map).cast("Q")
        self._manager = memoryview(self._manager_map).cast("Q")

    def submit(self, slot: int, generation: int, op_id: int) -> None:
        """Op id and a lowered fence first, then the word. No generation of a slot has the op id of the one before."""
        at = slot * _WORDS
        self._op_ids[slot] = op_id
        self._client[at + 1] = op_id
        self._client[at + 2] = 0
        self._client[at] = generation * STATES + SUBMITTED

    def raise_fence(self, slot: int, fence: int) -> None:
        self._client[slot * _WORDS + 2] = fence

    def free(self, slot: int, generation: int) -> None:
        self._client[slot * _WORDS] = generation * STATES + FREE

    def poll(self, slot: int, generation: int) -> SlotEnd | None:
        """The end of that generation, or None while it has not come or is not readable yet."""
        at = slot * _WORDS
        for _ in range(_READS_MAX):
            word = self._manager[at]
            if word // STATES != generation or word % STATES not in TERMINAL:
                return None
            line = self._manager[at + 1 : at + _WORDS].tobytes()
            if self._manager[at] == word and _CRC.unpack_from(line, 48)[0] == zlib.crc32(line[:48]):
                op_id, error_code, first_failed, moved, admit_ns, done_ns, layers = _PAYLOAD.unpack_from(line)
                if op_id != self._op_ids[slot]:
                    continue
                failed = None if first_failed == NONE_FAILED else first_failed
                return SlotEnd(word % STATES, error_code, failed, moved, admit_ns, done_ns, layers)
        return None

    def close(self) -> None:
        """Views go before their maps: a map with views refuses to close."""
        self._client.release()
        self._manager.release()
        self._client_map.close()
        self._manager_map.close()
