import { createHash } from 'node:crypto'
import { ManagerMachine } from '../../../src/manager/machine.js'
import type { ManagerEffect, ManagerInput } from '../../../src/manager/messages.js'
import { MANAGER_DEFAULTS, type ManagerOptions } from '../../../src/manager/options.js'
import type { ManagerPorts } from '../../../src/manager/ports.js'
import { census } from '../../../src/manager/storage/census.js'
import { Storage } from '../../../src/manager/storage/storage.js'
import { ERROR_CODES, type ErrorCode } from '../../../src/shared/base/errors.js'
import { KIB, MIB } from '../../../src/shared/base/units.js'
import { READ, WRITE } from '../../../src/shared/layout/descriptors.js'
import { plainDigest } from '../../../src/shared/layout/namespace.js'
import { listAt } from '../../../src/shared/layout/records.js'
import type { GroupSpec } from '../../../src/shared/layout/regions.js'
import { decodeReply, encodeFrame } from '../../../src/shared/layout/wire/frame.js'
import { FRAME_BYTES_MAX } from '../../../src/shared/layout/wire/limits.js'
import type { MessageOf, WireReply, WireRequest } from '../../../src/shared/layout/wire/messages.js'
import { FakeTally } from '../storage/lanes.js'

/** Blocks of every group of the rig's instance. */
export const BLOCK_BYTES = 4 * KIB

/** A read that the Manager asked for and nobody has answered. */
export interface PendingRead {
  readonly key: number
  readonly group: number
  readonly store: number
  readonly batch: number
  readonly index: number
  readonly bytes: number
}

const UID = 7
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest()

/** A key for block `block`; the same for every group, whose namespaces differ. */
export function keyBytes(...blocks: readonly number[]): Uint8Array {
  const keys = new Uint8Array(blocks.length * 32)
  for (const [at, block] of blocks.entries()) new DataView(keys.buffer).setUint32(at * 32, block + 1, true)
  return keys
}

/**
 * A whole Manager machine over real storage: requests go in as frames, lanes answer when the test says so. One instance
 * of one layer a group; blocks are published straight into storage.
 */
export class QueryRig {
  readonly machine: ManagerMachine
  readonly storage: Storage
  /** Storage's counters. */
  readonly tally = new FakeTally()
  /** The verbs' counters. */
  readonly verbs = new FakeTally()
  readonly groups: readonly GroupSpec[]
  /** Reads that were asked for, in order. */
  readonly reads: PendingRead[] = []
  readonly restores: ManagerEffect[] = []
  readonly #replies = new Map<number, WireReply>()
  #storage: Storage | null = null
  #request = 0
  readonly #keys = new Map<number, { readonly key: number; readonly group: number }>()

  constructor(groups: readonly GroupSpec[], options: Partial<ManagerOptions> = {}, ranks = 1, dtype = 'bf16') {
    this.groups = groups
    const all: ManagerOptions = {
      ...MANAGER_DEFAULTS,
      epoch: 1,
      uids: [UID],
      ssd: true,
      queryBudgetBytes: MIB,
      queryInstanceBudgetBytes: MIB,
      ...options,
    }
    const sizes = {
      poolBytes: MIB,
      entriesMax: 256,
      directorySeed: [1, 2],
      shards: [{ file: 1, capacityBytes: 4 * MIB, store: 0, writer: 0 }],
      extentAlignmentBytes: 512,
      writeQueueBytesMax: MIB,
      writeWindowBytes: MIB,
      writeWindowBytesMin: 64 * KIB,
      writeWindowRestoreUs: 2_000,
      writePolicy: 'all',
      cache: { protectedBytesMax: 0, lfuAdmission: false },
      assemblyAgeUsMax: 1_000_000,
    } as const
    const make = (ports: ConstructorParameters<typeof Storage>[1]) => {
      this.#storage = new Storage(sizes, ports, this.tally)
      return this.#storage
    }
    this.machine = new ManagerMachine(all, plainPorts(), make, this.verbs, 1)
    if (this.#storage === null) throw new Error('the machine makes its storage')
    this.storage = this.#storage
    for (let rank = 0; rank < ranks; rank++) {
      this.greet(rank)
      const reply = this.ask(registration(groups, rank, ranks, dtype), rank, [3])
      if (reply.kind !== 'registered') throw new Error(JSON.stringify(reply))
    }
  }

  /** Sends a request as rank `rank` and returns its answer. */
  ask(message: WireRequest, rank = 0, fds: readonly number[] = []): WireReply {
    const frame = new Uint8Array(FRAME_BYTES_MAX)
    const request = ++this.#request
    const bytes = encodeFrame(frame, request, message)
    this.step({ kind: 'frame', connection: rank, frame: frame.slice(0, bytes), fds })
    const answer = this.#replies.get(request)
    if (answer === undefined) throw new Error(`${message.kind} is not answered`)
    return answer
  }

  step(input: ManagerInput): void {
    const out: ManagerEffect[] = []
    this.machine.step(input, out)
    const breaches = census(this.storage)
    if (breaches.length > 0) throw new Error(breaches.join('; '))
    for (const effect of out) this.#perform(effect)
  }

  /** Block `block` of a group becomes visible in DRAM; its write to SSD ends at once. `encoded`: as the codec has it. */
  publish(group: number, block: number, encoded = true): void {
    this.#straight(() => this.#seal(group, block, encoded))
  }

  /** Everything that nobody holds is on SSD alone. */
  dropDram(): void {
    this.#straight(() => this.storage.dropDram())
  }

  /** Answers read `at`. */
  endRead(at: number, status: ErrorCode = 'ok'): void {
    const [read] = this.reads.splice(at, 1)
    if (read === undefined) throw new Error(`there is no read ${at}`)
    const { store, batch, index, bytes } = read
    const done = status === 'ok' ? bytes : 0
    this.step({
      kind: 'host-reader',
      store,
      reply: { kind: 'read-done', batch, index, status: ERROR_CODES[status], bytes: done },
    })
  }

  query(message: Omit<MessageOf<'query'>, 'kind'>): WireReply {
    return this.ask({ kind: 'query', ...message })
  }

  /** Which blocks of a group a lease holds, by the keys of the query that led to it. */
  heldSources(lease: number): Record<number, number[]> {
    const held: Record<number, number[]> = {}
    for (const { group, firstSource, count } of this.machine.context.leaseRecords.get(lease)?.spans ?? []) {
      held[group] = Array.from({ length: count }, (_, index) => firstSource + index)
    }
    return held
  }

  /** Calls that go past the machine: what they ask of lanes is performed all the same. */
  #straight(call: () => void): void {
    const out: ManagerEffect[] = []
    this.machine.context.out = out
    call()
    for (const effect of out) this.#perform(effect)
  }

  #seal(group: number, block: number, encoded: boolean): void {
    const { storage } = this
    const seal = [...this.machine.context.instances][0]?.seal
    const { entry, outcome } = storage.claim(seal?.classes[group] as number, keyBytes(block), 0)
    if (outcome !== 'new') throw new Error(`block ${block} of group ${group}: ${outcome}`)
    if (storage.allocate(entry) !== 'ok') throw new Error('no memory')
    const { granules } = storage.geometryOf(entry)
    const runs: number[] = []
    const whole = granules.map(({ itemCount }, granule) => ({ granule, firstItem: 0, itemCount }))
    storage.contribute(entry, whole, runs)
    for (let granule = 0; granule < granules.length; granule++) {
      const room = storage.codedRoom(entry, granule)
      if (room > 0 && encoded) storage.coded(entry, granule, room, 1)
      else if (room > 0) this.#refuse(entry, runs, granule)
    }
    storage.landed(entry, runs, 0, runs.length)
    for (const granule of storage.unchecked(entry)) storage.setCrc(entry, granule, 1)
    storage.seal(entry)
    this.#keys.set(storage.generationOf(entry), { key: block, group })
  }

  /** The codec refuses a granule; its copy begins once more. */
  #refuse(entry: number, runs: readonly number[], granule: number): void {
    const { storage } = this
    storage.copyFailed(entry, runs, granule * 3, granule * 3 + 3)
    storage.keepRaw(entry, granule)
    if (storage.allocate(entry) !== 'ok') throw new Error('no memory')
    storage.contribute(entry, [{ granule, firstItem: 0, itemCount: 1 }], [])
  }

  /** Connects a worker and greets. */
  greet(rank: number): void {
    this.step({ kind: 'accepted', connection: rank, uid: UID, pid: 1 })
    const hello = {
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
    this.ask(hello, rank)
  }

  #perform(effect: ManagerEffect): void {
    switch (effect.kind) {
      case 'send': {
        const { request, message } = decodeReply(effect.frame)
        this.#replies.set(request, message)
        break
      }
      case 'to-host-reader':
        this.#read(effect)
        break
      case 'to-writeback':
        if (effect.request.kind === 'write') this.#written(effect)
        break
      case 'to-dram-worker':
      case 'to-host-restore':
        this.restores.push(effect)
        break
      default:
    }
  }

  #read({ store, request }: Extract<ManagerEffect, { kind: 'to-host-reader' }>): void {
    if (request.kind !== 'read-batch') return
    const { batch, list } = request
    const entry = this.storage.fills.entryOf(batch)
    const known = this.#keys.get(this.storage.generationOf(entry))
    if (known === undefined) throw new Error('a read is for a block that was published')
    for (let at = 0; at < list.length; at += READ.doubles) {
      const index = listAt(list, at + READ.index)
      this.reads.push({ ...known, store, batch, index, bytes: listAt(list, at + READ.bytes) })
    }
  }

  #written({ store, request }: Extract<ManagerEffect, { kind: 'to-writeback' }>): void {
    if (request.kind !== 'write') return
    let bytes = 0
    for (let at = 0; at < request.list.length; at += WRITE.doubles) bytes += listAt(request.list, at + WRITE.bytes)
    this.step({
      kind: 'writeback',
      store,
      reply: { kind: 'write-done', job: request.job, status: 0, bytes, latencyUs: 1 },
    })
  }
}

/** REGISTER of one rank: one layer a group, pages of BLOCK_BYTES shared out among the ranks. */
export function registration(groups: readonly GroupSpec[], rank = 0, ranks = 1, dtype = 'bf16'): MessageOf<'register'> {
  const pageCount = 64
  return {
    kind: 'register',
    instanceId: new Uint8Array(16),
    namespaceInputs: [],
    claimedDigest: plainDigest(sha256, new Map()),
    tpRank: rank,
    tpSize: ranks,
    ppRank: 0,
    ppSize: 1,
    worldSize: ranks,
    pageFirst: false,
    device: { kind: 'host', uuid: new Uint8Array(16) },
    allocations: [{ kind: 'host_fd', bytes: 64 * MIB }],
    groups: groups.map(({ kind, blockTokens, windowTokens }, id) => ({ id, kind, blockTokens, window: windowTokens })),
    regions: groups.map((_, group) => ({
      layer: `layer.${group}`,
      group,
      allocation: 0,
      offsetBytes: group * pageCount * BLOCK_BYTES,
      pageCount,
      pageStrideBytes: BLOCK_BYTES,
      segments: 1,
      segmentBytes: BLOCK_BYTES / ranks,
      segmentStrideBytes: BLOCK_BYTES / ranks,
      dtype,
      kvRole: 'packed',
      headDim: 64,
      heads: 1,
    })),
    canaries: [],
    slotCount: 8,
  }
}

function plainPorts(): ManagerPorts {
  let last = 0
  return {
    sha256,
    importMemory: () => ({ mapping: ++last, bytes: 64 * MIB, device: 'host' }),
    importDeviceMemory: () => ({ refused: 'ENODEV', text: 'no such device' }),
    borrowMapping: () => null,
    slotWord: () => 0,
    releaseMapping: () => {},
    readMapping: (_, __, bytes) => new Uint8Array(bytes),
    defineTemplate: () => ++last,
    releaseTemplate: () => {},
    createSlots: () => ({ slots: ++last, clientFd: 1, managerFd: 2, eventFd: 3 }),
    releaseSlots: () => {},
    closeFd: () => {},
  }
}
