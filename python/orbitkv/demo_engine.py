"""The demo's Python engine: a process that owns pages, has cached prefixes restored into them, holds every byte to its
oracle, "computes" what is missing and publishes it. Commands and events are JSON lines, the same as those of the TypeScript
engine. Started by ``npm run demo``: ``python3 -m orbitkv.demo_engine PARAMETERS-AS-JSON``."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import struct
import sys
import time

from . import (
    Client,
    EngineMemory,
    Group,
    OrbitError,
    PublishGroup,
    QueryGroup,
    Ready,
    Region,
    connect,
)

BLOCK_TOKENS = 64
POISON = 0xA5
HEAD_DIM = 128


def segment_content(key: bytes, layer: int, part: int, size: int) -> bytes:
    """What a segment holds: SHAKE-128 over key, layer and part (0: K, 1: V)."""
    return hashlib.shake_128(key + bytes((layer, part))).digest(size)


class Oracle:
    """What pages hold and what they may hold after a restore, computed apart from every codec of the project: the same
    bytes without a codec or with an exact one, exactly the rounded values with FP8, values within the error of the
    format with TurboQuant, which leaves the first and last two layers alone."""

    # Square error of any single vector over its square; a foreign vector is off by about 2.
    _VECTOR_ERROR_MAX = {"turboquant-4": 0.15, "turboquant-3": 0.3}

    def __init__(self, codec: str, layers: int, segment_bytes: int) -> None:
        self._codec = codec
        self._layers = layers
        self._segment_bytes = segment_bytes
        self._vector_error_max = self._VECTOR_ERROR_MAX.get(codec, 0.0)
        self.sums = [0.0, 0.0, 0.0, 0.0]
        if self._vector_error_max > 0:
            # Every bfloat16: the upper half of a binary32.
            self._values = struct.unpack("<65536f", b"".join(struct.pack("<I", n << 16) for n in range(65536)))

    def content(self, key: bytes, layer: int, part: int) -> bytes:
        """What a segment holds; codecs get floats from 2^-3 to below 2 of either sign, ten random bits each."""
        random = segment_content(key, layer, part, self._segment_bytes)
        if self._codec == "none":
            return random
        lanes = int.from_bytes(random, "little")
        return self._bytes((lanes & self._lanes(0x81FF)) | self._lanes(0x3E00))

    def accepts(self, layer: int, part: int, published: bytes, restored: bytes) -> bool:
        if self._codec == "fp8":
            return restored == self._rounded(published)
        if self._vector_error_max == 0 or layer < 2 or layer >= self._layers - 2:
            return restored == published
        return self._close(part, published, restored)

    def _rounded(self, published: bytes) -> bytes:
        """E4M3 keeps 3 of 7 bits of mantissa: to nearest, ties to even. All lanes at once, none of them overflows."""
        lanes = int.from_bytes(published, "little")
        lanes += self._lanes(0x0007) + ((lanes >> 4) & self._lanes(0x0001))
        return self._bytes(lanes & self._lanes(0xFFF0))

    def _close(self, part: int, published: bytes, restored: bytes) -> bool:
        """Every fourth vector is measured, beginning at one that the content names: Python is slow."""
        was, now = self._floats(published), self._floats(restored)
        for vector in range((published[0] % 4) * HEAD_DIM, len(was), 4 * HEAD_DIM):
            x, y = was[vector : vector + HEAD_DIM], now[vector : vector + HEAD_DIM]
            error, power = math.dist(x, y) ** 2, math.hypot(*x) ** 2
            self.sums[2 * part] += error
            self.sums[2 * part + 1] += power
            if not error <= self._vector_error_max * power:
                return False
        return True

    def _floats(self, lanes: bytes) -> list[float]:
        values = self._values
        return [values[pattern] for (pattern,) in struct.iter_unpack("<H", lanes)]

    def _lanes(self, pattern: int) -> int:
        return int.from_bytes(pattern.to_bytes(2, "little") * (self._segment_bytes // 2), "little")

    def _bytes(self, lanes: int) -> bytes:
        return lanes.to_bytes(self._segment_bytes, "little")


class DemoEngine:
    """One rank: layers lie one after the other, K and V of a layer apart."""

    def __init__(self, params: dict) -> None:
        self._layers: int = params["layers"]
        self._segment_bytes: int = params["segmentBytes"]
        self._pages: int = params["pages"]
        self._codec: str = params["codec"]
        self._block_bytes = self._layers * 2 * self._segment_bytes
        self._poison = bytes([POISON]) * self._segment_bytes
        self._memory = EngineMemory(self._block_bytes * self._pages)
        instance_id = bytes.fromhex(params["instanceId"])
        self._worker = self._connect(params, "worker")
        self._worker.register(
            instance_id=instance_id,
            namespace_inputs={"model": b"orbitkv demo"},
            memory=[self._memory],
            groups=[Group(0, BLOCK_TOKENS)],
            regions=[self._region(layer) for layer in range(self._layers)],
            slot_count=16,
        )
        self._scheduler = self._connect(params, "scheduler")
        self._scheduler.attach(instance_id)

    @staticmethod
    def _connect(params: dict, role: str) -> Client:
        return connect(params["socketPath"], role=role, engine=params["name"], engine_version="1")

    def _region(self, layer: int) -> Region:
        return Region(
            layer=f"layer.{layer:03}",
            group=0,
            allocation=0,
            offset_bytes=layer * 2 * self._segment_bytes * self._pages,
            page_count=self._pages,
            page_stride_bytes=self._segment_bytes,
            segment_bytes=self._segment_bytes,
            segments=2,
            segment_stride_bytes=self._segment_bytes * self._pages,
            head_dim=HEAD_DIM,
            heads=8,
        )

    def _segments(self, page: int):
        for layer in range(self._layers):
            for part in (0, 1):
                at = ((layer * 2 + part) * self._pages + page) * self._segment_bytes
                yield layer, part, slice(at, at + self._segment_bytes)

    def request(self, number: int, blocks: list[bytes], hang: bool) -> dict:
        """Serves one request; returns what came of it, in the words of the demo's protocol."""
        oracle = Oracle(self._codec, self._layers, self._segment_bytes)
        started = time.monotonic()
        found = self._scheduler.query(number, [QueryGroup(0, b"".join(blocks))])
        hits = found.boundaries[0] // BLOCK_TOKENS if isinstance(found, Ready) else 0
        restored = 0
        restore_us = 0.0
        mismatches = 0
        if isinstance(found, Ready) and hits > 0:
            self._poison_pages(hits)
            try:
                operation = self._worker.submit_restore(found.lease, {0: [(page, page) for page in range(hits)]})
                if hang:
                    say({"event": "restoring", "id": number})
                    os.kill(os.getpid(), signal.SIGSTOP)
                operation.wait()
                restored = hits
                restore_us = (time.monotonic() - started) * 1e6
                mismatches = self._mismatches(blocks, hits, oracle)
            except OrbitError as error:
                print(f"restore failed: {error}", file=sys.stderr)
        published = self._compute_and_publish(blocks, restored, oracle)
        served = isinstance(found, Ready) and restored > 0
        return {
            "id": number,
            "blocks": len(blocks),
            "fromDram": found.blocks_dram if served else 0,
            "fromSsd": found.blocks_ssd if served else 0,
            "missed": len(blocks) - restored,
            "mismatches": mismatches,
            "restoredBytes": restored * self._block_bytes,
            "restoreUs": restore_us,
            "restoreFailures": hits - restored,
            "publishedBlocks": published,
            "deviation": oracle.sums,
        }

    def _poison_pages(self, pages: int) -> None:
        view = self._memory.view
        for page in range(pages):
            for _, _, place in self._segments(page):
                view[place] = self._poison

    def _mismatches(self, blocks: list[bytes], hits: int, oracle: Oracle) -> int:
        view = self._memory.view
        return sum(
            not all(
                oracle.accepts(layer, part, oracle.content(blocks[page], layer, part), bytes(view[place]))
                for layer, part, place in self._segments(page)
            )
            for page in range(hits)
        )

    def _compute_and_publish(self, blocks: list[bytes], first: int, oracle: Oracle) -> int:
        if first == len(blocks):
            return 0
        view = self._memory.view
        for page in range(first, len(blocks)):
            for layer, part, place in self._segments(page):
                view[place] = oracle.content(blocks[page], layer, part)
        pages = list(range(first, len(blocks)))
        group = PublishGroup(0, b"".join(blocks[first:]), pages)
        _, counts = self._worker.publish([group], partial_ok=True)
        return counts.accepted

    def sync(self) -> None:
        self._worker.sync(ssd=True)

    def stop(self) -> None:
        self._scheduler.close()
        self._worker.close()
        self._memory.close()


def say(event: dict) -> None:
    print(json.dumps(event), flush=True)


def main() -> None:
    engine = DemoEngine(json.loads(sys.argv[1]))
    say({"event": "ready"})
    for line in sys.stdin:
        command = json.loads(line)
        if command["op"] == "stop":
            break
        if command["op"] == "sync":
            engine.sync()
            say({"event": "synced"})
            continue
        blocks = [bytes.fromhex(key) for key in command["blocks"]]
        say({"event": "done", **engine.request(command["id"], blocks, command["op"] == "hang")})
    engine.stop()


if __name__ == "__main__":
    main()
