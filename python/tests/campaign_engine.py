"""The Python engine of the process campaign (test/process/campaign/at-work.ts is the other one): publishes, asks and
restores without end, survives its Managers, and says what happens, a line of JSON a word (engine-words.ts).

    campaign_engine.py SOCKET SEED NUMBER
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import orbitkv  # noqa: E402

# test/process/campaign/content.ts
LAYERS = 2
SEGMENT_BYTES = 16_384
PAGES = 32
MARGIN_BYTES = 4_096
NAMES = 24
NAMES_WANTED = 3
BLOCKS_MAX = 8
BLOCK_TOKENS = 16
VERSION_BYTES = 4
# Versions of different engines never meet.
VERSIONS_EACH = 1_000_000
JOIN_EVERY_S = 0.01
# A stopped Manager answers when it goes on: only the end of its process ends a request.
TIMEOUT_S = 600.0


def say(word: str, **fields: object) -> None:
    """One write: there even when the process is killed in the next instant."""
    os.write(1, f"{json.dumps({'word': word, **fields})}\n".encode())


def keys_named(name: str, count: int) -> list[bytes]:
    return [hashlib.sha256(f"{name} {i}".encode()).digest() for i in range(count)]


def versioned_segment(key: bytes, version: int, layer: int, segment: int) -> bytes:
    head = version.to_bytes(VERSION_BYTES, "little")
    rest = hashlib.shake_128(key + head + bytes([layer, segment])).digest(SEGMENT_BYTES - VERSION_BYTES)
    return head + rest


def place(layer: int, segment: int, page: int) -> slice:
    at = MARGIN_BYTES + layer * 2 * SEGMENT_BYTES * PAGES + segment * SEGMENT_BYTES * PAGES + page * SEGMENT_BYTES
    return slice(at, at + SEGMENT_BYTES)


PIECES = [(layer, segment) for layer in range(LAYERS) for segment in (0, 1)]


class Engine:
    def __init__(self, path: str, seed: int, number: int) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.version = number * VERSIONS_EACH
        self.leaving = False
        self.requests = 0
        self.epoch = 0

    def join(self) -> orbitkv.Client | None:
        """A registered session; None when nobody is there yet, or no longer."""
        try:
            client = orbitkv.connect(self.path, engine="campaign", engine_version="1", timeout_s=TIMEOUT_S)
        except (orbitkv.ClosedError, FileNotFoundError, ConnectionError):
            return None
        try:
            client.register(
                instance_id=os.urandom(16),
                namespace_inputs={"model": b"orbitkv test engine", "salt": b"campaign"},
                memory=[self.memory],
                groups=[orbitkv.Group(0, BLOCK_TOKENS)],
                regions=[
                    orbitkv.Region(
                        f"layer.{layer:03}",
                        0,
                        0,
                        place(layer, 0, 0).start,
                        PAGES,
                        SEGMENT_BYTES,
                        SEGMENT_BYTES,
                        segments=2,
                        segment_stride_bytes=SEGMENT_BYTES * PAGES,
                        head_dim=64,
                        heads=8,
                    )
                    for layer in range(LAYERS)
                ],
                slot_count=8,
                timeout_s=TIMEOUT_S,
            )
        except orbitkv.ClosedError:
            client.close()
            return None
        self.epoch = client.welcome["managerEpoch"]
        return client

    def prefix(self) -> str:
        return f"prefix {self.random.randrange(self.random.choice((NAMES_WANTED, NAMES)))}"

    def publish(self, client: orbitkv.Client) -> None:
        name = self.prefix()
        keys = keys_named(name, 1 + self.random.randrange(BLOCKS_MAX))
        self.version += 1
        for page, key in enumerate(keys):
            for piece in PIECES:
                self.memory.view[place(*piece, page)] = versioned_segment(key, self.version, *piece)
        publication = {"epoch": self.epoch, "name": name, "blocks": len(keys), "version": self.version}
        say("begun", **publication)
        client.publish([orbitkv.PublishGroup(0, b"".join(keys), range(len(keys)))])
        say("acknowledged", **publication)

    def find(self, client: orbitkv.Client, keys: list[bytes]) -> orbitkv.Ready | orbitkv.Miss | orbitkv.Busy:
        self.requests += 1
        return client.query(self.requests, [orbitkv.QueryGroup(0, b"".join(keys))], timeout_s=TIMEOUT_S)

    def restore(self, client: orbitkv.Client) -> None:
        name = self.prefix()
        keys = keys_named(name, BLOCKS_MAX)
        found = self.find(client, keys)
        if not isinstance(found, orbitkv.Ready):
            return
        blocks = found.boundaries[0] // BLOCK_TOKENS
        pages = [PAGES - 1 - i * (PAGES // blocks) for i in range(blocks)]
        self.memory.view[:] = b"\xa5" * self.memory.size
        client.restore(found.lease, {0: list(enumerate(pages))})
        held = bytearray(self.memory.view)
        versions = [int.from_bytes(held[place(0, 0, page)][:VERSION_BYTES], "little") for page in pages]
        for block, page in enumerate(pages):
            for piece in PIECES:
                if held[place(*piece, page)] != versioned_segment(keys[block], versions[block], *piece):
                    say("wrong", what=f"{name}/{block}: layer and segment {piece} under {self.epoch}")
                held[place(*piece, page)] = b"\xa5" * SEGMENT_BYTES
        if held != b"\xa5" * self.memory.size:
            say("wrong", what=f"{name}: a restore wrote outside its pages")
        say("restored", epoch=self.epoch, name=name, versions=versions)

    def to_ssd(self, client: orbitkv.Client) -> None:
        client.sync(ssd=True)
        client.drop_dram()

    def never(self, client: orbitkv.Client) -> None:
        found = self.find(client, keys_named(f"never {self.random.randrange(1000)}", 2))
        if isinstance(found, orbitkv.Ready):
            say("wrong", what=f"a hit of keys that nobody published, under {self.epoch}")

    def work(self, client: orbitkv.Client) -> None:
        steps = [self.publish] * 4 + [self.restore] * 4 + [self.to_ssd, self.never]
        while not self.leaving:
            try:
                self.random.choice(steps)(client)
                say("step")
            except orbitkv.ClosedError as error:
                return say("off", code=error.code)
            except orbitkv.CapacityError:
                pass
            time.sleep(self.random.randrange(4) / 1000)

    def main(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "leaving", True))
        say("there")
        while not self.leaving:
            # Memory of its own for each session: an earlier Manager that only seems gone keeps its mapping.
            self.memory = orbitkv.EngineMemory(2 * MARGIN_BYTES + LAYERS * 2 * SEGMENT_BYTES * PAGES)
            client = self.join()
            if client is None:
                time.sleep(JOIN_EVERY_S)
            else:
                say("on", epoch=self.epoch)
                self.work(client)
                client.close()
            self.memory.close()


if __name__ == "__main__":
    try:
        Engine(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).main()
    except Exception:  # noqa: BLE001: whatever it is, the campaign must hear of it
        say("failed", error=traceback.format_exc())
        sys.exit(1)
