"""The codec against the golden vectors that TypeScript made, and against every mutation of them."""

from __future__ import annotations

import re
import unittest

from orbitkv.errors import ERROR_CODES, ClosedError, OrbitError, ProtocolError, error_code_name, error_of
from orbitkv.namespace import plain_digest
from orbitkv.wire.frame import LENGTH_WORD_BYTES, decode_frame, decode_reply, encode_frame
from orbitkv.wire.messages import MESSAGES

from .support import ROOT, from_plain, golden


class GoldenVectors(unittest.TestCase):
    def test_every_golden_frame_decodes_to_its_message_and_encodes_to_the_same_bytes(self) -> None:
        for vector in golden("wire.json"):
            with self.subTest(vector["name"]):
                frame = bytes.fromhex(vector["frame"])
                message = from_plain(vector["message"])
                self.assertEqual(decode_frame(frame[LENGTH_WORD_BYTES:]), (vector["request"], message))
                self.assertEqual(encode_frame(vector["request"], message), frame)

    def test_every_message_has_a_golden_vector(self) -> None:
        self.assertEqual({vector["message"]["kind"] for vector in golden("wire.json")}, set(MESSAGES))

    def test_plain_digests_are_those_of_typescript(self) -> None:
        for vector in golden("plain-digest.json"):
            inputs = {each["tag"]: bytes.fromhex(each["hex"]) for each in vector["inputs"]}
            self.assertEqual(plain_digest(inputs).hex(), vector["digest"])


class Mutations(unittest.TestCase):
    def test_a_mutated_or_cut_frame_is_refused_or_encodes_to_itself(self) -> None:
        tried = meant = 0
        for vector in golden("wire.json"):
            frame = bytes.fromhex(vector["frame"])[LENGTH_WORD_BYTES:]
            for mutated in _mutations(frame):
                tried += 1
                try:
                    request, message = decode_frame(mutated)
                except ProtocolError:
                    continue
                meant += 1
                self.assertEqual(encode_frame(request, message)[LENGTH_WORD_BYTES:], mutated, vector["name"])
        self.assertGreater(tried, 20_000)
        self.assertTrue(1_000 < meant < tried, f"{meant} of {tried}")

    def test_a_refusal_says_what_and_where(self) -> None:
        frame = bytearray(encode_frame(1, {"kind": "sync", "ssd": True})[LENGTH_WORD_BYTES:])
        frame[12] = 2
        with self.assertRaises(ProtocolError) as caught:
            decode_frame(bytes(frame))
        self.assertEqual(
            str(caught.exception), "Cannot read field ssd of a sync frame at byte 13: 2 is neither 0 nor 1"
        )

    def test_a_client_takes_no_requests(self) -> None:
        with self.assertRaises(ProtocolError) as caught:
            decode_reply(encode_frame(1, {"kind": "drain"})[LENGTH_WORD_BYTES:])
        self.assertEqual(caught.exception.code, "unknown_message")

    def test_what_has_no_place_on_the_wire_is_refused_before_it_is_sent(self) -> None:
        for message in (
            {"kind": "cancel", "slot": 0, "generation": 0},
            {"kind": "cancel", "slot": 1 << 32, "generation": 1},
            {"kind": "query_poll", "ticket": 1 << 53},
            {"kind": "inspect", "what": "x" * 257},
            {"kind": "inspect", "what": "\ud800"},
            {"kind": "numbers", "values": [{"name": "x", "value": float("nan")}]},
            {"kind": "release", "what": "page", "id": 1},
        ):
            with self.subTest(message), self.assertRaises(ValueError):
                encode_frame(1, message)
        with self.assertRaises(ProtocolError) as caught:
            groups = [{"group": 0, "firstBlock": 0, "keys": bytes(1 << 20)}]
            encode_frame(1, {"kind": "query", "requestId": 1, "revision": 0, "allowSsd": True, "groups": groups})
        self.assertEqual(caught.exception.code, "frame_too_large")


class Errors(unittest.TestCase):
    def test_codes_are_those_of_typescript(self) -> None:
        text = (ROOT / "src/shared/base/errors.ts").read_text(encoding="utf-8")
        table = text[text.index("export const ERROR_CODES") : text.index("} as const")]
        self.assertEqual({name: int(number) for name, number in re.findall(r"^  (\w+): (\d+),", table, re.M)}, ERROR_CODES)

    def test_every_code_has_the_class_that_typescript_gives_it(self) -> None:
        classes = {code: type(error_of(code, "text")).__name__ for code in ERROR_CODES if code != "ok"}
        self.assertEqual(classes, golden("error-classes.json"))

    def test_every_code_has_a_class(self) -> None:
        for code in ERROR_CODES:
            error = error_of(code, "text", {"page": 1})
            self.assertIsInstance(error, OrbitError)
            self.assertIsNot(type(error), OrbitError)
            self.assertEqual((error.code, str(error), error.values), (code, "text", {"page": 1}))
        self.assertIsInstance(error_of("manager_gone", ""), ClosedError)
        self.assertEqual(error_code_name(65535), "invariant")


def _mutations(frame: bytes):
    for end in range(len(frame)):
        yield frame[:end]
    yield frame + b"\0"
    changed = bytearray(frame)
    for at, original in enumerate(frame):
        for value in {0, 1, 2, 0x7F, 0x80, 0xFF, original ^ 1, original ^ 0x10} - {original}:
            changed[at] = value
            yield bytes(changed)
        changed[at] = original


if __name__ == "__main__":
    unittest.main()
