"""An engine process for tests with a real Manager. Registers pages of one layer, then does what it is told, a line a
command, and answers each with one line of JSON:

    fill PAGE BYTE | publish KEY PAGE | restore KEY PAGE | hang KEY PAGE | first PAGE | close

``hang`` begins a restore behind a fence that nobody raises and reports how it ended, and what requests say after it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import orbitkv  # noqa: E402

PAGE_BYTES = 65536
PAGES = 4


def key_of(text: str) -> bytes:
    return bytes.fromhex(text)


class Peer:
    def __init__(self, path: str) -> None:
        self.memory = orbitkv.EngineMemory(PAGE_BYTES * PAGES)
        self.client = orbitkv.connect(path, engine="peer", engine_version="1")
        self.client.register(
            instance_id=os.urandom(16),
            namespace_inputs={"model": b"shared"},
            memory=[self.memory],
            groups=[orbitkv.Group(0, 16)],
            regions=[orbitkv.Region("layer.0", 0, 0, 0, PAGES, PAGE_BYTES, PAGE_BYTES, head_dim=128, heads=8)],
            slot_count=4,
        )
        self.requests = 0

    def page(self, page: str) -> slice:
        return slice(int(page) * PAGE_BYTES, (int(page) + 1) * PAGE_BYTES)

    def fill(self, page: str, byte: str) -> None:
        self.memory.view[self.page(page)] = bytes([int(byte)]) * PAGE_BYTES

    def first(self, page: str) -> int | None:
        """The byte that the whole page consists of, or None."""
        held = bytes(self.memory.view[self.page(page)])
        return held[0] if held == held[:1] * PAGE_BYTES else None

    def publish(self, key: str, page: str) -> dict:
        result, counts = self.client.publish([orbitkv.PublishGroup(0, key_of(key), [int(page)])])
        self.client.sync(ssd=True)
        return {"bytes": result.bytes, "accepted": counts.accepted, "present": counts.present}

    def lease(self, key: str) -> int | None:
        self.requests += 1
        found = self.client.query(self.requests, [orbitkv.QueryGroup(0, key_of(key))])
        return found.lease if isinstance(found, orbitkv.Ready) else None

    def restore(self, key: str, page: str) -> dict | None:
        lease = self.lease(key)
        if lease is None:
            return None
        return {"bytes": self.client.restore(lease, {0: [(0, int(page))]}).bytes}

    def hang(self, key: str, page: str) -> dict:
        lease = self.lease(key)
        assert lease is not None
        operation = self.client.submit_restore(lease, {0: [(0, int(page))]}, fenced=True)
        self.client.ping(1)
        print(json.dumps("hanging"), flush=True)
        try:
            operation.wait()
            return {"ended": "done"}
        except orbitkv.OrbitError as error:
            ended = error.code
        try:
            self.client.ping(2)
        except orbitkv.OrbitError as error:
            return {"ended": ended, "ping": error.code}
        return {"ended": ended, "ping": "answered"}

    def close(self) -> None:
        self.client.close()
        self.memory.close()


def main() -> None:
    peer = Peer(sys.argv[1])
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        verb, *arguments = line.split()
        print(json.dumps(getattr(peer, verb)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
