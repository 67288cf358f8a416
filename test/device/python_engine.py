"""An engine on a CUDA device, in Python with torch: publishes its KV tensors and frees them, or, as the engine that was
started again, has them restored into other pages and compares every byte on the GPU.

    PYTHONPATH=python python3 test/device/python_engine.py publish|restore SOCKET SALT LAYOUT

Prints one line of JSON. Layouts: ``split`` (K and V apart, the whole of each), ``packed`` (K and V of a page adjoin),
``page-first`` (all layers of a page adjoin, one allocation), ``unaligned`` (split, segments of 1,000 bytes)."""

from __future__ import annotations

import hashlib
import json
import os
import sys

import orbitkv
from orbitkv import cuda

import torch

LAYERS = 12
PAGES = 64
BLOCKS = 24
BLOCK_TOKENS = 16
POISON = 0xA5
SEGMENT_BYTES = 32 * 1024


def content(block: int, layer: int, part: int, size: int) -> torch.Tensor:
    """What a segment holds: a function of its place, so that no copy has to be kept."""
    at = torch.arange(size, dtype=torch.int64, device="cuda")
    seed = (block * 1_000_003 + layer * 10_007 + part * 101) % 1_000_000_007
    return (((at + seed) * 2_654_435_761 >> 13) & 0xFF).to(torch.uint8)


class Engine:
    def __init__(self, socket_path: str, salt: str, layout: str) -> None:
        self.layout = layout
        self.segment = 1_000 if layout == "unaligned" else SEGMENT_BYTES
        self.tensors = self._allocate()
        for tensor in self.tensors:
            tensor.fill_(POISON)
        torch.cuda.synchronize()
        memory, placed = cuda.export_tensors(self.tensors)
        regions = [self._region(layer, placed) for layer in range(LAYERS)]
        self.worker = orbitkv.connect(socket_path, role="worker", engine="python on cuda", engine_version="1")
        instance_id = os.urandom(16)
        self.worker.register(
            instance_id=instance_id,
            namespace_inputs={"model": b"orbitkv device test", "salt": salt.encode()},
            memory=memory,
            groups=[orbitkv.Group(0, BLOCK_TOKENS)],
            regions=regions,
            canaries=self._canaries(),
            page_first=layout == "page-first",
            slot_count=8,
            timeout_s=60,
        )
        # Only now: a canary must not stay in a page, and the Manager has compared it.
        self.clear()
        self.scheduler = orbitkv.connect(socket_path, role="scheduler", engine="python on cuda", engine_version="1")
        self.scheduler.attach(instance_id)
        self.exported = {"allocations": len(memory), "device": cuda.uuid_text(memory[0].uuid)}

    def _allocate(self) -> list[torch.Tensor]:
        make = lambda *shape: torch.empty(shape, dtype=torch.uint8, device="cuda")  # noqa: E731
        if self.layout == "page-first":
            return [make(PAGES, LAYERS, 2, self.segment)]
        if self.layout == "packed":
            return [make(PAGES, 2, self.segment) for _ in range(LAYERS)]
        return [make(2, PAGES, self.segment) for _ in range(LAYERS)]

    def part(self, layer: int, page: int, part: int) -> torch.Tensor:
        if self.layout == "page-first":
            return self.tensors[0][page, layer, part]
        if self.layout == "packed":
            return self.tensors[layer][page, part]
        return self.tensors[layer][part, page]

    def _region(self, layer: int, placed: list[cuda.Placed]) -> orbitkv.Region:
        place = placed[0 if self.layout == "page-first" else layer]
        first = self.part(layer, 0, 0)
        tensor = self.tensors[0 if self.layout == "page-first" else layer]
        offset = place.offset + first.data_ptr() - tensor.data_ptr()
        return orbitkv.Region(
            layer=f"layer.{layer:03}",
            group=0,
            allocation=place.allocation,
            offset_bytes=offset,
            page_count=PAGES,
            page_stride_bytes=self.part(layer, 1, 0).data_ptr() - first.data_ptr(),
            segment_bytes=self.segment,
            segments=2,
            segment_stride_bytes=self.part(layer, 0, 1).data_ptr() - first.data_ptr(),
            dtype="uint8",
        )

    def _canaries(self) -> list[orbitkv.Canary]:
        canaries = []
        for layer in range(LAYERS):
            ends = []
            for page in (0, PAGES - 1):
                head = self.part(layer, page, 0)[:64]
                head.copy_(content(page + 5_000, layer, 0, 64))
                ends.append(bytes(head.cpu().tolist()))
            canaries.append(orbitkv.Canary(layer, ends[0], ends[1]))
        torch.cuda.synchronize()
        return canaries

    def clear(self) -> None:
        for tensor in self.tensors:
            tensor.fill_(POISON)
        torch.cuda.synchronize()

    def stop(self) -> None:
        self.scheduler.close()
        self.worker.unregister(timeout_s=60)
        self.worker.close()


def keys_of(salt: str) -> bytes:
    return b"".join(hashlib.sha256(f"{salt} {block}".encode()).digest() for block in range(BLOCKS))


def publish(engine: Engine, salt: str) -> dict:
    for block in range(BLOCKS):
        for layer in range(LAYERS):
            for part in (0, 1):
                engine.part(layer, block, part).copy_(content(block, layer, part, engine.segment))
    torch.cuda.synchronize()
    group = orbitkv.PublishGroup(0, keys_of(salt), list(range(BLOCKS)))
    result, counts = engine.worker.publish([group], timeout_s=120)
    engine.clear()
    engine.worker.sync(ssd=True, timeout_s=120)
    engine.worker.drop_dram()
    return {"accepted": counts.accepted, "bytes": result.bytes}


def restore(engine: Engine, salt: str) -> dict:
    found = engine.scheduler.query(1, [orbitkv.QueryGroup(0, keys_of(salt))], timeout_s=120)
    if not isinstance(found, orbitkv.Ready):
        return {"found": type(found).__name__}
    # Every second page from the end: each restored page has neighbours that must not change.
    pages = [PAGES - 1 - 2 * block for block in range(BLOCKS)]
    engine.worker.restore(found.lease, {0: list(enumerate(pages))}, timeout_s=120)
    torch.cuda.synchronize()
    wrong = touched = 0
    for block, page in enumerate(pages):
        for layer in range(LAYERS):
            for part in (0, 1):
                expected = content(block, layer, part, engine.segment)
                wrong += 0 if torch.equal(engine.part(layer, page, part), expected) else 1
    for page in sorted(set(range(PAGES)) - set(pages)):
        for layer in range(LAYERS):
            for part in (0, 1):
                touched += 0 if bool((engine.part(layer, page, part) == POISON).all()) else 1
    boundary = found.boundaries[-1] // BLOCK_TOKENS
    return {
        "found": "Ready",
        "blocks": boundary,
        "fromDram": found.blocks_dram,
        "fromSsd": found.blocks_ssd,
        "wrongSegments": wrong,
        "touchedGuards": touched,
    }


def main() -> None:
    what, socket_path, salt, layout = sys.argv[1:5]
    engine = Engine(socket_path, salt, layout)
    result = publish(engine, salt) if what == "publish" else restore(engine, salt)
    engine.stop()
    print(json.dumps({**result, **engine.exported}), flush=True)


if __name__ == "__main__":
    main()
