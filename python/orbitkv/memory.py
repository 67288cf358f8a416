"""Engine pages on the host device: sealed shared memory that REGISTER passes to the Manager."""

from __future__ import annotations

import fcntl
import mmap
import os

_F_ADD_SEALS = 1033
_F_GET_SEALS = 1034
_SEAL_SEAL = 0x1
_SEAL_SHRINK = 0x2
_SEAL_GROW = 0x4


def is_size_sealed(fd: int) -> bool:
    """True when nobody can shrink or grow the memory, so that a mapping of it cannot fault."""
    try:
        seals = fcntl.fcntl(fd, _F_GET_SEALS)
    except OSError:
        return False
    return seals & (_SEAL_SHRINK | _SEAL_GROW) == _SEAL_SHRINK | _SEAL_GROW


class EngineMemory:
    """``size`` bytes of zeros, shared with the Manager once registered. ``view`` is the whole of it. Do not touch
    pages that an operation owns. Closing drops our mapping; the Manager keeps its own until it has drained."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.fd = os.memfd_create("orbitkv-engine", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            fcntl.fcntl(self.fd, _F_ADD_SEALS, _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL)
            self._map = mmap.mmap(self.fd, size)
        except BaseException:
            os.close(self.fd)
            raise
        self.view = memoryview(self._map)

    def close(self) -> None:
        """Idempotent. BufferError: a slice of ``view`` is still held."""
        if self.fd < 0:
            return
        self.view.release()
        self._map.close()
        os.close(self.fd)
        self.fd = -1

    def __enter__(self) -> EngineMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
