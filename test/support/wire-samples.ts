import type { WireMessage } from '../../src/shared/layout/wire/messages.js'
import { SLOT_GENERATION_MAX } from '../../src/shared/layout/wire/slots.js'

/** Messages of every kind at the ends of what their fields may hold; golden vectors are made of them. */

const U32 = 0xffffffff
const U64 = Number.MAX_SAFE_INTEGER

/** `length` bytes that all differ from their neighbours. */
export function pattern(length: number, seed: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (seed + i * 7) & 0xff)
}

const region = {
  layer: 'model.layers.0.attn',
  group: 0,
  allocation: 0,
  offsetBytes: 0,
  pageCount: 1024,
  pageStrideBytes: 65536,
  segments: 1,
  segmentBytes: 65536,
  segmentStrideBytes: 65536,
  dtype: 'bfloat16',
  kvRole: 'packed',
  headDim: 128,
  heads: 8,
} as const

const NUL = String.fromCharCode(0)

export const SAMPLES: readonly { readonly name: string; readonly request: number; readonly message: WireMessage }[] = [
  {
    name: 'hello: ordinary',
    request: 1,
    message: {
      kind: 'hello',
      protoMin: 1,
      protoMax: 1,
      role: 'worker',
      pid: 4711,
      bootNonce: 0x1122334455667,
      engine: 'vllm',
      engineVersion: '0.31.0',
      adapterVersion: '0.1.0',
    },
  },
  {
    name: 'hello: ends of every field, text of one to four bytes a character',
    request: U64,
    message: {
      kind: 'hello',
      protoMin: 0,
      protoMax: 65535,
      role: 'scheduler',
      pid: U32,
      bootNonce: U64,
      engine: '',
      engineVersion: `é漢😀${NUL}\u007f\u0080\u07ff\u0800\uffff\u{10000}\u{10ffff}`,
      adapterVersion: 'x'.repeat(256),
    },
  },
  {
    name: 'register: one rank, one region',
    request: 2,
    message: {
      kind: 'register',
      instanceId: pattern(16, 1),
      namespaceInputs: [{ tag: 'model', value: pattern(5, 2) }],
      claimedDigest: pattern(32, 3),
      tpRank: 0,
      tpSize: 1,
      ppRank: 0,
      ppSize: 1,
      worldSize: 1,
      pageFirst: false,
      device: { kind: 'host', uuid: new Uint8Array(16) },
      allocations: [{ kind: 'host_fd', bytes: 67108864 }],
      groups: [{ id: 0, kind: 'full-attention', blockTokens: 16, window: 0 }],
      regions: [region],
      canaries: [],
      slotCount: 64,
    },
  },
  {
    name: 'register: several of everything',
    request: 3,
    message: {
      kind: 'register',
      instanceId: pattern(16, 200),
      namespaceInputs: [
        { tag: 'salt', value: new Uint8Array(0) },
        { tag: 'größe', value: pattern(300, 9) },
      ],
      claimedDigest: pattern(32, 90),
      tpRank: 3,
      tpSize: 4,
      ppRank: 65535,
      ppSize: 65535,
      worldSize: 65535,
      pageFirst: true,
      device: { kind: 'cuda', uuid: pattern(16, 77) },
      allocations: [
        { kind: 'host_fd', bytes: U64 },
        { kind: 'cuda_ipc', bytes: 0 },
      ],
      groups: [
        { id: 0, kind: 'full-attention', blockTokens: 16, window: 0 },
        { id: 1, kind: 'sliding-window', blockTokens: 32, window: 4096 },
        { id: U32, kind: 'checkpoint', blockTokens: U32, window: U32 },
      ],
      regions: [
        { ...region, segments: 2, segmentBytes: 512, segmentStrideBytes: 1048576, kvRole: 'k' },
        { ...region, layer: 'l1', group: 1, allocation: 1, offsetBytes: U64, kvRole: 'v' },
        { ...region, layer: 'l2', pageCount: U32, pageStrideBytes: U64, kvRole: 'latent', dtype: '' },
        { ...region, layer: 'l3', kvRole: 'state', headDim: U32, heads: U32 },
        { ...region, layer: 'l4', kvRole: 'opaque', segmentBytes: U64, segmentStrideBytes: U64 },
      ],
      canaries: [{ region: 4, firstPage: pattern(64, 5), lastPage: pattern(64, 6) }],
      slotCount: U32,
    },
  },
  {
    name: 'register: memory of the same process, between two of the other kinds',
    request: 3,
    message: {
      kind: 'register',
      instanceId: pattern(16, 3),
      namespaceInputs: [],
      claimedDigest: pattern(32, 4),
      tpRank: 0,
      tpSize: 1,
      ppRank: 0,
      ppSize: 1,
      worldSize: 1,
      pageFirst: false,
      device: { kind: 'host', uuid: new Uint8Array(16) },
      allocations: [
        { kind: 'host_fd', bytes: 4096 },
        { kind: 'local_mapping', bytes: U64, mapping: 7 },
        { kind: 'local_mapping', bytes: 65536, mapping: U32 },
        { kind: 'host_fd', bytes: 8192 },
      ],
      groups: [{ id: 0, kind: 'full-attention', blockTokens: 16, window: 0 }],
      regions: [region],
      canaries: [],
      slotCount: 1,
    },
  },
  { name: 'attach', request: 4, message: { kind: 'attach', instanceId: pattern(16, 1) } },
  {
    name: 'query: two groups',
    request: 5,
    message: {
      kind: 'query',
      requestId: 99,
      revision: 1,
      allowSsd: true,
      groups: [
        { group: 0, firstBlock: 2, keys: pattern(96, 11) },
        { group: 1, firstBlock: 0, keys: pattern(32, 12) },
      ],
    },
  },
  {
    name: 'query: nothing asked',
    request: 0,
    message: { kind: 'query', requestId: U64, revision: U32, allowSsd: false, groups: [] },
  },
  { name: 'query_poll', request: 6, message: { kind: 'query_poll', ticket: U64 } },
  { name: 'release: lease', request: 7, message: { kind: 'release', what: 'lease', id: 1 } },
  { name: 'release: ticket', request: 8, message: { kind: 'release', what: 'ticket', id: U64 } },
  { name: 'renew', request: 9, message: { kind: 'renew', lease: 2 ** 32, extendMs: 60000 } },
  {
    name: 'restore: two groups',
    request: 10,
    message: {
      kind: 'restore',
      slot: 3,
      generation: 12,
      lease: 77,
      fence: 5,
      groups: [
        { group: 0, pairs: Uint32Array.of(0, 17, 1, 18, 2, U32) },
        { group: 1, pairs: new Uint32Array(0) },
      ],
    },
  },
  {
    name: 'restore: last generation',
    request: 11,
    message: { kind: 'restore', slot: U32, generation: SLOT_GENERATION_MAX, lease: U64, fence: U64, groups: [] },
  },
  {
    name: 'publish: all layers, and some layers',
    request: 12,
    message: {
      kind: 'publish',
      slot: 0,
      generation: 1,
      fence: 0,
      partialOk: true,
      groups: [
        { group: 0, layers: null, items: { keys: pattern(64, 21), pages: Uint32Array.of(4, 5) } },
        { group: 2, layers: Uint32Array.of(0, 3, 7), items: { keys: pattern(32, 22), pages: Uint32Array.of(U32) } },
        { group: 3, layers: new Uint32Array(0), items: { keys: new Uint8Array(0), pages: new Uint32Array(0) } },
      ],
    },
  },
  { name: 'cancel', request: 13, message: { kind: 'cancel', slot: 9, generation: 2 ** 33 } },
  { name: 'unregister', request: 14, message: { kind: 'unregister' } },
  { name: 'sync: insertion', request: 15, message: { kind: 'sync', ssd: false } },
  { name: 'sync: writes too', request: 16, message: { kind: 'sync', ssd: true } },
  { name: 'drop_dram', request: 17, message: { kind: 'drop_dram' } },
  { name: 'drain', request: 18, message: { kind: 'drain' } },
  { name: 'inspect', request: 19, message: { kind: 'inspect', what: 'storage' } },
  { name: 'ping', request: 20, message: { kind: 'ping', seq: 2 ** 40 + 1, slotsOutstanding: 2 } },
  { name: 'stats', request: 21, message: { kind: 'stats' } },
  {
    name: 'welcome',
    request: 1,
    message: {
      kind: 'welcome',
      proto: 1,
      managerEpoch: U64,
      limits: { queriesOutstanding: 128, keysPerQuery: 32000, slots: 1024, frameBytes: 1048576 },
      features: 0x80000003,
    },
  },
  {
    name: 'registered',
    request: 2,
    message: {
      kind: 'registered',
      session: 7,
      sessionGeneration: 8,
      sealed: true,
      ranksPresent: 1,
      storageNamespace: pattern(32, 31),
      granuleBytesMax: 1048576,
      slots: 64,
    },
  },
  {
    name: 'attached: not sealed',
    request: 4,
    message: {
      kind: 'attached',
      session: 9,
      sessionGeneration: 10,
      sealed: false,
      ranksPresent: 1,
      worldSize: 2,
      storageNamespace: new Uint8Array(32),
    },
  },
  {
    name: 'ready: one boundary',
    request: 5,
    message: {
      kind: 'ready',
      boundaries: Uint32Array.of(48),
      lease: 77,
      blocksDram: 1,
      blocksSsd: 2,
      expiresInMs: 60000,
    },
  },
  {
    name: 'ready: boundaries at the ends',
    request: 5,
    message: {
      kind: 'ready',
      boundaries: Uint32Array.of(0, 1, U32),
      lease: U64,
      blocksDram: U32,
      blocksSsd: U32,
      expiresInMs: U32,
    },
  },
  { name: 'loading', request: 5, message: { kind: 'loading', ticket: 5 } },
  { name: 'miss', request: 5, message: { kind: 'miss' } },
  { name: 'busy', request: 5, message: { kind: 'busy' } },
  { name: 'ack', request: 7, message: { kind: 'ack' } },
  { name: 'renewed', request: 9, message: { kind: 'renewed', expiresInMs: 60000 } },
  {
    name: 'publishing',
    request: 12,
    message: { kind: 'publishing', accepted: 1, present: 2, assembling: 3, skipped: U32 },
  },
  {
    name: 'numbers',
    request: 21,
    message: {
      kind: 'numbers',
      values: [
        { name: 'restored_bytes', value: 2 ** 52 + 1 },
        { name: 'ratio', value: -0.1 },
        { name: 'least', value: 5e-324 },
        { name: 'most', value: Number.MAX_VALUE },
      ],
    },
  },
  { name: 'numbers: none', request: 19, message: { kind: 'numbers', values: [] } },
  { name: 'pong', request: 20, message: { kind: 'pong', seq: 2 ** 40 + 1, managerEpoch: 3 } },
  {
    name: 'error',
    request: 10,
    message: {
      kind: 'error',
      code: 98,
      message: 'Cannot restore into page 4096 of group 0: the rank registered 1024 pages',
      values: [
        { name: 'page', value: '4096' },
        { name: 'group', value: '0' },
      ],
    },
  },
  {
    name: 'error: unknown code, longest message',
    request: 11,
    message: { kind: 'error', code: 65535, message: '漢'.repeat(85), values: [] },
  },
]
