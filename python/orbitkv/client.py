"""A session with a Manager process. Blocking calls, safe from many threads; every wait ends by its ``timeout_s`` (None:
no limit), except that what the Manager may still touch is never given back by a time-out."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .connection import Connection, close_all
from .cuda import DeviceMemory
from .errors import CancelledError, ClosedError, OrbitError, ProtocolError
from .exchange import Deadline, Exchange
from .memory import EngineMemory
from .namespace import plain_digest
from .operations import Operation, OperationResult, Operations, PublishCounts

PROTO_MIN = 1
PROTO_MAX = 2
PROTO_DEVICE_MEMORY = 2
DEFAULT_TIMEOUT_S = 5.0
# Between polls of a query that loads: doubles from the first to the last.
_POLL_FIRST_S = 0.001
_POLL_LAST_S = 0.008


@dataclass(frozen=True)
class Group:
    """What an engine says about one storage group."""

    id: int
    block_tokens: int
    kind: str = "full-attention"
    window: int = 0


@dataclass(frozen=True)
class Region:
    """One layer of this rank. address(page p, segment s) = allocation base + offset_bytes + p * page_stride_bytes +
    s * segment_stride_bytes. All sizes in bytes; ``allocation`` indexes the memory that is registered with it."""

    layer: str
    group: int
    allocation: int
    offset_bytes: int
    page_count: int
    page_stride_bytes: int
    segment_bytes: int
    segments: int = 1
    segment_stride_bytes: int | None = None
    dtype: str = "bfloat16"
    kv_role: str = "packed"
    head_dim: int = 0
    heads: int = 0


@dataclass(frozen=True)
class Canary:
    """What the Manager must find where it maps a region: the first min(64, segment_bytes) bytes of its first and of
    its last page, zero-filled to 64."""

    region: int
    first_page: bytes
    last_page: bytes


@dataclass(frozen=True)
class QueryGroup:
    """``keys``: 32 bytes each, of consecutive blocks from block ``first_block`` of the request on."""

    group: int
    keys: bytes
    first_block: int = 0


@dataclass(frozen=True)
class PublishGroup:
    """Key i is in page i. ``layers``: indices into the registered regions, or None for all of them."""

    group: int
    keys: bytes
    pages: Sequence[int]
    layers: Sequence[int] | None = None


@dataclass(frozen=True)
class Ready:
    """``boundaries``: lengths in tokens from the start of the request at which it may be resumed with what the lease
    holds, rising; the lease holds what the last of them needs. ``other_boundaries``: smaller ones that need blocks
    outside the lease; to use one, query again without the keys behind it."""

    boundaries: tuple[int, ...]
    lease: int
    blocks_dram: int
    blocks_ssd: int
    expires_in_ms: int
    other_boundaries: tuple[int, ...] = ()


@dataclass(frozen=True)
class Loading:
    """Bytes are on their way: poll the ticket."""

    ticket: int


@dataclass(frozen=True)
class Miss:
    """Nothing usable."""


@dataclass(frozen=True)
class Busy:
    """Over budget now: treat as a miss or ask again in a later step."""


@dataclass(frozen=True)
class Prepared:
    """A preparation: holds ``blocks``, of which ``blocks_ready`` are in DRAM. It ends ``expires_in_ms`` after the last
    poll unless it is claimed."""

    ticket: int
    blocks: int
    blocks_ready: int
    loading: bool
    expires_in_ms: int


@dataclass(frozen=True)
class Warming:
    """A hint that was taken: blocks that will be read, that were in DRAM, and that the budget does not cover."""

    accepted: int
    resident: int
    skipped: int


QueryAnswer = Ready | Loading | Miss | Busy
_QUERY_REPLIES = ("ready", "loading", "miss", "busy")


class Client:
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
        device = self._device_of(memory)
        message = {
            "kind": "register",
            "instanceId": instance_id,
            "namespaceInputs": [{"tag": tag, "value": value} for tag, value in namespace_inputs.items()],
            "claimedDigest": plain_digest(namespace_inputs),
            "tpRank": tp[0],
            "tpSize": tp[1],
            "ppRank": pp[0],
            "ppSize": pp[1],
            "worldSize": world_size,
            "pageFirst": page_first,
            "device": device,
            "allocations": [_allocation_fields(each) for each in memory],
            "groups": [
                {"id": each.id, "kind": each.kind, "blockTokens": each.block_tokens, "window": each.window}
                for each in groups
            ],
            "regions": [_region_fields(each) for each in regions],
            "canaries": [
                {"region": each.region, "firstPage": each.first_page, "lastPage": each.last_page} for each in canaries
            ],
            "slotCount": slot_count,
        }
        reply, fds = self._exchange.ask(
            message, ("registered",), timeout_s, [each.fd for each in memory if isinstance(each, EngineMemory)]
        )
        if len(fds) != 3:
            close_all(fds)
            raise ProtocolError("missing_descriptor", f"Cannot open completion slots: {len(fds)} of 3 descriptors came")
        self._operations = Operations(self._exchange, fds, reply["slots"])
        self.registered = reply
        return reply

    def _device_of(self, memory: Sequence[EngineMemory | DeviceMemory]) -> dict:
        uuids = {each.uuid if isinstance(each, DeviceMemory) else None for each in memory}
        if len(uuids) > 1:
            raise ProtocolError("device_unsupported", "Cannot register memory of several devices as one rank")
        uuid = next(iter(uuids), None)
        if uuid is None:
            return {"kind": "host", "uuid": bytes(16)}
        if self.welcome["proto"] < PROTO_DEVICE_MEMORY:
            raise ProtocolError(
                "device_unsupported",
                f"Cannot register device memory: the Manager speaks protocol {self.welcome['proto']}, "
                f"{PROTO_DEVICE_MEMORY} is needed",
            )
        return {"kind": "cuda", "uuid": uuid}

    def attach(self, instance_id: bytes, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> dict:
        """Speaks for an instance whose workers have begun to register. Returns the fields of ATTACHED."""
        return self._exchange.ask({"kind": "attach", "instanceId": instance_id}, ("attached",), timeout_s)[0]

    def begin_query(
        self,
        request_id: int,
        groups: Sequence[QueryGroup],
        *,
        revision: int = 0,
        allow_ssd: bool = True,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
    ) -> QueryAnswer:
        """Asks once and waits for no device: a scheduler keeps the ticket of Loading for its next step."""
        message = {
            "kind": "query",
            "requestId": request_id,
            "revision": revision,
            "allowSsd": allow_ssd,
            "groups": _group_fields(groups),
        }
        return self._answer(message, timeout_s)

    def poll_query(self, ticket: int, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> QueryAnswer:
        """Asks again for a ticket. Any answer but Loading spends it."""
        return self._answer({"kind": "query_poll", "ticket": ticket}, timeout_s)

    def query(
        self,
        request_id: int,
        groups: Sequence[QueryGroup],
        *,
        revision: int = 0,
        allow_ssd: bool = True,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
    ) -> Ready | Miss | Busy:
        """Asks until the answer is not Loading. When the time runs out, the ticket goes back and CancelledError says
        so."""
        deadline = Deadline(timeout_s)
        answer = self.begin_query(
            request_id, groups, revision=revision, allow_ssd=allow_ssd, timeout_s=timeout_s
        )
        return self._until_answered(answer, deadline, timeout_s)

    def _until_answered(self, answer: QueryAnswer, deadline: Deadline, timeout_s: float | None) -> Ready | Miss | Busy:
        pause_s = _POLL_FIRST_S
        while isinstance(answer, Loading):
            ticket = answer.ticket
            try:
                if deadline.passed:
                    raise CancelledError("timed_out", f"Waited {timeout_s} s for a query in vain")
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _POLL_LAST_S)
                answer = self.poll_query(ticket, None if timeout_s is None else deadline.left_ms(1 << 30) / 1000)
            except CancelledError:
                self._hand_back({"kind": "loading", "ticket": ticket})
                raise
        return answer

    def prepare(
        self,
        request_id: int,
        groups: Sequence[QueryGroup],
        *,
        revision: int = 0,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
    ) -> Prepared | Miss | Busy:
        """Reads the blocks of a coming request into DRAM and holds them. Poll it, or call this again, at least once in
        the time that ``expires_in_ms`` says; then claim it with the same groups, or release the ticket."""
        message = {
            "kind": "prepare",
            "requestId": request_id,
            "revision": revision,
            "groups": _group_fields(groups),
        }
        reply, _ = self._exchange.ask(message, ("prepared", "miss", "busy"), timeout_s, abandoned=self._hand_back)
        if reply["kind"] == "prepared":
            return _prepared(reply)
        return Miss() if reply["kind"] == "miss" else Busy()

    def poll_preparation(self, ticket: int, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> Prepared:
        """How far a preparation is; keeps it alive. ProtocolError ticket_unknown once it has ended."""
        reply, _ = self._exchange.ask({"kind": "prepare_poll", "ticket": ticket}, ("prepared",), timeout_s)
        return _prepared(reply)

    def begin_claim(
        self,
        ticket: int,
        request_id: int,
        groups: Sequence[QueryGroup],
        *,
        revision: int = 0,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
    ) -> QueryAnswer:
        """Turns a preparation into the query of a request; answered and polled as begin_query is. ProtocolError
        ticket_unknown when it has ended, ticket_mismatch for other keys: then query as usual."""
        message = {
            "kind": "claim",
            "ticket": ticket,
            "requestId": request_id,
            "revision": revision,
            "groups": _group_fields(groups),
        }
        return self._answer(message, timeout_s)

    def claim(
        self,
        ticket: int,
        request_id: int,
        groups: Sequence[QueryGroup],
        *,
        revision: int = 0,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
    ) -> Ready | Miss | Busy:
        """As begin_claim, until the answer is not Loading."""
        deadline = Deadline(timeout_s)
        answer = self.begin_claim(ticket, request_id, groups, revision=revision, timeout_s=timeout_s)
        return self._until_answered(answer, deadline, timeout_s)

    def warm(self, groups: Sequence[QueryGroup], timeout_s: float | None = DEFAULT_TIMEOUT_S) -> Warming | Busy:
        """Hints that blocks may be of use soon. Nothing is held for the session and nothing is promised."""
        message = {"kind": "warm", "groups": _group_fields(groups)}
        reply, _ = self._exchange.ask(message, ("warming", "busy"), timeout_s)
        if reply["kind"] == "busy":
            return Busy()
        return Warming(reply["accepted"], reply["resident"], reply["skipped"])

    def release_lease(self, lease: int, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> None:
        """Ends a lease; idempotent."""
        self._exchange.ask({"kind": "release", "what": "lease", "id": lease}, ("ack",), timeout_s)

    def release_ticket(self, ticket: int, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> None:
        """Gives up a query that loads; idempotent."""
        self._exchange.ask({"kind": "release", "what": "ticket", "id": ticket}, ("ack",), timeout_s)

    def renew(self, lease: int, extend_ms: int, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> int:
        """Returns how long the lease now lasts, in milliseconds."""
        message = {"kind": "renew", "lease": lease, "extendMs": extend_ms}
        return self._exchange.ask(message, ("renewed",), timeout_s)[0]["expiresInMs"]

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

    def _answer(self, message: dict, timeout_s: float | None) -> QueryAnswer:
        reply, _ = self._exchange.ask(message, _QUERY_REPLIES, timeout_s, abandoned=self._hand_back)
        if reply["kind"] == "ready":
            return Ready(
                tuple(reply["boundaries"]),
                reply["lease"],
                reply["blocksDram"],
                reply["blocksSsd"],
                reply["expiresInMs"],
                tuple(reply["otherBoundaries"]),
            )
        if reply["kind"] == "loading":
            return Loading(reply["ticket"])
        return Miss() if reply["kind"] == "miss" else Busy()

    def _hand_back(self, reply: dict) -> None:
        """What an abandoned query was granted goes back; if the stream ended, it went back with the session."""
        if reply["kind"] not in ("ready", "loading", "prepared"):
            return
        what = "lease" if reply["kind"] == "ready" else "ticket"
        message = {"kind": "release", "what": what, "id": reply["lease" if what == "lease" else "ticket"]}
        try:
            self._exchange.post(message, lambda _reply, _fds: None)
        except ClosedError:
            pass

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


def _group_fields(groups: Sequence[QueryGroup]) -> list[dict]:
    return [{"group": each.group, "firstBlock": each.first_block, "keys": each.keys} for each in groups]


def _prepared(reply: dict) -> Prepared:
    return Prepared(
        reply["ticket"], reply["blocks"], reply["blocksReady"], reply["loading"], reply["expiresInMs"]
    )


def _allocation_fields(memory: EngineMemory | DeviceMemory) -> dict:
    if isinstance(memory, EngineMemory):
        return {"kind": "host_fd", "bytes": memory.size}
    return {"kind": "cuda_ipc", "handle": memory.handle, "offsetBytes": memory.offset, "bytes": memory.size}


def _region_fields(region: Region) -> dict:
    stride = region.segment_bytes if region.segment_stride_bytes is None else region.segment_stride_bytes
    return {
        "layer": region.layer,
        "group": region.group,
        "allocation": region.allocation,
        "offsetBytes": region.offset_bytes,
        "pageCount": region.page_count,
        "pageStrideBytes": region.page_stride_bytes,
        "segments": region.segments,
        "segmentBytes": region.segment_bytes,
        "segmentStrideBytes": stride,
        "dtype": region.dtype,
        "kvRole": region.kv_role,
        "headDim": region.head_dim,
        "heads": region.heads,
    }


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
