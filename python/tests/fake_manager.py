"""The Manager's end of a session in a thread of this process, or in a child process: real socket, real sealed memory,
real eventfd; answers as a test tells it."""

from __future__ import annotations

import array
import fcntl
import mmap
import os
import queue
import socket
import struct
import tempfile
import threading
import zlib
from collections.abc import Callable

from orbitkv.slots import LINE_BYTES, NONE_FAILED, STATES
from orbitkv.wire.frame import decode_frame, encode_frame

_SEALS = 1 | 2 | 4
_SEAL_FUTURE_WRITE = 0x10


def sealed_memory(size: int, seals: int = _SEALS) -> int:
    fd = os.memfd_create("fake", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, 1033, seals)
    return fd


class FakeManager:
    """``answers[kind]`` makes the reply of a request, or None for none. ``seen`` has every request as it comes."""

    def __init__(self, slots: int = 2) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "manager.sock")
        self.seen: queue.Queue[tuple[int, dict, list[int]]] = queue.Queue()
        self.slots = slots
        self.slot_fds: list[int] = []
        self.answers: dict[str, Callable[[dict], dict | None]] = {
            "hello": lambda _: {
                "kind": "welcome",
                "proto": 1,
                "managerEpoch": 5,
                "limits": {"queriesOutstanding": 8, "keysPerQuery": 100, "slots": slots, "frameBytes": 1 << 20},
                "features": 1,
            },
            "register": lambda _: {
                "kind": "registered",
                "session": 1,
                "sessionGeneration": 2,
                "sealed": True,
                "ranksPresent": 1,
                "storageNamespace": bytes(32),
                "granuleBytesMax": 1 << 20,
                "slots": slots,
            },
            "restore": lambda _: {"kind": "ack"},
            "publish": lambda _: {"kind": "publishing", "accepted": 1, "present": 2, "assembling": 0, "skipped": 0},
            **{kind: lambda _: {"kind": "ack"} for kind in ("release", "cancel", "sync", "unregister")},
        }
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(1)
        self.socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self.socket, _ = self._listener.accept()
            while True:
                word, fds, _, _ = socket.recv_fds(self.socket, 4, 16)
                if len(word) < 4:
                    return
                (length,) = struct.unpack("<I", word)
                frame = b""
                while len(frame) < length:
                    frame += self.socket.recv(length - len(frame))
                request, message = decode_frame(frame)
                self.seen.put((request, message, fds))
                answer = self.answers.get(message["kind"], lambda _: None)(message)
                if answer is not None:
                    self.reply(request, answer)
        except OSError:
            return

    def reply(self, request: int, message: dict, fds: list[int] | None = None) -> None:
        if message["kind"] == "registered" and fds is None:
            fds = self.make_slots()
        assert self.socket is not None
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([encode_frame(request, message)], rights)

    def make_slots(self) -> list[int]:
        size = self.slots * LINE_BYTES
        client, manager = sealed_memory(size), sealed_memory(size, 0)
        self.client_map = mmap.mmap(client, size)
        self.manager_map = mmap.mmap(manager, size)
        fcntl.fcntl(manager, 1033, _SEALS | _SEAL_FUTURE_WRITE)
        self.slot_fds = [client, manager, os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)]
        return self.slot_fds

    def client_line(self, slot: int) -> tuple[int, int, int]:
        return struct.unpack_from("<QQQ", self.client_map, slot * LINE_BYTES)

    def state(self, slot: int, generation: int, state: int) -> None:
        struct.pack_into("<Q", self.manager_map, slot * LINE_BYTES, generation * STATES + state)

    def finish(
        self,
        slot: int,
        generation: int,
        state: int,
        error: int = 0,
        failed: int = NONE_FAILED,
        moved: int = 0,
        hint: bool = True,
        crc_flip: int = 0,
    ) -> None:
        payload = struct.pack("<QIIQQQQ", generation, error, failed, moved, 10, 20, 0)
        payload += struct.pack("<II", zlib.crc32(payload) ^ crc_flip, 0)
        at = slot * LINE_BYTES
        self.manager_map[at + 8 : at + LINE_BYTES] = payload
        self.state(slot, generation, state)
        if hint:
            os.eventfd_write(self.slot_fds[2], 1)

    def next(self, kind: str) -> tuple[int, dict, list[int]]:
        """The next request of a kind; others before it are dropped."""
        while True:
            seen = self.seen.get(timeout=60)
            if seen[1]["kind"] == kind:
                return seen

    def hang_up(self) -> None:
        assert self.socket is not None
        self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in (self._listener, self.socket):
            if end is not None:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # The other side was faster.
        self._thread.join(60)
        self._listener.close()
        if self.socket is not None:
            self.socket.close()
        if self.slot_fds:
            self.client_map.close()
            self.manager_map.close()
        for fd in self.slot_fds:
            os.close(fd)
        self.folder.cleanup()
