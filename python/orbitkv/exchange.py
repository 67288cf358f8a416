"""Requests and their replies over one connection, for many threads: whoever waits reads for all, one at a time.

A request whose caller left keeps its place until its reply comes; the reply goes to ``abandoned``, which hands back
what it granted, so that nothing is leased that nobody knows of.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

from .connection import Connection, close_all
from .errors import CancelledError, CapacityError, ClosedError, OrbitError, ProtocolError, error_code_name, error_of
from .wire.frame import encode_frame

# Longest sleep between two looks at the slots: the eventfd is a hint, slots are the truth.
LOOK_AGAIN_MS = 50
# Requests without a reply at once: bounds the table.
REQUESTS_OUTSTANDING_MAX = 4096
# How long a frame may wait for room in the stream's buffer.
SEND_WAIT_MS = 1000

Reply = tuple[dict, list[int]]


def error_of_reply(message: dict) -> OrbitError:
    values = {each["name"]: each["value"] for each in message["values"]}
    return error_of(error_code_name(message["code"]), message["message"], values)


class Deadline:
    """A point in time, or never."""

    def __init__(self, timeout_s: float | None) -> None:
        self._end = None if timeout_s is None else time.monotonic() + timeout_s

    def left_ms(self, at_most: int) -> int:
        """Milliseconds left, rounded up, so that a wait of it does not spin at the end."""
        if self._end is None:
            return at_most
        return max(0, min(at_most, int((self._end - time.monotonic()) * 1000) + 1))

    @property
    def passed(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


class Exchange:
    """Owns the connection. ``look`` is called, under the lock, after every look at the stream."""

    def __init__(self, connection: Connection, look: Callable[[], None]) -> None:
        self.connection = connection
        self.lock = threading.Condition(threading.RLock())
        self.closed: Exception | None = None
        # An eventfd that hints at ended operations, once there is one.
        self.hint_fd = -1
        self._look = look
        self._process = os.getpid()
        self._reading = False
        self._last_request = 0
        self._takers: dict[int, Callable[[dict, list[int]], None]] = {}
        self._send_lock = threading.Lock()

    @property
    def forked(self) -> bool:
        """This process is a child of the one that opened the session."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """A child of fork() must not use its parent's socket, slots or locks. Raises ClosedError."""
        if self.forked:
            raise ClosedError("session_closed", "Cannot use a session in a child of the process that opened it")

    def check(self) -> None:
        """Raises ClosedError in a child, and after the end."""
        self.check_process()
        if self.closed is not None:
            raise self.closed

    def post(
        self, message: dict, taker: Callable[[dict, list[int]], None], fds: list[int] | None = None
    ) -> int:
        """Sends a request; ``taker`` gets its reply, under the lock, in whichever thread reads it. Raises when nothing
        was sent."""
        self.check()
        with self.lock:
            if len(self._takers) >= REQUESTS_OUTSTANDING_MAX:
                raise CapacityError("capacity_queue", f"Cannot send {message['kind']}: {len(self._takers)} wait")
            self._last_request += 1
            request = self._last_request
            frame = encode_frame(request, message)
            self._takers[request] = taker
        # A frame that failed to go out whole cannot have been admitted: after any error here nothing was asked.
        try:
            with self._send_lock:
                self.connection.send(frame, fds or [], SEND_WAIT_MS)
        except BaseException:
            with self.lock:
                self._takers.pop(request, None)
                if self.connection.ended:
                    self._end_stream()
            raise
        return request

    def ask(
        self,
        message: dict,
        kinds: tuple[str, ...],
        timeout_s: float | None,
        fds: list[int] | None = None,
        abandoned: Callable[[dict], None] | None = None,
    ) -> Reply:
        """Sends and waits for one of ``kinds``. Raises the typed error of an ERROR reply, CancelledError timed_out,
        ClosedError."""
        box: list[Reply] = []
        left = False

        def take(reply: dict, reply_fds: list[int]) -> None:
            if not left:
                box.append((reply, reply_fds))
                return
            close_all(reply_fds)
            if abandoned is not None:
                abandoned(reply)

        self.post(message, take, fds)
        try:
            self.wait_for(lambda: bool(box), timeout_s, message["kind"])
        except BaseException:
            with self.lock:
                left = True
                if not box:
                    raise
        reply, reply_fds = box[0]
        if reply["kind"] in kinds:
            return reply, reply_fds
        close_all(reply_fds)
        if reply["kind"] == "error":
            raise error_of_reply(reply)
        error = ProtocolError("frame_malformed", f"Cannot take {reply['kind']} as the answer to {message['kind']}")
        self.end(ClosedError("session_closed", str(error)))
        raise error

    def wait_for(
        self, met: Callable[[], bool], timeout_s: float | None, what: str, needs_stream: bool = True
    ) -> None:
        """Reads, or waits for the thread that does, until ``met`` under the lock. ``needs_stream``: give up when no
        reply can come any more; otherwise slots and the Manager's process are watched on."""
        deadline = Deadline(timeout_s)
        self.turn(0)
        while True:
            with self.lock:
                if met():
                    return
                if self.closed is not None and needs_stream:
                    raise self.closed
            if deadline.passed:
                raise CancelledError("timed_out", f"Waited {timeout_s} s for {what} in vain")
            self.turn(deadline.left_ms(LOOK_AGAIN_MS))

    def turn(self, wait_ms: int) -> None:
        """One look at the stream and the slots; sleeps at most ``wait_ms`` for something to change."""
        self.check_process()
        with self.lock:
            if self._reading:
                if wait_ms > 0:
                    self.lock.wait(wait_ms / 1000)
                return
            self._reading = True
        try:
            if wait_ms > 0:
                self._sleep(wait_ms)
            self._read()
        finally:
            with self.lock:
                self._reading = False
                self._look()
                self.lock.notify_all()

    def _sleep(self, wait_ms: int) -> None:
        poller = select.poll()
        self.connection.watch(poller)
        if self.hint_fd >= 0:
            poller.register(self.hint_fd, select.POLLIN)
        for fd, _ in poller.poll(wait_ms):
            if fd == self.hint_fd:
                try:
                    os.read(fd, 8)
                except BlockingIOError:
                    pass

    def _read(self) -> None:
        while not self.connection.ended:
            try:
                received = self.connection.receive()
            except ProtocolError as error:
                self.end(ClosedError("session_closed", f"The Manager broke the protocol: {error}"))
                return
            if received is None:
                break
            request, message, fds = received
            with self.lock:
                taker = self._takers.pop(request, None)
                if taker is not None:
                    taker(message, fds)
                    continue
            close_all(fds)
            if request == 0 and message["kind"] == "error":
                # It answers no request: the Manager takes no session of this peer, or cuts it, and says why.
                self.end(error_of_reply(message))
                return
            self.end(ClosedError("session_closed", f"The Manager answered request {request}, which waits for nothing"))
            return
        if self.connection.ended:
            with self.lock:
                self._end_stream()

    def _end_stream(self) -> None:
        self.end(ClosedError("manager_gone", "The Manager has gone: its connection ended"))

    def end(self, error: Exception) -> None:
        """Nothing is sent or answered any more."""
        with self.lock:
            if self.closed is None:
                self.closed = error
            self._takers.clear()
            self.lock.notify_all()
