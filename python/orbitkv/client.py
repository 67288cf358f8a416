"""A session with a Manager process. Blocking calls, safe from many threads; every wait ends by its ``timeout_s`` (None:
no limit), except that what the Manager may still touch is never given back by a time-out."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .connection import Connection, close_all
from .cuda import DeviceMemory
from .errors import CancelledError, ClosedError, OrbitError, ProtocolError
from .exchange import Deadline, Exchange
from .memory import EngineMemory
from .operations import Operation, OperationResult, Operations, PublishCounts
from .queries import DEFAULT_TIMEOUT_S, Queries
from .registration import Canary, Group, Region, register_message

PROTO_MIN = 1
PROTO_MAX = 2


@dataclass(frozen=True)
class PublishGroup:
    """Key i is in page i. ``layers``: indices into the registered regions, or None for all of them."""

    group: int
    keys: bytes
    pages: Sequence[int]
    layers: Sequence[int] | None = None


class Client(Queries):
    """Use connect(). A context manager: leaving it closes the session."""

    def __init__(self, connection: Connection) -> None:
        self._operations: Operations | None = None
        self._ended = False
        self._exchange = Exchange(connection, self._look)
        self.welcome: dict = {}
        self.registered: dict = {}

    def greet(self, role: str, engine: str, engine_version: str, adapter_version: str, timeout_s: float | None) -> None:
        """First exchange of a connection; connect() does it."""
        hello = {
            "kind": "hello",
            "protoMin": PROTO_MIN,
            "protoMax": PROTO_MAX,
            "role": role,
            "pid": os.getpid(),
            "bootNonce": secrets.randbits(53),
            "engine": engine,
            "engineVersion": engine_version,
            "adapterVersion": adapter_version,
        }
        self.welcome, _ = self._exchange.ask(hello, ("welcome",), timeout_s)

    @property
    def operations_outstanding(self) -> int:
        """Operations that still own pages of the caller."""
        return 0 if self._operations is None else self._operations.outstanding

    def register(
        self,
        *,
        instance_id: bytes,
        namespace_inputs: Mapping[str, bytes],
        memory: Sequence[EngineMemory | DeviceMemory],
        groups: Sequence[Group],
        regions: Sequence[Region],
        canaries: Sequence[Canary] = (),
        tp: tuple[int, int] = (0, 1),
        pp: tuple[int, int] = (0, 1),
        world_size: int = 1,
        page_first: bool = False,
        slot_count: int = 64,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
    ) -> dict:
        """Joins an instance as one rank, ``tp`` and ``pp`` being (rank, size). The memory stays the caller's and must
        outlive unregister(). All of it lies on one device: shared memory, or what cuda.export_tensors() exported. Returns
        the fields of REGISTERED."""
        message = register_message(
            proto=self.welcome["proto"],
            instance_id=instance_id,
            namespace_inputs=namespace_inputs,
            memory=memory,
            groups=groups,
            regions=regions,
            canaries=canaries,
            tp=tp,
            pp=pp,
            world_size=world_size,
            page_first=page_first,
            slot_count=slot_count,
        )
        reply, fds = self._exchange.ask(
            message, ("registered",), timeout_s, [each.fd for each in memory if isinstance(each, EngineMemory)]
        )
        if len(fds) != 3:
            close_all(fds)
            raise ProtocolError("missing_descriptor", f"Cannot open completion slots: {len(fds)} of 3 descriptors came")
        self._operations = Operations(self._exchange, fds, reply["slots"])
        self.registered = reply
        return reply

    def attach(self, instance_id: bytes, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> dict:
        """Speaks for an instance whose workers have begun to register. Returns the fields of ATTACHED."""
        return self._exchange.ask({"kind": "attach", "instanceId": instance_id}, ("attached",), timeout_s)[0]

    def submit_restore(
        self, lease: int, groups: Mapping[int, Sequence[tuple[int, int]]], *, fenced: bool = False
    ) -> Operation:
        """Begins to fill pages: ``groups`` maps a group to (index of the key in the query, page). With ``fenced`` no
        page is touched before Operation.raise_fence(). All or nothing as the engine sees it."""
        fields = {
            "lease": lease,
            "groups": [
                {"group": group, "pairs": [number for pair in pairs for number in pair]}
                for group, pairs in groups.items()
            ],
        }
        return self._registered_operations("restore").submit("restore", fields, fenced)

    def restore(
        self, lease: int, groups: Mapping[int, Sequence[tuple[int, int]]], timeout_s: float | None = None
    ) -> OperationResult:
        """Fills pages and waits. When the time runs out it cancels, and returns or raises at the operation's end."""
        return self._wait_or_cancel(self.submit_restore(lease, groups), timeout_s)

    def submit_publish(
        self, groups: Sequence[PublishGroup], *, partial_ok: bool = False, fenced: bool = False
    ) -> Operation:
        """Begins to save pages under their keys; the first publication of a key wins. ``fenced`` as for restores."""
        fields = {
            "partialOk": partial_ok,
            "groups": [
                {"group": each.group, "layers": each.layers, "items": {"keys": each.keys, "pages": each.pages}}
                for each in groups
            ],
        }
        return self._registered_operations("publish").submit("publish", fields, fenced)

    def publish(
        self, groups: Sequence[PublishGroup], *, partial_ok: bool = False, timeout_s: float | None = None
    ) -> tuple[OperationResult, PublishCounts]:
        """Saves pages and waits; time-outs as in restore()."""
        operation = self.submit_publish(groups, partial_ok=partial_ok)
        return self._wait_or_cancel(operation, timeout_s), operation.counts

    def sync(self, ssd: bool = False, timeout_s: float | None = None) -> None:
        """Waits until what was published before is findable; with ``ssd`` also until its writes ended."""
        self._exchange.ask({"kind": "sync", "ssd": ssd}, ("ack",), timeout_s)

    def drop_dram(self, timeout_s: float | None = None) -> dict[str, float]:
        """Evicts the DRAM replicas that an SSD replica stands behind and nobody holds."""
        return self._numbers({"kind": "drop_dram"}, timeout_s)

    def drain(self, timeout_s: float | None = None) -> None:
        """Stops admission of the whole Manager and waits until nothing is in flight."""
        self._exchange.ask({"kind": "drain"}, ("ack",), timeout_s)

    def inspect(self, what: str, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> dict[str, float]:
        return self._numbers({"kind": "inspect", "what": what}, timeout_s)

    def stats(self, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> dict[str, float]:
        return self._numbers({"kind": "stats"}, timeout_s)

    def ping(self, seq: int, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> int:
        """Returns the Manager's epoch."""
        message = {"kind": "ping", "seq": seq, "slotsOutstanding": self.operations_outstanding}
        return self._exchange.ask(message, ("pong",), timeout_s)[0]["managerEpoch"]

    def unregister(self, timeout_s: float | None = None) -> None:
        """Leaves the instance: returns after everything of this session drained and its memory was unmapped."""
        self._exchange.ask({"kind": "unregister"}, ("ack",), timeout_s)
        with self._exchange.lock:
            if self._operations is None:
                return
            # Drained, so every line in use is terminal; one that is not was never admitted.
            self._operations.abandon(ClosedError("session_closed", "The session left before it was admitted"))
            self._operations.close()
            self._operations = None

    def close(self, timeout_s: float | None = None) -> None:
        """Unregisters when registered, then closes the connection; idempotent. When the time runs out, CancelledError:
        the session stays open with the pages that operations still own. In a child of fork() it does nothing."""
        if self._ended or self._exchange.forked:
            return
        deadline = Deadline(timeout_s)
        if self._operations is not None and self._exchange.closed is None:
            try:
                self.unregister(timeout_s)
            except CancelledError:
                raise
            except OrbitError:
                pass  # It cannot leave in peace: what still runs is waited for below.
        left_s = None if timeout_s is None else deadline.left_ms(1 << 30) / 1000
        self._exchange.wait_for(
            lambda: self.operations_outstanding == 0, left_s, "operations to end", needs_stream=False
        )
        with self._exchange.lock:
            self._ended = True
            self._exchange.end(ClosedError("session_closed", "The client closed its session"))
            if self._operations is not None:
                self._operations.close()
                self._operations = None
        self._exchange.connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _registered_operations(self, what: str) -> Operations:
        self._exchange.check()
        if self._operations is None:
            raise ProtocolError("instance_unknown", f"Cannot {what}: nothing is registered")
        return self._operations

    def _wait_or_cancel(self, operation: Operation, timeout_s: float | None) -> OperationResult:
        try:
            return operation.wait(timeout_s)
        except CancelledError as error:
            if error.code != "timed_out":
                raise
        operation.cancel()
        return operation.wait()

    def _numbers(self, message: dict, timeout_s: float | None) -> dict[str, float]:
        reply, _ = self._exchange.ask(message, ("numbers",), timeout_s)
        return {each["name"]: each["value"] for each in reply["values"]}

    def _look(self) -> None:
        """After every look at the stream, under the exchange's lock: what has ended?"""
        if self._operations is None:
            return
        self._operations.look()
        if self._operations.outstanding and self._exchange.connection.peer_exited():
            self._operations.abandon(ClosedError("manager_gone", "The Manager's process has ended"))


def connect(
    path: str,
    *,
    role: str = "worker",
    engine: str,
    engine_version: str,
    adapter_version: str = "",
    allow_uids: tuple[int, ...] = (),
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
) -> Client:
    """Connects to a Manager and greets it. OSError: nobody listens. ProtocolError: peer_uid_refused, version_mismatch."""
    client = Client(Connection(path, allow_uids))
    try:
        client.greet(role, engine, engine_version, adapter_version, timeout_s)
    except BaseException:
        client.close()
        raise
    return client
