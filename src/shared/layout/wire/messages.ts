import {
  between,
  blob,
  bool,
  bytes,
  choice,
  type Field,
  f64,
  keyedPages,
  keys,
  list,
  numbers,
  optional,
  pairs,
  record,
  text,
  u8,
  u16,
  u32,
  u64,
  type ValueOf,
  variant,
} from './fields.js'
import {
  ALLOCATIONS_MAX,
  CANARY_BYTES,
  DEVICE_UUID_BYTES,
  DIGEST_BYTES,
  GROUPS_MAX,
  INPUT_BYTES_MAX,
  INPUTS_MAX,
  INSTANCE_ID_BYTES,
  IPC_HANDLE_BYTES,
  MESSAGE_BYTES_MAX,
  NAME_BYTES_MAX,
  NUMBERS_MAX,
  REGIONS_MAX,
} from './limits.js'
import { SLOT_GENERATION_MAX } from './slots.js'

/**
 * The frame table: every message between an engine process and the Manager, once. TypeScript types, encoder, decoder
 * and the drawing in docs/internals/protocol.md come from here; golden vectors hold the Python client to it.
 *
 * Fields stand in this order without padding, little endian. A field never moves or changes within one protocol
 * version; `protoMin` and `protoMax` of HELLO never move at all, so that any two versions can refuse each other.
 */

const name = text(NAME_BYTES_MAX)
const digest = bytes(DIGEST_BYTES)
const instanceId = bytes(INSTANCE_ID_BYTES)
/** Index of a completion slot and the client's generation of it: greater than every earlier one of that slot. */
const slot = { slot: u32, generation: between(u64, 1, SLOT_GENERATION_MAX) }
const numberList = list(record({ name, value: f64 }), NUMBERS_MAX)

/** Memory that holds pages. */
const allocation = variant({
  /** A sealed memory file: its descriptor rides along. */
  host_fd: record({ bytes: u64 }),
  /**
   * Device memory of another process on this host, since version 2: the raw handle of the driver's allocation, and the
   * bytes of it that are meant. An interior pointer has the same handle, so the offset is never implied.
   */
  cuda_ipc: record({ handle: bytes(IPC_HANDLE_BYTES), offsetBytes: u64, bytes: u64 }),
  /** A mapping of the Manager's own process, by its number there: an embedded runtime's engines alone may name one. */
  local_mapping: record({ bytes: u64, mapping: u32 }),
})

/** One region as the engine describes it: see RegionSpec in shared/layout. */
const region = record({
  layer: name,
  group: u32,
  /** Index into `allocations`. */
  allocation: u32,
  offsetBytes: u64,
  pageCount: u32,
  pageStrideBytes: u64,
  /** Segments of one page: 2 when K and V are apart, else 1. */
  segments: between(u8, 1, 2) as Field<1 | 2>,
  segmentBytes: u64,
  /** From K to V; equal to segmentBytes when they adjoin or when there is one segment. */
  segmentStrideBytes: u64,
  dtype: name,
  kvRole: choice(['packed', 'k', 'v', 'latent', 'state', 'opaque']),
  headDim: u32,
  heads: u32,
})

/**
 * Part of a query: `keys` are consecutive blocks of the request, the first of them its block number `firstBlock`.
 * Earlier blocks of full attention and windows are the engine's own; a checkpoint is never taken to be.
 */
const queryGroup = record({ group: u32, firstBlock: u32, keys })

/**
 * Pairs (source, page): source counts the keys of this group in the query, page is the engine's page number. A lease
 * holds the sources that its largest boundary needs; others are refused.
 */
const restoreGroup = record({ group: u32, pairs })

/** `layers` null: every layer of this rank; else indices into its `regions`. */
const publishGroup = record({ group: u32, layers: optional(numbers), items: keyedPages })

const errorValue = record({ name, value: text(NAME_BYTES_MAX) })

/** What a session of this protocol may hold at once; the Manager refuses more. */
const limits = record({
  /** Queries loading or leased, of one session. */
  queriesOutstanding: u32,
  /** Keys of all groups of one query. */
  keysPerQuery: u32,
  /** Completion slots that REGISTER may ask for. */
  slots: u32,
  /** Bytes of a frame with its length word. */
  frameBytes: u32,
})

/** Everything a client may send. A request is answered by exactly one reply with its request number. */
const REQUESTS = {
  /** First frame of a connection. Answered by `welcome`. */
  hello: {
    type: 1,
    body: record({
      protoMin: u16,
      protoMax: u16,
      role: choice(['scheduler', 'worker']),
      pid: u32,
      /** Random of this process start, so that a reused pid is not mistaken for it. */
      bootNonce: u64,
      engine: name,
      engineVersion: name,
      adapterVersion: name,
    }),
  },
  /**
   * Worker: one rank of an instance joins with its memory, all of it on one device. Carries one descriptor for each
   * host_fd, in their order.
   * Answered by `registered`.
   */
  register: {
    type: 2,
    body: record({
      instanceId,
      /** Everything that makes cached bytes meaningful: model, dtype, hash seed, salt, ... */
      namespaceInputs: list(record({ tag: name, value: blob(INPUT_BYTES_MAX) }), INPUTS_MAX),
      /** plainDigest of those inputs as the client computed it; the Manager computes its own. */
      claimedDigest: digest,
      tpRank: u16,
      tpSize: u16,
      ppRank: u16,
      ppSize: u16,
      worldSize: u16,
      /** One allocation holds whole pages of all layers of a rank. */
      pageFirst: bool,
      device: record({ kind: choice(['host', 'cuda']), uuid: bytes(DEVICE_UUID_BYTES) }),
      allocations: list(allocation, ALLOCATIONS_MAX),
      groups: list(
        record({
          id: u32,
          kind: choice(['full-attention', 'sliding-window', 'checkpoint']),
          blockTokens: u32,
          /** Tokens of a sliding window, 0 for none. */
          window: u32,
        }),
        GROUPS_MAX,
      ),
      regions: list(region, REGIONS_MAX),
      /**
       * What the Manager must find where it maps a region: the first min(64, segmentBytes) bytes of its first and of
       * its last page, zero-filled to 64. A region without a canary is not compared.
       */
      canaries: list(
        record({ region: u32, firstPage: bytes(CANARY_BYTES), lastPage: bytes(CANARY_BYTES) }),
        REGIONS_MAX,
      ),
      slotCount: u32,
    }),
  },
  /** Scheduler: this session speaks for an instance that workers have begun to register. Answered by `attached`. */
  attach: { type: 3, body: record({ instanceId }) },
  /** Answered by `ready`, `loading`, `miss` or `busy`; never waits for a device. */
  query: {
    type: 4,
    body: record({
      /** The engine's request; a repeated (requestId, revision) names the same query. */
      requestId: u64,
      /** A higher revision replaces the query of a lower one. */
      revision: u32,
      allowSsd: bool,
      groups: list(queryGroup, GROUPS_MAX),
    }),
  },
  /** Answered as `query` is. */
  query_poll: { type: 5, body: record({ ticket: u64 }) },
  /** Ends an interest; idempotent. Answered by `ack`. */
  release: { type: 6, body: record({ what: choice(['lease', 'ticket']), id: u64 }) },
  /** Answered by `renewed`. */
  renew: { type: 7, body: record({ lease: u64, extendMs: u32 }) },
  /** Answered by `ack` once admitted, or `error`; the result is in the slot alone. */
  restore: {
    type: 8,
    body: record({
      ...slot,
      lease: u64,
      /** Pages may be written when the slot's fence word is at least this; 0: at once. */
      fence: u64,
      groups: list(restoreGroup, GROUPS_MAX),
    }),
  },
  /** Answered by `publishing` once admitted, or `error`; the result is in the slot alone. */
  publish: {
    type: 9,
    body: record({
      ...slot,
      /** Pages may be read when the slot's fence word is at least this; 0: at once. */
      fence: u64,
      /** Blocks without room are skipped and counted instead of failing the whole. */
      partialOk: bool,
      groups: list(publishGroup, GROUPS_MAX),
    }),
  },
  /** Takes interest back; the slot still goes through a terminal state. Idempotent. Answered by `ack`. */
  cancel: { type: 10, body: record(slot) },
  /** The rank leaves. Answered by `ack` after everything of the session drained and its memory is unmapped. */
  unregister: { type: 11, body: record({}) },
  /** Waits for the insertion of what was published before it; with `ssd` also for its writes. Answered by `ack`. */
  sync: { type: 12, body: record({ ssd: bool }) },
  /** Evicts every DRAM replica that an SSD replica stands behind and nobody holds. Answered by `numbers`. */
  drop_dram: { type: 13, body: record({}) },
  /** Stops admission for the whole Manager and waits until nothing is in flight. Answered by `ack`. */
  drain: { type: 14, body: record({}) },
  /** State for people and tests. Answered by `numbers`. */
  inspect: { type: 15, body: record({ what: name }) },
  ping: { type: 16, body: record({ seq: u64, slotsOutstanding: u32 }) },
  /** Counters of this instance. Answered by `numbers`. */
  stats: { type: 17, body: record({}) },
  /**
   * Owned speculation: reads the blocks into DRAM before the request needs them and holds them for its session. Sent
   * again with the same (requestId, revision) it is a poll. Ends unless it is polled or claimed within the time that
   * `prepared` says. Answered by `prepared`, `miss` or `busy`.
   */
  prepare: { type: 18, body: record({ requestId: u64, revision: u32, groups: list(queryGroup, GROUPS_MAX) }) },
  /** Asks how far a preparation is, and keeps it. Answered by `prepared`. */
  prepare_poll: { type: 19, body: record({ ticket: u64 }) },
  /**
   * The request has come: a query that takes over what a preparation of the same groups and keys holds. The ticket is
   * spent unless the claim is refused. Answered as `query` is, for the blocks that were prepared.
   */
  claim: {
    type: 20,
    body: record({ ticket: u64, requestId: u64, revision: u32, groups: list(queryGroup, GROUPS_MAX) }),
  },
  /** A hint that nobody owns: blocks may be read into DRAM, nothing is promised. Answered by `warming` or `busy`. */
  warm: { type: 21, body: record({ groups: list(queryGroup, GROUPS_MAX) }) },
} as const

/** Everything the Manager may send: each answers one request, nothing comes unasked. */
const REPLIES = {
  welcome: {
    type: 129,
    body: record({
      proto: u16,
      /** Random of this Manager start; leases, tickets and slots of another epoch are void. */
      managerEpoch: u64,
      limits,
      /** Bit 0: an SSD tier is open. Bit 1: restores may read SSD themselves. Others: ignore. */
      features: u32,
    }),
  },
  /** Carries three descriptors: the client's slot words, the manager's slot words, the eventfd. */
  registered: {
    type: 130,
    body: record({
      session: u32,
      sessionGeneration: u64,
      /** All ranks are there: queries and publications are admitted. */
      sealed: bool,
      ranksPresent: u16,
      /** Zeros until sealed. */
      storageNamespace: digest,
      granuleBytesMax: u32,
      slots: u32,
    }),
  },
  attached: {
    type: 131,
    body: record({
      session: u32,
      sessionGeneration: u64,
      sealed: bool,
      ranksPresent: u16,
      worldSize: u16,
      storageNamespace: digest,
    }),
  },
  ready: {
    type: 132,
    body: record({
      /**
       * Lengths in tokens from the start of the request at which it may be resumed with what the lease holds, rising,
       * at most 256: the largest. The lease holds what the last of them needs. When every group is full attention it
       * is the only one listed: each smaller multiple of the block sizes is served as well.
       */
      boundaries: numbers,
      /**
       * Smaller lengths at which the request could be resumed too, with blocks that the lease does not hold, rising,
       * at most 256: the largest. To use one, query again without the keys behind it.
       */
      otherBoundaries: numbers,
      lease: u64,
      /** Blocks under the lease by where the query found them. */
      blocksDram: u32,
      blocksSsd: u32,
      expiresInMs: u32,
    }),
  },
  loading: { type: 133, body: record({ ticket: u64 }) },
  miss: { type: 134, body: record({}) },
  /** Over budget now: treat as a miss or ask again in a later step. */
  busy: { type: 135, body: record({}) },
  ack: { type: 136, body: record({}) },
  renewed: { type: 137, body: record({ expiresInMs: u32 }) },
  /** How the items of a publication were taken; the four add up to the items sent. */
  publishing: {
    type: 138,
    body: record({
      /** Being copied now. */
      accepted: u32,
      /** Already published by somebody: nothing to do. */
      present: u32,
      /** Somebody else is publishing them now. */
      assembling: u32,
      /** No room, and partialOk. */
      skipped: u32,
    }),
  },
  numbers: { type: 139, body: record({ values: numberList }) },
  pong: { type: 140, body: record({ seq: u64, managerEpoch: u64 }) },
  prepared: {
    type: 142,
    body: record({
      ticket: u64,
      /** Blocks that the preparation holds, and those of them that are in DRAM. */
      blocks: u32,
      blocksReady: u32,
      /** Reads are outstanding or will be submitted. */
      loading: bool,
      /** Without another poll or a claim, it ends then. */
      expiresInMs: u32,
    }),
  },
  warming: {
    type: 143,
    body: record({
      /** Blocks that will be read, as far as memory allows. */
      accepted: u32,
      /** Blocks that were in DRAM or on their way there. */
      resident: u32,
      /** Found blocks that the speculative budget does not cover. */
      skipped: u32,
    }),
  },
  error: {
    type: 141,
    body: record({
      /** ERROR_CODES; a number that the receiver does not know is still an error. */
      code: u16,
      message: text(MESSAGE_BYTES_MAX),
      values: list(errorValue, 64),
    }),
  },
} as const

export const MESSAGES = { ...REQUESTS, ...REPLIES } as const

type Table = typeof MESSAGES
/** Name of a message. */
export type MessageKind = keyof Table
/** The message of one kind: its fields and `kind`. */
export type MessageOf<K extends MessageKind> = K extends MessageKind
  ? { readonly kind: K } & ValueOf<Table[K]['body']>
  : never
export type RequestKind = keyof typeof REQUESTS
export type ReplyKind = keyof typeof REPLIES
/** What a client sends. */
export type WireRequest = MessageOf<RequestKind>
/** What the Manager answers. */
export type WireReply = MessageOf<ReplyKind>
export type WireMessage = WireRequest | WireReply

export function isRequestKind(kind: MessageKind): kind is RequestKind {
  return kind in REQUESTS
}

/** Descriptors that must ride with a message, no more and no fewer. */
export function descriptorsOf(message: WireMessage): number {
  if (message.kind === 'register') return message.allocations.filter(({ kind }) => kind === 'host_fd').length
  return message.kind === 'registered' ? 3 : 0
}
