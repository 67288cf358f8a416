"""The client against a Manager's end of the session in this process: who owns pages, and until when."""

from __future__ import annotations

import gc
import os
import threading
import unittest

import orbitkv
from orbitkv.errors import ERROR_CODES
from orbitkv.slots import CANCELLED, DONE, FAILED, RUNNING, STATES, SUBMITTED

from .fake_manager import FakeManager, sealed_memory

KEYS = bytes(range(32))
READY = {
    "kind": "ready",
    "boundaries": [16],
    "otherBoundaries": [],
    "lease": 1,
    "blocksDram": 1,
    "blocksSsd": 0,
    "expiresInMs": 1,
}
SOON_S = 0.06  # Longer than one look at the slots.


class Session(unittest.TestCase):
    slots = 1

    def setUp(self) -> None:
        self.fds_before = len(os.listdir("/proc/self/fd"))
        self.manager = FakeManager(self.slots)
        self.client = orbitkv.connect(self.manager.path, engine="test", engine_version="1")
        self.memory = orbitkv.EngineMemory(8192)
        self.addCleanup(self._clean)

    def _clean(self) -> None:
        for slot in range(self.manager.slots if self.manager.slot_fds else 0):
            word = self.manager.client_line(slot)[0]
            if word % STATES == SUBMITTED:
                self.manager.finish(slot, word // STATES, CANCELLED)
        self.client.close(timeout_s=60)
        self.memory.close()
        self.manager.close()
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), self.fds_before, "descriptors are given back")

    def register(self) -> dict:
        return self.client.register(
            instance_id=bytes(16),
            namespace_inputs={"model": b"\1"},
            memory=[self.memory],
            groups=[orbitkv.Group(0, 16)],
            regions=[orbitkv.Region("l0", 0, 0, 0, 2, 4096, 4096)],
        )

    def restore(self, **options: bool) -> orbitkv.Operation:
        return self.client.submit_restore(7, {0: [(0, 1)]}, **options)

    def assert_code(self, code: str, of: type[orbitkv.OrbitError], body) -> orbitkv.OrbitError:
        with self.assertRaises(of) as caught:
            body()
        self.assertEqual(caught.exception.code, code)
        return caught.exception

    def assert_open(self, operation: orbitkv.Operation) -> None:
        self.assert_code("timed_out", orbitkv.CancelledError, lambda: operation.wait(SOON_S))


class Speculation(Session):
    GROUPS = [orbitkv.QueryGroup(0, KEYS, 3)]
    PREPARED = {"kind": "prepared", "ticket": 9, "blocks": 4, "blocksReady": 1, "loading": True, "expiresInMs": 1000}

    def test_a_preparation_is_made_polled_and_claimed(self) -> None:
        self.manager.answers["prepare"] = lambda _: self.PREPARED
        self.manager.answers["prepare_poll"] = lambda _: {**self.PREPARED, "blocksReady": 4, "loading": False}
        prepared = self.client.prepare(5, self.GROUPS, revision=2)
        self.assertEqual(prepared, orbitkv.Prepared(9, 4, 1, True, 1000))
        _, message, _ = self.manager.next("prepare")
        self.assertEqual((message["requestId"], message["revision"]), (5, 2))
        self.assertEqual(message["groups"], [{"group": 0, "firstBlock": 3, "keys": KEYS}])
        self.assertEqual(self.client.poll_preparation(9), orbitkv.Prepared(9, 4, 4, False, 1000))
        self.manager.answers["claim"] = lambda _: {"kind": "loading", "ticket": 9}
        self.manager.answers["query_poll"] = lambda _: READY
        found = self.client.claim(9, 5, self.GROUPS, revision=2)
        self.assertIsInstance(found, orbitkv.Ready)
        _, message, _ = self.manager.next("claim")
        self.assertEqual((message["ticket"], message["requestId"], message["revision"]), (9, 5, 2))

    def test_other_answers_are_what_they_say(self) -> None:
        for kind, of in (("miss", orbitkv.Miss), ("busy", orbitkv.Busy)):
            self.manager.answers["prepare"] = lambda _, kind=kind: {"kind": kind}
            self.assertIsInstance(self.client.prepare(1, self.GROUPS), of)
        self.manager.answers["warm"] = lambda _: {"kind": "warming", "accepted": 1, "resident": 2, "skipped": 3}
        self.assertEqual(self.client.warm(self.GROUPS), orbitkv.Warming(1, 2, 3))
        self.manager.answers["warm"] = lambda _: {"kind": "busy"}
        self.assertEqual(self.client.warm(self.GROUPS), orbitkv.Busy())

    def test_a_claim_of_what_has_ended_says_so(self) -> None:
        code = ERROR_CODES["ticket_unknown"]
        self.manager.answers["claim"] = lambda _: {"kind": "error", "code": code, "message": "gone", "values": []}
        self.assert_code("ticket_unknown", orbitkv.ProtocolError, lambda: self.client.claim(9, 5, self.GROUPS))

    def test_a_preparation_nobody_waited_for_goes_back(self) -> None:
        self.assert_code("timed_out", orbitkv.CancelledError, lambda: self.client.prepare(1, self.GROUPS, timeout_s=SOON_S))
        request, _, _ = self.manager.next("prepare")
        self.manager.reply(request, self.PREPARED)
        self.client.sync()
        _, message, _ = self.manager.next("release")
        self.assertEqual((message["what"], message["id"]), ("ticket", 9))


class Requests(Session):
    def test_a_greeting_says_who_we_are_and_brings_the_limits(self) -> None:
        _, hello, _ = self.manager.next("hello")
        self.assertEqual((hello["role"], hello["pid"], hello["engine"]), ("worker", os.getpid(), "test"))
        self.assertEqual(self.client.welcome["managerEpoch"], 5)

    def test_registering_passes_memory_that_the_manager_shares(self) -> None:
        self.memory.view[4096:4099] = b"abc"
        self.register()
        _, message, fds = self.manager.next("register")
        self.assertEqual(len(fds), 1)
        self.assertEqual(os.pread(fds[0], 3, 4096), b"abc")
        os.close(fds[0])
        self.assertEqual(message["allocations"], [{"kind": "host_fd", "bytes": 8192}])
        self.assertEqual(
            message["claimedDigest"].hex(), "6d0860b8f0a45418519b852edc26444f153fbd5442f87e31f26e8e1992713279"
        )

    def test_slots_that_could_shrink_are_refused(self) -> None:
        bad = [sealed_memory(64, 0), sealed_memory(64, 0), os.eventfd(0)]
        self.manager.answers["register"] = lambda _: None
        registered = {
            "kind": "registered",
            "session": 1,
            "sessionGeneration": 1,
            "sealed": True,
            "ranksPresent": 1,
            "storageNamespace": bytes(32),
            "granuleBytesMax": 1,
            "slots": 1,
        }

        def answer() -> None:
            request, _, fds = self.manager.next("register")
            bad.extend(fds)
            self.manager.reply(request, registered, bad[:3])

        answering = threading.Thread(target=answer)
        answering.start()
        self.assert_code("memory_not_sealed", orbitkv.ProtocolError, self.register)
        answering.join()
        for fd in bad:
            os.close(fd)

    def test_an_error_reply_becomes_the_class_that_says_what_to_do_next(self) -> None:
        values = [{"name": "need", "value": "3"}]
        self.manager.answers["sync"] = lambda _: {"kind": "error", "code": 112, "message": "draining", "values": values}
        error = self.assert_code("draining", orbitkv.ClosedError, self.client.sync)
        self.assertEqual((str(error), error.values), ("draining", {"need": "3"}))

    def test_a_query_polls_until_it_is_not_loading(self) -> None:
        answers = [{"kind": "loading", "ticket": 4}] * 2 + [
            READY | {"boundaries": [32, 64], "otherBoundaries": [16], "lease": 9, "expiresInMs": 100}
        ]
        self.manager.answers["query"] = lambda _: {"kind": "loading", "ticket": 4}
        self.manager.answers["query_poll"] = lambda _: answers.pop(0)
        self.assertEqual(self.client.query(1, [orbitkv.QueryGroup(0, KEYS)]), orbitkv.Ready((32, 64), 9, 1, 0, 100, (16,)))

    def test_a_query_out_of_time_gives_its_ticket_back(self) -> None:
        for kind in ("query", "query_poll"):
            self.manager.answers[kind] = lambda _: {"kind": "loading", "ticket": 4}
        body = lambda: self.client.query(1, [orbitkv.QueryGroup(0, KEYS)], timeout_s=0.03)  # noqa: E731
        self.assert_code("timed_out", orbitkv.CancelledError, body)
        self.client.sync()  # The ticket may have come after the caller had left.
        self.assertEqual(self.manager.next("release")[1], {"kind": "release", "what": "ticket", "id": 4})

    def test_a_lease_that_comes_after_the_caller_left_goes_back(self) -> None:
        body = lambda: self.client.begin_query(1, [orbitkv.QueryGroup(0, KEYS)], timeout_s=0.01)  # noqa: E731
        self.assert_code("timed_out", orbitkv.CancelledError, body)
        request, _, _ = self.manager.next("query")
        self.manager.reply(request, READY | {"lease": 12})
        self.client.sync()
        self.assertEqual(self.manager.next("release")[1], {"kind": "release", "what": "lease", "id": 12})

    def test_many_threads_share_one_session(self) -> None:
        self.manager.answers["ping"] = lambda message: {"kind": "pong", "seq": message["seq"], "managerEpoch": message["seq"]}
        wrong: list[object] = []

        def ask(base: int) -> None:
            for seq in range(base, base + 200):
                if self.client.ping(seq) != seq:
                    wrong.append(seq)

        threads = [threading.Thread(target=ask, args=(1000 * each,)) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_child_of_fork_cannot_use_the_session(self) -> None:
        child = os.fork()
        if child == 0:
            try:
                self.client.ping(1)
            except orbitkv.ClosedError as error:
                self.client.close()
                os._exit(0 if error.code == "session_closed" else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.client.sync()


class Ownership(Session):
    def setUp(self) -> None:
        super().setUp()
        self.register()
        for fd in self.manager.next("register")[2]:
            os.close(fd)

    def freed(self) -> bool:
        return self.manager.client_line(0)[0] % STATES != SUBMITTED

    def test_a_restore_ends_by_its_slot_not_by_its_acknowledgement(self) -> None:
        operation = self.restore()
        self.assertEqual(self.manager.client_line(0)[0], 1 * STATES + SUBMITTED)
        self.assert_open(operation)
        self.assert_code("capacity_slots", orbitkv.CapacityError, self.restore)
        self.assertFalse(self.freed())
        self.manager.finish(0, 1, DONE, moved=4096)
        self.assertEqual(operation.wait(60), orbitkv.OperationResult(4096, 10, 20, 0))
        self.assertTrue(self.freed())

    def test_an_end_without_its_hint_is_found(self) -> None:
        operation = self.restore()
        self.manager.finish(0, 1, DONE, moved=1, hint=False)
        self.assertEqual(operation.wait(60).bytes, 1)

    def test_a_stale_running_or_torn_line_ends_nothing(self) -> None:
        first = self.restore()
        self.manager.finish(0, 1, DONE)
        first.wait(60)
        second = self.restore()
        self.assertEqual(second.generation, 2)
        self.assert_open(second)
        self.manager.state(0, 2, RUNNING)
        self.assert_open(second)
        self.manager.finish(0, 2, DONE, crc_flip=1)
        self.assert_open(second)
        self.manager.finish(0, 2, FAILED, error=ERROR_CODES["checksum_mismatch"], failed=3, moved=512)
        error = self.assert_code("checksum_mismatch", orbitkv.CorruptionError, lambda: second.wait(60))
        self.assertEqual(error.values, {"slot": 0, "bytes": 512, "firstFailed": 3})
        self.assertEqual(str(error), "Failed at item 3: checksum_mismatch (50)")

    def test_an_end_says_its_code_by_name_and_its_number(self) -> None:
        ends = (
            (37, "capacity_codec", orbitkv.CapacityError, "Failed: capacity_codec (37)"),
            (51, "codec_damaged", orbitkv.CorruptionError, "Failed: codec_damaged (51)"),
            (249, "invariant", orbitkv.InvariantError, "Failed: invariant (249)"),
        )
        for generation, (number, name, kind, text) in enumerate(ends, 1):
            operation = self.restore()
            self.manager.finish(0, generation, FAILED, error=number)
            error = self.assert_code(name, kind, lambda: operation.wait(60))
            self.assertEqual(str(error), text)

    def test_a_refused_restore_gives_its_line_back_at_once(self) -> None:
        self.manager.answers["restore"] = lambda _: {"kind": "error", "code": 93, "message": "expired", "values": []}
        operation = self.restore()
        self.assert_code("lease_expired", orbitkv.ProtocolError, lambda: operation.wait(60))
        self.assertTrue(self.freed())

    def test_what_cannot_be_sent_gives_its_line_back_at_once(self) -> None:
        with self.assertRaises(ValueError):
            self.client.submit_restore(7, {0: [(0, -1)]})
        self.assertTrue(self.freed())

    def test_a_time_out_cancels_and_waits_for_the_slot(self) -> None:
        outcome: list[object] = []

        def restore() -> None:
            try:
                outcome.append(self.client.restore(7, {0: [(0, 1)]}, timeout_s=0.02))
            except orbitkv.OrbitError as error:
                outcome.append(error.code)

        thread = threading.Thread(target=restore)
        thread.start()
        _, cancel, _ = self.manager.next("cancel")
        self.assertEqual(cancel, {"kind": "cancel", "slot": 0, "generation": 1})
        thread.join(SOON_S)
        self.assertEqual(outcome, [])
        self.assertFalse(self.freed())
        self.manager.finish(0, 1, CANCELLED)
        thread.join(60)
        self.assertEqual(outcome, ["cancelled"])

    def test_when_the_stream_ends_requests_fail_and_pages_wait_for_the_slot(self) -> None:
        operation = self.restore()
        self.manager.hang_up()
        self.assert_code("manager_gone", orbitkv.ClosedError, lambda: self.client.ping(1))
        self.assert_open(operation)
        self.assertFalse(self.freed())
        self.assert_code("timed_out", orbitkv.CancelledError, lambda: self.client.close(timeout_s=SOON_S))
        self.manager.finish(0, 1, DONE, moved=2)
        self.assertEqual(operation.wait(60).bytes, 2)

    def test_a_nonsense_answer_ends_the_session_but_frees_no_page(self) -> None:
        self.manager.answers["restore"] = lambda _: {"kind": "busy"}
        operation = self.restore()
        self.assert_open(operation)
        self.assertFalse(self.freed())
        self.assert_code("session_closed", orbitkv.ClosedError, lambda: self.client.ping(1))

    def test_pages_are_fenced_until_the_fence_is_raised(self) -> None:
        groups = [orbitkv.PublishGroup(0, KEYS, [1])]
        operation = self.client.submit_publish(groups, fenced=True)
        self.assertEqual(self.manager.next("publish")[1]["fence"], 1)
        self.assertEqual(self.manager.client_line(0)[2], 0)
        operation.raise_fence()
        self.assertEqual(self.manager.client_line(0)[2], 1)
        self.manager.finish(0, 1, DONE)
        operation.wait(60)
        self.assertEqual(operation.counts, orbitkv.PublishCounts(1, 2, 0, 0))


class ManagerProcess(unittest.TestCase):
    def test_only_the_end_of_the_managers_process_fails_what_its_slots_do_not_tell(self) -> None:
        to_child, from_parent = os.pipe()
        from_child, to_parent = os.pipe()
        child = os.fork()
        if child == 0:
            # With the parent's ends closed, its death ends the reads below.
            os.close(from_parent)
            os.close(from_child)
            manager = FakeManager(2)
            os.write(to_parent, manager.path.encode())
            os.read(to_child, 1)
            manager.hang_up()
            os.read(to_child, 1)
            manager.folder.cleanup()
            os._exit(0)
        path = os.read(from_child, 4096).decode()
        client = orbitkv.connect(path, engine="test", engine_version="1")
        memory = orbitkv.EngineMemory(4096)
        client.register(instance_id=bytes(16), namespace_inputs={}, memory=[memory], groups=[], regions=[])
        operation = client.submit_restore(7, {0: [(0, 0)]})
        os.write(from_parent, b"1")
        with self.assertRaises(orbitkv.ClosedError):
            # Answered until the child has hung up, which may take its time.
            for _ in range(100_000):
                client.sync()
        with self.assertRaises(orbitkv.CancelledError):
            operation.wait(SOON_S)
        os.write(from_parent, b"2")
        with self.assertRaises(orbitkv.ClosedError) as caught:
            operation.wait(60)
        self.assertEqual(caught.exception.code, "manager_gone")
        os.waitpid(child, 0)
        client.close(timeout_s=60)
        memory.close()
        for fd in (to_child, from_parent, from_child, to_parent):
            os.close(fd)

    def test_somebody_elses_manager_is_refused(self) -> None:
        manager = FakeManager()
        real = os.getuid
        os.getuid = lambda: 4_000_000_000
        try:
            with self.assertRaises(orbitkv.ProtocolError) as caught:
                orbitkv.connect(manager.path, engine="test", engine_version="1")
        finally:
            os.getuid = real
        self.assertEqual(caught.exception.code, "peer_uid_refused")
        manager.close()


if __name__ == "__main__":
    unittest.main()
