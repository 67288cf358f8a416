import fc from 'fast-check'
import type { MessageKind, MessageOf, WireMessage } from '../../src/shared/layout/wire/messages.js'
import { SLOT_GENERATION_MAX } from '../../src/shared/layout/wire/slots.js'

/** Random messages of every kind; a kind that the frame table gains does not compile until it is drawn here. */

const u16 = fc.nat(0xffff)
const u32 = fc.oneof(fc.nat(100), fc.integer({ min: 0, max: 0xffffffff }))
const u64 = fc.oneof(fc.nat(100), fc.maxSafeNat())
const generation = fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: SLOT_GENERATION_MAX }))
const name = fc.string({ unit: 'grapheme', maxLength: 12 })
const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
const someKeys = (length: number) => bytes(32 * length)
const u32s = (length?: number) =>
  fc
    .array(u32, length === undefined ? { maxLength: 8 } : { minLength: length, maxLength: length })
    .map((values) => Uint32Array.from(values))
const some = <T>(each: fc.Arbitrary<T>) => fc.array(each, { maxLength: 3 })
const count = fc.nat(4)
const queryGroups = some(fc.record({ group: u32, firstBlock: u32, keys: count.chain(someKeys) }))

type Drawn<K extends MessageKind> = Omit<MessageOf<K>, 'kind'>

const BODIES: { readonly [K in MessageKind]: fc.Arbitrary<Drawn<K>> } = {
  hello: fc.record({
    protoMin: u16,
    protoMax: u16,
    role: fc.constantFrom('scheduler', 'worker'),
    pid: u32,
    bootNonce: u64,
    engine: name,
    engineVersion: name,
    adapterVersion: name,
  }),
  register: fc.record({
    instanceId: bytes(16),
    namespaceInputs: some(fc.record({ tag: name, value: fc.uint8Array({ maxLength: 40 }) })),
    claimedDigest: bytes(32),
    tpRank: u16,
    tpSize: u16,
    ppRank: u16,
    ppSize: u16,
    worldSize: u16,
    pageFirst: fc.boolean(),
    device: fc.record({ kind: fc.constantFrom('host', 'cuda'), uuid: bytes(16) }),
    allocations: some(
      fc.oneof(
        fc.record({ kind: fc.constant('host_fd' as const), bytes: u64 }),
        fc.record({ kind: fc.constant('cuda_ipc' as const), handle: bytes(64), offsetBytes: u64, bytes: u64 }),
        fc.record({ kind: fc.constant('local_mapping' as const), bytes: u64, mapping: u32 }),
      ),
    ),
    groups: some(
      fc.record({
        id: u32,
        kind: fc.constantFrom('full-attention', 'sliding-window', 'checkpoint'),
        blockTokens: u32,
        window: u32,
      }),
    ),
    regions: some(
      fc.record({
        layer: name,
        group: u32,
        allocation: u32,
        offsetBytes: u64,
        pageCount: u32,
        pageStrideBytes: u64,
        segments: fc.constantFrom(1, 2),
        segmentBytes: u64,
        segmentStrideBytes: u64,
        dtype: name,
        kvRole: fc.constantFrom('packed', 'k', 'v', 'latent', 'state', 'opaque'),
        headDim: u32,
        heads: u32,
      }),
    ),
    canaries: some(fc.record({ region: u32, firstPage: bytes(64), lastPage: bytes(64) })),
    slotCount: u32,
  }),
  attach: fc.record({ instanceId: bytes(16) }),
  query: fc.record({
    requestId: u64,
    revision: u32,
    allowSsd: fc.boolean(),
    groups: queryGroups,
  }),
  query_poll: fc.record({ ticket: u64 }),
  release: fc.record({ what: fc.constantFrom('lease', 'ticket'), id: u64 }),
  renew: fc.record({ lease: u64, extendMs: u32 }),
  restore: fc.record({
    slot: u32,
    generation,
    lease: u64,
    fence: u64,
    groups: some(fc.record({ group: u32, pairs: count.chain((n) => u32s(2 * n)) })),
  }),
  publish: fc.record({
    slot: u32,
    generation,
    fence: u64,
    partialOk: fc.boolean(),
    groups: some(
      count.chain((n) =>
        fc.record({
          group: u32,
          layers: fc.option(u32s(), { nil: null }),
          items: fc.record({ keys: someKeys(n), pages: u32s(n) }),
        }),
      ),
    ),
  }),
  cancel: fc.record({ slot: u32, generation }),
  unregister: fc.record({}),
  sync: fc.record({ ssd: fc.boolean() }),
  drop_dram: fc.record({}),
  drain: fc.record({}),
  inspect: fc.record({ what: name }),
  ping: fc.record({ seq: u64, slotsOutstanding: u32 }),
  stats: fc.record({}),
  prepare: fc.record({ requestId: u64, revision: u32, groups: queryGroups }),
  prepare_poll: fc.record({ ticket: u64 }),
  claim: fc.record({ ticket: u64, requestId: u64, revision: u32, groups: queryGroups }),
  warm: fc.record({ groups: queryGroups }),
  welcome: fc.record({
    proto: u16,
    managerEpoch: u64,
    limits: fc.record({ queriesOutstanding: u32, keysPerQuery: u32, slots: u32, frameBytes: u32 }),
    features: u32,
  }),
  registered: fc.record({
    session: u32,
    sessionGeneration: u64,
    sealed: fc.boolean(),
    ranksPresent: u16,
    storageNamespace: bytes(32),
    granuleBytesMax: u32,
    slots: u32,
  }),
  attached: fc.record({
    session: u32,
    sessionGeneration: u64,
    sealed: fc.boolean(),
    ranksPresent: u16,
    worldSize: u16,
    storageNamespace: bytes(32),
  }),
  ready: fc.record({
    boundaries: u32s(),
    otherBoundaries: u32s(),
    lease: u64,
    blocksDram: u32,
    blocksSsd: u32,
    expiresInMs: u32,
  }),
  loading: fc.record({ ticket: u64 }),
  miss: fc.record({}),
  busy: fc.record({}),
  ack: fc.record({}),
  renewed: fc.record({ expiresInMs: u32 }),
  publishing: fc.record({ accepted: u32, present: u32, assembling: u32, skipped: u32 }),
  numbers: fc.record({
    values: some(fc.record({ name, value: fc.double({ noNaN: true, noDefaultInfinity: true }) })),
  }),
  pong: fc.record({ seq: u64, managerEpoch: u64 }),
  prepared: fc.record({ ticket: u64, blocks: u32, blocksReady: u32, loading: fc.boolean(), expiresInMs: u32 }),
  warming: fc.record({ accepted: u32, resident: u32, skipped: u32 }),
  error: fc.record({ code: u16, message: name, values: some(fc.record({ name, value: name })) }),
}

/** A message of any kind, and a request number. */
export const framed: fc.Arbitrary<{ request: number; message: WireMessage }> = fc.oneof(
  ...(Object.keys(BODIES) as MessageKind[]).map((kind) =>
    fc.record({
      request: u64,
      message: (BODIES[kind] as fc.Arbitrary<object>).map((body) => ({ kind, ...body }) as WireMessage),
    }),
  ),
)
