"""What a session asks of the directory: queries, preparations, hints, and the leases and tickets they give."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import CancelledError, ClosedError
from .exchange import Deadline, Exchange

DEFAULT_TIMEOUT_S = 5.0
# Between polls of a query that loads: doubles from the first to the last.
_POLL_FIRST_S = 0.001
_POLL_LAST_S = 0.008


@dataclass(frozen=True)
class QueryGroup:
    """``keys``: 32 bytes each, of consecutive blocks from block ``first_block`` of the request on."""

    group: int
    keys: bytes
    first_block: int = 0


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


class Queries:
    """The half of Client that owns no pages. What is granted to a caller that has left goes back to the Manager."""

    _exchange: Exchange

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


def _group_fields(groups: Sequence[QueryGroup]) -> list[dict]:
    return [{"group": each.group, "firstBlock": each.first_block, "keys": each.keys} for each in groups]


def _prepared(reply: dict) -> Prepared:
    return Prepared(
        reply["ticket"], reply["blocks"], reply["blocksReady"], reply["loading"], reply["expiresInMs"]
    )
