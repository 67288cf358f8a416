import { createHash } from 'node:crypto'
import { ManagerMachine } from '../../src/manager/machine.js'
import type { ManagerEffect, ManagerInput } from '../../src/manager/messages.js'
import { MANAGER_DEFAULTS, type ManagerOptions } from '../../src/manager/options.js'
import type { ManagerPorts } from '../../src/manager/ports.js'
import type { StorageOptions } from '../../src/manager/storage/ports.js'
import { Storage } from '../../src/manager/storage/storage.js'
import { plainDigest } from '../../src/shared/layout/namespace.js'
import { decodeReply, encodeFrame } from '../../src/shared/layout/wire/frame.js'
import { PROTO_MAX } from '../../src/shared/layout/wire/limits.js'
import type { MessageOf, WireReply, WireRequest } from '../../src/shared/layout/wire/messages.js'
import { PlainTally } from '../support/plain-tally.js'
import { keysOf, SMALL } from './storage/fixture.js'

const PAGES = 8
const SEGMENT_BYTES = 4096
const INPUTS = new Map([['model', Uint8Array.of(1)]])
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest()

/** A Manager's machine with engines that speak real frames, and lanes that answer when the test says so. */
export class ManagerFixture {
  /** Every effect and every call of a port that gives something back, in order. */
  readonly log: (
    | ManagerEffect
    | { readonly kind: 'close-fd' | 'release-mapping' | 'port-release-slots'; readonly number: number }
  )[] = []
  /** What copy templates were defined from, in order. */
  readonly templates: { readonly items: Float64Array; readonly codings: Float64Array | undefined }[] = []
  readonly machine: ManagerMachine
  readonly storage: Storage
  nowUs = 1_000
  /** Of every allocation. */
  memoryBytes = PAGES * SEGMENT_BYTES
  /** What the driver would say. */
  importDevice: ManagerPorts['importDeviceMemory'] = () => ({ refused: 'ENODEV', text: 'no such device' })
  #next = 1

  constructor(options: Partial<ManagerOptions> = {}, sizes: Partial<StorageOptions> = {}) {
    let storage: Storage | null = null
    const note = (kind: 'close-fd' | 'release-mapping' | 'port-release-slots') => (number: number) =>
      void this.log.push({ kind, number })
    const ports: ManagerPorts = {
      sha256,
      importMemory: () => ({ mapping: this.#next++, bytes: this.memoryBytes, device: 'host' }),
      importDeviceMemory: (uuid, handle, offsetBytes, bytes) => this.importDevice(uuid, handle, offsetBytes, bytes),
      borrowMapping: () => null,
      releaseMapping: note('release-mapping'),
      readMapping: (_, __, bytes) => new Uint8Array(bytes),
      defineTemplate: (items, _, codings) => {
        this.templates.push({ items, codings })
        return this.#next++
      },
      releaseTemplate: () => {},
      createSlots: () => ({ slots: this.#next++, clientFd: 101, managerFd: 102, eventFd: 103 }),
      slotWord: () => 0,
      releaseSlots: note('port-release-slots'),
      closeFd: note('close-fd'),
    }
    const all: ManagerOptions = {
      ...MANAGER_DEFAULTS,
      epoch: 1,
      uids: [0],
      ssd: true,
      queryBudgetBytes: 1 << 20,
      queryInstanceBudgetBytes: 1 << 20,
      ...options,
    }
    this.machine = new ManagerMachine(
      all,
      ports,
      (storagePorts) => {
        storage = new Storage({ ...SMALL, ...sizes }, storagePorts, new PlainTally())
        return storage
      },
      new PlainTally(),
      2,
    )
    this.storage = storage as unknown as Storage
    this.step({ kind: 'tick', nowUs: this.nowUs })
  }

  step(input: ManagerInput): ManagerEffect[] {
    const out: ManagerEffect[] = []
    this.machine.step(input, out)
    this.log.push(...out)
    return out
  }

  tick(afterUs: number): ManagerEffect[] {
    this.nowUs += afterUs
    return this.step({ kind: 'tick', nowUs: this.nowUs })
  }

  /** One frame of a connection; its reply, or null when none came in this step. */
  ask(connection: number, message: WireRequest, fds: readonly number[] = []): WireReply | null {
    const target = new Uint8Array(65_536)
    const frame = target.slice(0, encodeFrame(target, this.#next++, message))
    for (const effect of this.step({ kind: 'frame', connection, frame, fds })) {
      if (effect.kind === 'send' && effect.connection === connection) return decodeReply(effect.frame).message
    }
    return null
  }

  /** Connects an engine of `ranks` ranks on connections `first`, `first + 1`, …: greeted, registered, sealed. */
  engine(first: number, ranks = 1): void {
    for (let rank = 0; rank < ranks; rank++) {
      const connection = first + rank
      this.greet(connection)
      const reply = this.ask(connection, registration(first, rank, ranks), [50])
      if (reply?.kind !== 'registered') throw new Error(`rank ${rank} is not registered: ${JSON.stringify(reply)}`)
    }
  }

  greet(connection: number, protoMax = PROTO_MAX): void {
    this.step({ kind: 'accepted', connection, uid: 0, pid: connection })
    this.ask(connection, { ...HELLO, protoMax })
  }

  /** Publishes key `key` from page `page` through slot `slot`. */
  publish(connection: number, slot: number, generation: number, key: number, page = 0): WireReply | null {
    const items = { keys: keysOf(key), pages: Uint32Array.of(page) }
    const groups = [{ group: 0, layers: null, items }]
    return this.ask(connection, { kind: 'publish', slot, generation, fence: 0, partialOk: false, groups })
  }

  /** What the log holds of some kinds, from `from` on. */
  kinds(from: number, ...wanted: string[]): string[] {
    return this.log.slice(from).flatMap(({ kind }) => (wanted.includes(kind) ? [kind] : []))
  }
}

export const HELLO = {
  kind: 'hello',
  protoMin: 1,
  protoMax: 1,
  role: 'worker',
  pid: 1,
  bootNonce: 1,
  engine: 'test',
  engineVersion: '1',
  adapterVersion: '1',
} as const

/** REGISTER of one rank with one layer. */
export function registration(
  instance: number,
  tpRank: number,
  tpSize: number,
  segmentBytes = SEGMENT_BYTES,
): MessageOf<'register'> {
  return {
    kind: 'register',
    instanceId: new Uint8Array(16).fill(instance),
    namespaceInputs: [...INPUTS].map(([tag, value]) => ({ tag, value })),
    claimedDigest: plainDigest(sha256, INPUTS),
    tpRank,
    tpSize,
    ppRank: 0,
    ppSize: 1,
    worldSize: tpSize,
    pageFirst: false,
    device: { kind: 'host', uuid: new Uint8Array(16) },
    allocations: [{ kind: 'host_fd', bytes: PAGES * SEGMENT_BYTES }],
    groups: [{ id: 0, kind: 'full-attention', blockTokens: 16, window: 0 }],
    regions: [
      {
        layer: 'layer.0',
        group: 0,
        allocation: 0,
        offsetBytes: 0,
        pageCount: PAGES,
        pageStrideBytes: SEGMENT_BYTES,
        segments: 1,
        segmentBytes,
        segmentStrideBytes: segmentBytes,
        dtype: 'bf16',
        kvRole: 'packed',
        headDim: 128,
        heads: 1,
      },
    ],
    canaries: [],
    slotCount: 4,
  }
}
