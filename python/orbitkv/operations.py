"""Restores and publications between their submission and their end. Owns the slot lines of one session. A line, and
with it the pages it names, is given back for three reasons only: the Manager's word reached a terminal state, the
Manager refused the request, or the Manager's process has ended. No time-out and no closed socket is among them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from .errors import CapacityError, ClosedError, OrbitError, ProtocolError, error_code_name, error_of
from .exchange import Exchange, error_of_reply
from .slots import CANCELLED, DONE, SlotEnd, SlotLines
from .wire.messages import SLOT_GENERATION_MAX


@dataclass(frozen=True)
class OperationResult:
    """What a finished operation moved, and when by the Manager's monotonic clock."""

    bytes: int
    admit_ns: int
    done_ns: int
    layers: int


@dataclass(frozen=True)
class PublishCounts:
    """How the items of a publication were taken."""

    accepted: int
    present: int
    assembling: int
    skipped: int


class Operation:
    """One restore or publication. Until ``ended``, its pages belong to the Manager."""

    def __init__(self, operations: Operations, slot: int, generation: int) -> None:
        self._operations = operations
        self.slot = slot
        self.generation = generation
        self._reply: dict | None = None
        self._outcome: OperationResult | OrbitError | None = None

    @property
    def ended(self) -> bool:
        """Looks once; never waits."""
        self._operations.exchange.turn(0)
        return self._outcome is not None

    def wait(self, timeout_s: float | None = None) -> OperationResult:
        """Waits for the end. Raises the typed error of a failed operation. CancelledError timed_out means that the
        operation still runs and still owns its pages: cancel() it and wait again."""
        exchange = self._operations.exchange
        exchange.wait_for(lambda: self._outcome is not None, timeout_s, "an operation", needs_stream=False)
        outcome = self._outcome
        if isinstance(outcome, OperationResult):
            return outcome
        assert outcome is not None
        raise outcome

    def cancel(self) -> None:
        """Takes the interest back. The operation still ends by itself, cancelled or done; idempotent."""
        if self._outcome is None:
            self._operations.cancel(self)

    def raise_fence(self) -> None:
        """Of an operation submitted ``fenced``: its pages may be touched from now on."""
        self._operations.raise_fence(self)

    @property
    def counts(self) -> PublishCounts:
        """Of a publication, after its end. ClosedError: the stream ended before the Manager told."""
        exchange = self._operations.exchange
        exchange.wait_for(lambda: self._reply is not None, None, "an acknowledgement")
        reply = self._reply
        assert reply is not None
        return PublishCounts(reply["accepted"], reply["present"], reply["assembling"], reply["skipped"])


class Operations:
    """The lines of one session. Takes the three descriptors that REGISTERED brought."""

    def __init__(self, exchange: Exchange, fds: list[int], count: int) -> None:
        self.exchange = exchange
        client_fd, manager_fd, self._hint_fd = fds
        try:
            self._lines = SlotLines(client_fd, manager_fd, count)
        except BaseException:
            os.close(self._hint_fd)
            raise
        finally:
            os.close(client_fd)
            os.close(manager_fd)
        self._free = list(range(count - 1, -1, -1))
        self._generations = [0] * count
        self._running: dict[int, Operation] = {}
        exchange.hint_fd = self._hint_fd

    @property
    def outstanding(self) -> int:
        return len(self._running)

    def submit(self, kind: str, fields: dict, fenced: bool) -> Operation:
        """Takes a line with a new generation, marks it submitted and sends the request."""
        self.exchange.check()
        with self.exchange.lock:
            if not self._free:
                raise CapacityError(
                    "capacity_slots", f"Cannot {kind}: all {len(self._generations)} completion slots are in use"
                )
            slot = self._free.pop()
            self._generations[slot] += 1
            operation = Operation(self, slot, self._generations[slot])
            self._running[slot] = operation
            self._lines.submit(slot, operation.generation, operation.generation)
        message = {
            "kind": kind,
            "slot": slot,
            "generation": operation.generation,
            "fence": 1 if fenced else 0,
            **fields,
        }
        try:
            self.exchange.post(message, lambda reply, fds: self._answered(operation, reply))
        except BaseException as error:
            refused = error if isinstance(error, OrbitError) else ProtocolError("frame_malformed", str(error))
            self._end(operation, refused)
            raise
        return operation

    def _answered(self, operation: Operation, reply: dict) -> None:
        if reply["kind"] == "error":
            self._end(operation, error_of_reply(reply))
        elif reply["kind"] in ("ack", "publishing"):
            operation._reply = reply
        else:
            # Nonsense proves nothing about the pages.
            self.exchange.end(ClosedError("session_closed", f"The Manager answered an operation with {reply['kind']}"))

    def cancel(self, operation: Operation) -> None:
        message = {"kind": "cancel", "slot": operation.slot, "generation": operation.generation}
        try:
            self.exchange.post(message, lambda reply, fds: None)
        except ClosedError:
            pass  # The Manager drains a session whose stream ended by itself.

    def raise_fence(self, operation: Operation) -> None:
        with self.exchange.lock:
            if self._running.get(operation.slot) is operation:
                self._lines.raise_fence(operation.slot, 1)

    def look(self) -> None:
        """Settles what has ended. Under the exchange's lock."""
        for operation in list(self._running.values()):
            end = self._lines.poll(operation.slot, operation.generation)
            if end is not None:
                self._end(operation, _outcome_of(operation, end))

    def abandon(self, error: ClosedError) -> None:
        """The Manager's process has ended, or it said that the session drained: looks once more, fails the rest."""
        with self.exchange.lock:
            self.look()
            for operation in list(self._running.values()):
                self._end(operation, error)

    def _end(self, operation: Operation, outcome: OperationResult | OrbitError) -> None:
        with self.exchange.lock:
            if self._running.get(operation.slot) is not operation:
                return
            del self._running[operation.slot]
            self._lines.free(operation.slot, operation.generation)
            if operation.generation < SLOT_GENERATION_MAX:
                self._free.append(operation.slot)
            operation._outcome = outcome
            self.exchange.lock.notify_all()

    def close(self) -> None:
        """Nothing may be running."""
        assert not self._running, "slot lines close after their operations"
        self.exchange.hint_fd = -1
        self._lines.close()
        os.close(self._hint_fd)


def _outcome_of(operation: Operation, end: SlotEnd) -> OperationResult | OrbitError:
    if end.state == DONE:
        return OperationResult(end.bytes, end.admit_ns, end.done_ns, end.layers)
    values = {"slot": operation.slot, "bytes": end.bytes, "firstFailed": end.first_failed}
    if end.state == CANCELLED:
        return error_of("cancelled", f"Cancelled after {end.bytes} bytes", values)
    code = error_code_name(end.error_code)
    where = "" if end.first_failed is None else f" at item {end.first_failed}"
    return error_of(code, f"Failed{where}: {code} ({end.error_code})", values)
