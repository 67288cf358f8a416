"""One stream to the Manager: frames with descriptors, and whether its process still lives. Not thread-safe: the
session above lets one thread at a time read, and one write."""

from __future__ import annotations

import array
import os
import select
import socket
import struct

from .errors import CapacityError, ClosedError, ProtocolError
from .wire.fields import FRAME_BYTES_MAX
from .wire.frame import HEADER_BYTES, LENGTH_WORD_BYTES, decode_reply

_DESCRIPTORS_MAX = 64
_CREDENTIALS = struct.Struct("3i")


def close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


class Connection:
    """Connects and checks who listens. OSError: nobody listens. ProtocolError peer_uid_refused: another user does."""

    def __init__(self, path: str, allow_uids: tuple[int, ...] = ()) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._pidfd = -1
        self._received = bytearray()
        self._fds: list[int] = []
        self._ended = False
        try:
            self._socket.connect(path)
            self._socket.setblocking(False)
            raw = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            self.peer_pid, self.peer_uid, _ = _CREDENTIALS.unpack(raw)
            if self.peer_uid not in (os.getuid(), *allow_uids):
                raise ProtocolError(
                    "peer_uid_refused",
                    f"Cannot trust {path}: user {self.peer_uid} listens there",
                    {"uid": self.peer_uid},
                )
            self._pidfd = _open_pidfd(self.peer_pid)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def ended(self) -> bool:
        """The stream has ended. The Manager's process may live on and still write into our pages."""
        return self._ended

    def peer_exited(self) -> bool:
        """True when the Manager's process has ended, and every copy of it with it. Never true when it cannot be
        watched (another pid namespace): what it may still write is then never given back."""
        if self._pidfd < 0:
            return False
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(0))

    def watch(self, poller: select.poll) -> None:
        """Registers what can change: the stream while it is open, and the process."""
        if not self._ended:
            poller.register(self._socket.fileno(), select.POLLIN)
        if self._pidfd >= 0:
            poller.register(self._pidfd, select.POLLIN)

    def send(self, frame: bytes, fds: list[int], timeout_ms: int) -> None:
        """Sends one whole frame, its descriptors on the first byte. CapacityError capacity_queue: not one byte was
        taken in time. ClosedError: the stream has ended, and so it does when the Manager stops in mid-frame."""
        sent = 0
        poller = select.poll()
        poller.register(self._socket.fileno(), select.POLLOUT)
        while sent < len(frame):
            try:
                if sent == 0 and fds:
                    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
                    sent = self._socket.sendmsg([frame], rights, socket.MSG_NOSIGNAL)
                else:
                    sent += self._socket.send(memoryview(frame)[sent:], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                if poller.poll(timeout_ms):
                    continue
                if sent == 0:
                    raise CapacityError("capacity_queue", "Cannot send: the Manager does not read") from None
                self._ended = True
                raise ClosedError("session_closed", "The Manager stopped reading in the middle of a frame") from None
            except OSError as error:
                self._ended = True
                raise ClosedError("manager_gone", "The Manager has gone: its connection ended") from error

    def receive(self) -> tuple[int, dict, list[int]] | None:
        """One reply that has come: (request number, message, descriptors, which are the caller's); None when there is
        none yet or the stream has ended. ProtocolError: the Manager broke the protocol, and the stream has ended."""
        try:
            frame = self._next_frame()
            if frame is None:
                return None
            request, message = decode_reply(frame)
        except BaseException:
            self._ended = True
            close_all(self._fds)
            self._fds = []
            raise
        fds, self._fds = self._fds, []
        return request, message, fds

    def _next_frame(self) -> bytes | None:
        """Never reads beyond a frame, so that descriptors belong to the frame being read."""
        if not self._fill(LENGTH_WORD_BYTES):
            return None
        (length,) = struct.unpack_from("<I", self._received)
        if not HEADER_BYTES <= length <= FRAME_BYTES_MAX - LENGTH_WORD_BYTES:
            raise ProtocolError("frame_malformed", f"Cannot take a frame of {length} bytes", {"bytes": length})
        if not self._fill(LENGTH_WORD_BYTES + length):
            return None
        frame = bytes(self._received[LENGTH_WORD_BYTES:])
        self._received.clear()
        return frame

    def _fill(self, wanted: int) -> bool:
        while len(self._received) < wanted and not self._ended:
            try:
                piece, fds, flags, _ = socket.recv_fds(
                    self._socket, wanted - len(self._received), _DESCRIPTORS_MAX, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return False
            except OSError:
                self._ended = True
                return False
            self._fds += fds
            if flags & socket.MSG_CTRUNC:
                raise ProtocolError("missing_descriptor", "Cannot take a frame: descriptors were lost on the way")
            if not piece:
                self._ended = True
                return False
            self._received += piece
        return len(self._received) >= wanted

    def close(self) -> None:
        self._ended = True
        close_all(self._fds)
        self._fds = []
        self._socket.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def _open_pidfd(pid: int) -> int:
    if pid <= 0:
        return -1
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise ClosedError("manager_gone", f"The Manager, process {pid}, has gone") from None
