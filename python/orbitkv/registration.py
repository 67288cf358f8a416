"""One rank of an instance: its storage groups, the regions of its pages, and the message that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .cuda import DeviceMemory
from .errors import ProtocolError
from .memory import EngineMemory
from .namespace import plain_digest

PROTO_DEVICE_MEMORY = 2


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
    s * segment_stride_bytes. All sizes in bytes; ``allocation`` indexes the memory that is registered with it. ``head_dim``
    is 0 unless every head's vector lies in one run of the segment; see geometry for tensors of engines."""

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


def register_message(
    *,
    proto: int,
    instance_id: bytes,
    namespace_inputs: Mapping[str, bytes],
    memory: Sequence[EngineMemory | DeviceMemory],
    groups: Sequence[Group],
    regions: Sequence[Region],
    canaries: Sequence[Canary],
    tp: tuple[int, int],
    pp: tuple[int, int],
    world_size: int,
    page_first: bool,
    slot_count: int,
) -> dict:
    """REGISTER. ``proto`` is what was agreed on. ProtocolError device_unsupported: memory of several devices, or a
    Manager that is too old for device memory."""
    return {
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
        "device": _device_of(memory, proto),
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


def _device_of(memory: Sequence[EngineMemory | DeviceMemory], proto: int) -> dict:
    uuids = {each.uuid if isinstance(each, DeviceMemory) else None for each in memory}
    if len(uuids) > 1:
        raise ProtocolError("device_unsupported", "Cannot register memory of several devices as one rank")
    uuid = next(iter(uuids), None)
    if uuid is None:
        return {"kind": "host", "uuid": bytes(16)}
    if proto < PROTO_DEVICE_MEMORY:
        raise ProtocolError(
            "device_unsupported",
            f"Cannot register device memory: the Manager speaks protocol {proto}, "
            f"{PROTO_DEVICE_MEMORY} is needed",
        )
    return {"kind": "cuda", "uuid": uuid}


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
