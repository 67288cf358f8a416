"""The frame table, as src/shared/layout/wire/messages.ts has it: type numbers, fields and their order. What each
message means is written there and in docs/internals/protocol.md."""

from __future__ import annotations

from .fields import (
    Field,
    between,
    blob,
    boolean,
    choice,
    f64,
    fixed,
    keyed_pages,
    keys,
    many,
    numbers,
    optional,
    pairs,
    record,
    text,
    u8,
    u16,
    u32,
    u64,
    variant,
)

NAME_BYTES_MAX = 256
SLOT_GENERATION_MAX = (1 << 37) - 1

_name = text(NAME_BYTES_MAX)
_digest = fixed(32)
_instance_id = fixed(16)
_slot = {"slot": u32, "generation": between(u64, 1, SLOT_GENERATION_MAX)}

_query_groups = many(record(group=u32, firstBlock=u32, keys=keys), 64)

_allocation = variant(
    host_fd=record(bytes=u64),
    cuda_ipc=record(handle=fixed(64), offsetBytes=u64, bytes=u64),
    local_mapping=record(bytes=u64, mapping=u32),
)

_region = record(
    layer=_name,
    group=u32,
    allocation=u32,
    offsetBytes=u64,
    pageCount=u32,
    pageStrideBytes=u64,
    segments=between(u8, 1, 2),
    segmentBytes=u64,
    segmentStrideBytes=u64,
    dtype=_name,
    kvRole=choice("packed", "k", "v", "latent", "state", "opaque"),
    headDim=u32,
    heads=u32,
)

REQUESTS: dict[str, tuple[int, Field]] = {
    "hello": (
        1,
        record(
            protoMin=u16,
            protoMax=u16,
            role=choice("scheduler", "worker"),
            pid=u32,
            bootNonce=u64,
            engine=_name,
            engineVersion=_name,
            adapterVersion=_name,
        ),
    ),
    "register": (
        2,
        record(
            instanceId=_instance_id,
            namespaceInputs=many(record(tag=_name, value=blob(4096)), 64),
            claimedDigest=_digest,
            tpRank=u16,
            tpSize=u16,
            ppRank=u16,
            ppSize=u16,
            worldSize=u16,
            pageFirst=boolean,
            device=record(kind=choice("host", "cuda"), uuid=fixed(16)),
            allocations=many(_allocation, 1024),
            groups=many(
                record(
                    id=u32,
                    kind=choice("full-attention", "sliding-window", "checkpoint"),
                    blockTokens=u32,
                    window=u32,
                ),
                64,
            ),
            regions=many(_region, 4096),
            canaries=many(record(region=u32, firstPage=fixed(64), lastPage=fixed(64)), 4096),
            slotCount=u32,
        ),
    ),
    "attach": (3, record(instanceId=_instance_id)),
    "query": (
        4,
        record(
            requestId=u64,
            revision=u32,
            allowSsd=boolean,
            groups=_query_groups,
        ),
    ),
    "query_poll": (5, record(ticket=u64)),
    "release": (6, record(what=choice("lease", "ticket"), id=u64)),
    "renew": (7, record(lease=u64, extendMs=u32)),
    "restore": (8, record(**_slot, lease=u64, fence=u64, groups=many(record(group=u32, pairs=pairs), 64))),
    "publish": (
        9,
        record(
            **_slot,
            fence=u64,
            partialOk=boolean,
            groups=many(record(group=u32, layers=optional(numbers), items=keyed_pages), 64),
        ),
    ),
    "cancel": (10, record(**_slot)),
    "unregister": (11, record()),
    "sync": (12, record(ssd=boolean)),
    "drop_dram": (13, record()),
    "drain": (14, record()),
    "inspect": (15, record(what=_name)),
    "ping": (16, record(seq=u64, slotsOutstanding=u32)),
    "stats": (17, record()),
    "prepare": (18, record(requestId=u64, revision=u32, groups=_query_groups)),
    "prepare_poll": (19, record(ticket=u64)),
    "claim": (20, record(ticket=u64, requestId=u64, revision=u32, groups=_query_groups)),
    "warm": (21, record(groups=_query_groups)),
}

REPLIES: dict[str, tuple[int, Field]] = {
    "welcome": (
        129,
        record(
            proto=u16,
            managerEpoch=u64,
            limits=record(queriesOutstanding=u32, keysPerQuery=u32, slots=u32, frameBytes=u32),
            features=u32,
        ),
    ),
    "registered": (
        130,
        record(
            session=u32,
            sessionGeneration=u64,
            sealed=boolean,
            ranksPresent=u16,
            storageNamespace=_digest,
            granuleBytesMax=u32,
            slots=u32,
        ),
    ),
    "attached": (
        131,
        record(
            session=u32,
            sessionGeneration=u64,
            sealed=boolean,
            ranksPresent=u16,
            worldSize=u16,
            storageNamespace=_digest,
        ),
    ),
    "ready": (132, record(boundaries=numbers, otherBoundaries=numbers, lease=u64, blocksDram=u32, blocksSsd=u32, expiresInMs=u32)),
    "loading": (133, record(ticket=u64)),
    "miss": (134, record()),
    "busy": (135, record()),
    "ack": (136, record()),
    "renewed": (137, record(expiresInMs=u32)),
    "publishing": (138, record(accepted=u32, present=u32, assembling=u32, skipped=u32)),
    "numbers": (139, record(values=many(record(name=_name, value=f64), 4096))),
    "pong": (140, record(seq=u64, managerEpoch=u64)),
    "prepared": (142, record(ticket=u64, blocks=u32, blocksReady=u32, loading=boolean, expiresInMs=u32)),
    "warming": (143, record(accepted=u32, resident=u32, skipped=u32)),
    "error": (
        141,
        record(code=u16, message=text(256), values=many(record(name=_name, value=_name), 64)),
    ),
}

MESSAGES = {**REQUESTS, **REPLIES}
