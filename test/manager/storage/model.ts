import fc from 'fast-check'
import { RUN_NUMBERS } from '../../../src/manager/storage/assemblies.js'
import { census } from '../../../src/manager/storage/census.js'
import { STORAGE_COUNT } from '../../../src/manager/storage/counters.js'
import type { FillPurpose, SourcePlace } from '../../../src/manager/storage/ports.js'
import { InvariantError } from '../../../src/shared/base/errors.js'
import { alignUp, SECTOR_BYTES } from '../../../src/shared/base/units.js'
import { isCoded } from '../../../src/shared/codec/coding.js'
import type { GranuleSpec } from '../../../src/shared/layout/regions.js'
import { type Fixture, find, keysOf, land, runsOf, token } from './fixture.js'

/** A copy from an engine that is in flight: runs of one entry. */
interface Copy {
  readonly entry: number
  readonly generation: number
  readonly runs: readonly number[]
  /** Room of each run that its copy is encoded into; 0: it is copied as it is. */
  readonly rooms: readonly number[]
}

/** What the naive model knows of one key: the generation that may be visible, or none. */
interface Truth {
  generation: number
  entry: number
}

/** How often each operation is drawn. */
const WEIGHTS = {
  bring: 20,
  copied: 26,
  'copy-failed': 1,
  abandon: 1,
  hold: 4,
  drop: 6,
  fill: 12,
  guess: 6,
  use: 8,
  restored: 3,
  leave: 2,
  read: 30,
  'read-failed': 1,
  'read-damaged': 1,
  'read-short': 1,
  write: 10,
  'write-failed': 1,
  'write-short': 1,
  'disk-full': 1,
  invalidate: 1,
  'drop-dram': 3,
  'drop-class': 1,
  tick: 2,
  sync: 1,
  stray: 1,
  // Where writes go from engine pages: see DIRECT_WEIGHTS.
  direct: 0,
  'direct-unused': 0,
  'direct-written': 0,
  'direct-failed': 0,
} as const
type Operation = keyof typeof WEIGHTS
/** One command: the operation and which of the things it may act on. */
export interface Command {
  readonly operation: Operation
  readonly pick: number
}

/** Blocks that come whole take an extent before they are copied, and are written from their pages meanwhile. */
export const DIRECT_WEIGHTS = { direct: 20, 'direct-unused': 4, 'direct-written': 18, 'direct-failed': 3, abandon: 4 }

const KEYS = 24

/** Sequences of commands; `weights` changes how often some are drawn. */
export function commandsOf(weights: Partial<Record<Operation, number>> = {}): fc.Arbitrary<Command[]> {
  const drawn = Object.entries({ ...WEIGHTS, ...weights }).flatMap(
    ([operation, weight]) => Array(weight).fill(operation) as Operation[],
  )
  return fc.array(fc.record({ operation: fc.constantFrom(...drawn), pick: fc.nat(997) }), {
    minLength: 200,
    maxLength: 400,
    size: 'max',
  })
}

/**
 * Drives a Storage by commands beside a naive model: a Map of what was sealed and not taken back, and lists of what is
 * in flight. After every command: the census, the visible keys, the bytes (tokens) of every replica.
 */
export class Driver {
  readonly #of: Fixture
  /** Sealed and not invalidated, by key. */
  readonly #truth = new Map<number, Truth>()
  readonly #copies: Copy[] = []
  readonly #holds: { entry: number; generation: number; dram: boolean; ssd: boolean }[] = []
  readonly #waiters: { entry: number; waiter: number }[] = []
  /** Those that left last and wait for the device to let go. */
  readonly #drainers: { entry: number; waiter: number }[] = []
  /** Extents that pages are being written to, before or after the block's seal. */
  readonly #directs: { readonly entry: number; readonly generation: number; readonly place: SourcePlace }[] = []
  readonly #syncs = new Set<number>()
  /** Granules that a codec has refused, as tokens: from then on they are copied as they are. */
  readonly #refused = new Set<string>()
  /** Granules that a codec has taken. */
  #coded = 0
  /** Entries of which a read was found damaged and that still have reads in flight. */
  readonly #damaged = new Set<number>()
  #lost = 0
  #lastWaiter = 0
  #nowUs = 0

  constructor(of: Fixture) {
    this.#of = of
    of.storage.tick(0)
  }

  run({ operation, pick }: Command): void {
    const { storage, lanes } = this.#of
    switch (operation) {
      case 'bring':
        return this.#bring(pick % KEYS, pick % 7)
      case 'copied':
      case 'copy-failed':
        return this.#copyEnds(pick, operation === 'copied')
      case 'abandon': {
        const entry = [...storage.assemblies.entries()][pick % 4]
        if (entry !== undefined) storage.abandon(entry)
        return
      }
      case 'hold':
        return this.#hold(this.#visibleKey(pick))
      case 'drop': {
        const [held] = this.#holds.splice(pick % Math.max(1, this.#holds.length), 1)
        if (held !== undefined) storage.drop(held.entry)
        return
      }
      case 'fill':
        return this.#fill(this.#visibleKey(pick), 'demand')
      case 'guess':
        return this.#fill(this.#visibleKey(pick), 'speculation')
      case 'use':
      case 'restored': {
        const entry = find(this.#of, this.#visibleKey(pick))
        if (entry < 0) return
        storage[operation](entry)
        if (operation === 'use') storage.returned(entry)
        return
      }
      case 'leave': {
        const [left] = this.#waiters.splice(pick % Math.max(1, this.#waiters.length), 1)
        if (left !== undefined) this.#leave(left)
        return
      }
      case 'read':
      case 'read-failed':
      case 'read-damaged':
      case 'read-short':
        return this.#readEnds(operation, pick)
      case 'write':
      case 'write-failed':
      case 'write-short':
      case 'disk-full':
        return this.#writeEnds(operation, pick)
      case 'invalidate': {
        const key = this.#visibleKey(pick)
        const entry = find(this.#of, key)
        if (entry < 0) return
        storage.invalidate(entry)
        this.#truth.delete(key)
        return
      }
      case 'drop-dram':
        storage.dropDram()
        return
      case 'drop-class':
        if (pick % 8 !== 0) return
        same('dropClass', storage.dropClass(this.#of.classId), this.#truth.size)
        this.#truth.clear()
        return
      case 'tick':
        this.#nowUs += pick * 400
        return storage.tick(this.#nowUs)
      case 'sync': {
        const waiter = ++this.#lastWaiter
        if (storage.sync(waiter) === 'waiting') this.#syncs.add(waiter)
        else same('writes pending at sync', storage.writesPending, 0)
        return
      }
      case 'direct':
      case 'direct-unused':
        return this.#bring(pick % KEYS, 0, operation)
      case 'direct-written':
      case 'direct-failed':
        return this.#directEnds(pick, operation === 'direct-written')
      case 'stray':
        storage.readDone(pick % 2, { kind: 'read-done', batch: 100_000 + pick, index: 0, status: 0, bytes: 1 })
        storage.writeDone(pick % 2, { kind: 'write-done', job: 100_000 + pick, status: 0, bytes: 1, latencyUs: 1 })
        for (const read of lanes.reads.slice(0, 1)) {
          // The right batch from the wrong store.
          storage.readDone(1 - read.store, {
            kind: 'read-done',
            batch: read.batch,
            index: read.index,
            status: 0,
            bytes: 1,
          })
        }
        return
    }
  }

  /** Granules that the codec took, and those that it refused. */
  get codings(): { readonly coded: number; readonly refused: number } {
    return { coded: this.#coded, refused: this.#refused.size }
  }

  /** The naive model against the storage. */
  check(): void {
    const breaches = census(this.#of.storage)
    if (breaches.length > 0) throw new Error(breaches.join('; '))
    this.#hearFills()
    this.#hearSyncs()
    for (let key = 0; key < KEYS; key++) this.#checkKey(key)
    same('blocks lost', this.#of.tally.of(STORAGE_COUNT.blocksLost), this.#lost)
    for (const { entry, generation, dram, ssd } of this.#holds) {
      same('generation of a held entry', this.#of.storage.generationOf(entry), generation)
      if (dram) same('DRAM replica of a held entry', this.#of.storage.inDram(entry), true)
      if (ssd) same('SSD replica of a held entry', this.#of.storage.source(entry) !== null, true)
      this.#checkBytes(entry)
    }
  }

  /** Everything in flight ends, every interest goes: nothing may be left, and nothing may be lost by it. */
  finish(): void {
    const { storage, lanes } = this.#of
    while (this.#copies.length > 0) this.#copyEnds(0, true)
    while (this.#directs.length > 0) this.#directEnds(0, true)
    for (const entry of [...storage.assemblies.entries()]) storage.abandon(entry)
    lanes.endAll(storage)
    this.check()
    same('fills without an answer', this.#waiters.length + this.#drainers.length, 0)
    same('syncs without an answer', this.#syncs.size, 0)
    for (const { entry } of this.#holds.splice(0)) storage.drop(entry)
    this.check()
    storage.beginDrain()
    storage.dropDram()
    for (const [gauge, value] of Object.entries(storage.gauges())) same(`gauge ${gauge} at rest`, value, 0)
    same('quiesced', storage.quiesced, true)
    const { tally } = this.#of
    same(
      'outcome of guesses',
      tally.of(STORAGE_COUNT.warmPreparedBytes),
      tally.of(STORAGE_COUNT.warmRestoredBytes) + tally.of(STORAGE_COUNT.warmUnusedBytes),
    )
    const drops = [
      STORAGE_COUNT.dropNoSpacePinned,
      STORAGE_COUNT.dropFailed,
      STORAGE_COUNT.dropDiskFull,
      STORAGE_COUNT.dropInvalidated,
    ].reduce((sum, count) => sum + tally.of(count), 0)
    same('admitted writes', tally.of(STORAGE_COUNT.writesAdmitted), tally.of(STORAGE_COUNT.writesCommitted) + drops)
    same(
      'started fills',
      tally.of(STORAGE_COUNT.fillsStarted),
      tally.of(STORAGE_COUNT.fillsDone) + tally.of(STORAGE_COUNT.fillsFailed) + tally.of(STORAGE_COUNT.fillsCancelled),
    )
  }

  /** A rank brings the first granules (1) or the last item of every granule (2) of a key, else all of it. */
  #bring(key: number, part: number, direct: 'direct' | 'direct-unused' | null = null): void {
    const { storage, classId, geometry } = this.#of
    const { entry, outcome } = storage.claim(classId, keysOf(key), 0)
    same('claim of a visible key', outcome === 'present', this.#truth.has(key))
    if (outcome === 'present' || outcome === 'directory-full') return
    if (storage.allocate(entry) !== 'ok') return storage.abandon(entry)
    const whole = runsOf(geometry, 0)
    const first = whole.slice(0, 2)
    const last = whole.map(({ granule, itemCount }) => ({ granule, firstItem: itemCount - 1, itemCount: 1 }))
    if (direct !== null && storage.untouched(entry)) this.#beginDirect(entry, direct === 'direct')
    const runs: number[] = []
    storage.contribute(entry, part === 1 ? first : part === 2 ? last : whole, runs)
    if (runs.length === 0) return
    const rooms = runs.flatMap((granule, at) => (at % RUN_NUMBERS === 0 ? [this.#roomOf(entry, granule)] : []))
    this.#copies.push({ entry, generation: storage.generationOf(entry), runs, rooms })
  }

  /** A refused granule is never offered to the codec again. */
  #roomOf(entry: number, granule: number): number {
    const { storage, geometry } = this.#of
    const spec = geometry.granules[granule] as GranuleSpec
    const room = storage.codedRoom(entry, granule)
    const coded = isCoded(spec.coding) && !this.#refused.has(token(storage, entry, granule))
    same(`room for granule ${granule}`, room, coded ? alignUp(spec.expectedBytes, SECTOR_BYTES) : 0)
    return room
  }

  /** What the codec makes of granule `granule`: as long as its format says, or as ANS happens to; 0: it refuses. */
  #encode(granule: number, pick: number): number {
    const { coding, expectedBytes, segmentBytes } = this.#of.geometry.granules[granule] as GranuleSpec
    const luck = (pick * 31 + granule * 17) % 11
    if (luck < 2) return 0
    if (coding.format !== 'ans') return expectedBytes
    return luck < 4 ? segmentBytes : Math.ceil((segmentBytes * luck) / 13)
  }

  /** One run of a copy that ended well: landed as it is, encoded, or refused. */
  #landRun(copy: Copy, run: number, pick: number): void {
    const { storage, lanes, geometry } = this.#of
    const { entry, runs } = copy
    const at = run * RUN_NUMBERS
    const granule = runs[at] as number
    const room = copy.rooms[run] as number
    const bytes = room > 0 ? this.#encode(granule, pick) : (geometry.granules[granule]?.segmentBytes as number)
    if (room > 0 && bytes === 0) {
      if (this.#alive(copy)) this.#refused.add(token(storage, entry, granule))
      storage.copyFailed(entry, runs, at, at + RUN_NUMBERS)
      return storage.keepRaw(entry, granule)
    }
    if (geometry.codec.name !== 'none') lanes.lengths.set(token(storage, entry, granule), bytes)
    if (room > 0) {
      lanes.pool.set(storage.granuleOffset(entry, granule), token(storage, entry, granule))
      storage.coded(entry, granule, bytes, copy.generation * 8 + granule)
      this.#coded++
      storage.landed(entry, runs, at, at + RUN_NUMBERS)
    } else land(this.#of, entry, runs.slice(at, at + RUN_NUMBERS))
  }

  #beginDirect(entry: number, used: boolean): void {
    const { storage } = this.#of
    const place = storage.beginDirect(entry)
    if (place === null) return
    if (used) this.#directs.push({ entry, generation: storage.generationOf(entry), place })
    else storage.abortDirect(entry)
  }

  /** Every byte is in the file, or some are. */
  #directEnds(pick: number, whole: boolean): void {
    const { storage, lanes, geometry } = this.#of
    const [direct] = this.#directs.splice(pick % Math.max(1, this.#directs.length), 1)
    if (direct === undefined) return
    const { entry, generation, place } = direct
    same('generation of an entry under a direct write', storage.generationOf(entry), generation)
    geometry.granules.forEach(({ extentOffsetBytes }, granule) => {
      const written = whole || granule === 0 ? `${generation}/${granule}` : 'torn'
      lanes.disk.set(`${place.file}:${place.fileOffsetBytes + extentOffsetBytes}`, written)
    })
    storage.directEnded(entry, whole)
  }

  #copyEnds(pick: number, landed: boolean): void {
    const { storage } = this.#of
    const [copy] = this.#copies.splice(pick % Math.max(1, this.#copies.length), 1)
    if (copy === undefined) return
    same('generation of an entry under a copy', storage.generationOf(copy.entry), copy.generation)
    if (!landed) return storage.copyFailed(copy.entry, copy.runs, 0, copy.runs.length)
    copy.rooms.forEach((_, run) => {
      this.#landRun(copy, run, pick)
    })
    if (!this.#alive(copy) || !storage.complete(copy.entry)) return
    for (const granule of storage.unchecked(copy.entry)) {
      storage.setCrc(copy.entry, granule, copy.generation * 8 + granule)
    }
    const key = this.#keyOf(copy.entry)
    storage.seal(copy.entry)
    this.#truth.set(key, { generation: copy.generation, entry: copy.entry })
  }

  /** The entry of a copy that just ended may have been given up, and its row taken by another generation. */
  #alive({ entry, generation }: Copy): boolean {
    return this.#of.storage.assembling(entry) && this.#of.storage.generationOf(entry) === generation
  }

  /** Whoever leaves last is told when the device has let go. */
  #leave({ entry, waiter }: { entry: number; waiter: number }): void {
    const outcome = this.#of.storage.cancelFill(entry, waiter)
    same('a waiter leaves', outcome === 'absent', false)
    if (outcome === 'draining') this.#drainers.push({ entry, waiter })
  }

  #hold(key: number): void {
    const { storage } = this.#of
    const entry = find(this.#of, key)
    if (entry < 0) return
    storage.hold(entry)
    const generation = storage.generationOf(entry)
    this.#holds.push({ entry, generation, dram: storage.inDram(entry), ssd: storage.onSsd(entry) })
  }

  #fill(key: number, purpose: FillPurpose): void {
    const { storage } = this.#of
    const entry = find(this.#of, key)
    if (entry < 0) return
    const waiter = ++this.#lastWaiter
    const outcome = storage.fill(entry, waiter, purpose)
    same('resident', outcome === 'resident', storage.inDram(entry))
    if (outcome === 'started' || outcome === 'joined') this.#waiters.push({ entry, waiter })
  }

  #readEnds(operation: 'read' | 'read-failed' | 'read-damaged' | 'read-short', pick: number): void {
    const { storage, lanes } = this.#of
    if (lanes.reads.length === 0) return
    const at = pick % lanes.reads.length
    if (operation === 'read') {
      for (let left = pick % (this.#of.geometry.granules.length + 1); left >= 0 && lanes.reads.length > 0; left--) {
        lanes.endRead(storage, (at * 7) % lanes.reads.length)
      }
      return
    }
    if (operation === 'read-failed') return void lanes.endRead(storage, at, 'io_read_failed')
    const batch = lanes.reads[at]?.batch as number
    this.#damaged.add(storage.fills.entryOf(batch))
    if (operation === 'read-short') lanes.endRead(storage, at, 'ok', 512)
    else lanes.endRead(storage, at, 'checksum_mismatch')
  }

  #writeEnds(operation: 'write' | 'write-failed' | 'write-short' | 'disk-full', pick: number): void {
    const { storage, lanes } = this.#of
    if (lanes.writes.length === 0) return
    const at = pick % lanes.writes.length
    if (operation === 'write') lanes.endWrite(storage, at)
    else if (operation === 'write-short') lanes.endWrite(storage, at, 'ok', 512)
    else lanes.endWrite(storage, at, operation === 'disk-full' ? 'io_disk_full' : 'io_write_failed')
  }

  /** Fills that ended are owed to a waiter that still waits, once. */
  #hearFills(): void {
    for (const { waiter, entry, status } of this.#of.lanes.filledCalls.splice(0)) {
      const owed = [this.#waiters, this.#drainers].find((list) =>
        list.some((waiting) => waiting.waiter === waiter && waiting.entry === entry),
      )
      same('a fill ends for one who waits', owed !== undefined, true)
      owed?.splice(
        owed.findIndex((waiting) => waiting.waiter === waiter && waiting.entry === entry),
        1,
      )
      if (status === 'checksum_mismatch' || status === 'io_short') this.#damaged.add(entry)
    }
    // Whoever waits: a generation found damaged is hidden as soon as its reads have ended, and not before.
    const filling = new Set([...this.#of.storage.fills.inFlight()].map(({ entry }) => entry))
    for (const [key, { entry }] of this.#truth) {
      if (this.#damaged.has(entry) && !filling.has(entry)) this.#truth.delete(key)
    }
    for (const entry of this.#damaged) if (!filling.has(entry)) this.#damaged.delete(entry)
  }

  #hearSyncs(): void {
    for (const waiter of this.#of.lanes.syncedCalls.splice(0))
      same('a sync is answered once', this.#syncs.delete(waiter), true)
  }

  #checkKey(key: number): void {
    const truth = this.#truth.get(key)
    const entry = find(this.#of, key)
    if (truth === undefined) return same(`key ${key} is visible`, entry >= 0, false)
    if (entry < 0) {
      this.#lost++
      this.#truth.delete(key)
      return
    }
    same(`generation of key ${key}`, this.#of.storage.generationOf(entry), truth.generation)
    this.#checkBytes(entry)
  }

  /** Every replica holds what was published, granule by granule. */
  #checkBytes(entry: number): void {
    const { storage, lanes, geometry } = this.#of
    const source = storage.source(entry)
    let extentOffsetBytes = 0
    geometry.granules.forEach(({ bytes, segmentBytes }, granule) => {
      const published = token(storage, entry, granule)
      const length = lanes.lengths.get(published)
      if (length !== undefined) {
        same(`length of granule ${granule}`, storage.granule(entry, granule).segmentBytes, length)
        same(`granule ${granule} is encoded`, storage.encoded(entry, granule), length < segmentBytes)
      }
      if (storage.inDram(entry)) {
        same(`granule ${granule} in DRAM`, lanes.pool.get(storage.granuleOffset(entry, granule)), published)
      }
      if (source !== null) {
        const place = `${source.file}:${source.fileOffsetBytes + extentOffsetBytes}`
        same(`granule ${granule} on SSD`, lanes.disk.get(place), published)
      }
      same(`checksum of granule ${granule}`, storage.crc(entry, granule), storage.generationOf(entry) * 8 + granule)
      extentOffsetBytes += length === undefined ? bytes : alignUp(length, SECTOR_BYTES)
    })
  }

  /** One of the visible keys; an absent one when there is none. */
  #visibleKey(pick: number): number {
    const visible = [...this.#truth.keys()]
    return visible[pick % Math.max(1, visible.length)] ?? KEYS
  }

  #keyOf(entry: number): number {
    const key = new Uint8Array(32)
    this.#of.storage.entries.directory.copyKey(entry, key, 0)
    return new DataView(key.buffer).getUint32(0, true)
  }
}

/** Runs commands on a fresh fixture, checking after each. */
export function drive(of: Fixture, list: readonly Command[]): Driver {
  const driver = new Driver(of)
  for (const command of list) {
    driver.run(command)
    driver.check()
  }
  driver.finish()
  return driver
}

/** True when some sequence of commands makes the property fail: the twin is caught. */
export function caught(make: () => Fixture, numRuns: number, commands = commandsOf()): boolean {
  const result = fc.check(
    fc.property(commands, (list) => void drive(make(), list)),
    { numRuns, seed: 7, endOnFailure: true },
  )
  return result.failed
}

function same<T>(what: string, is: T, should: T): void {
  if (is !== should) throw new InvariantError(`${what}: is ${is}, should be ${should}`)
}
