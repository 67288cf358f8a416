import type { SsdWorkerEffect } from '../../src/actors/ssd-worker/machine.js'
import { STAGING_SLOTS } from '../../src/actors/ssd-worker/worker.js'
import { alignUp, KIB, MIB, PAGE_BYTES, SECTOR_BYTES } from '../../src/shared/base/units.js'
import { crc32 } from '../../src/shared/codec/crc32.js'
import { CHECKSUM, COPY, HELD_CODE } from '../../src/shared/layout/descriptors.js'
import {
  type Block,
  codingOf,
  extentBytesOf,
  type Granule,
  payload,
  SHAPES,
  type Shape,
  same,
  storedBytes,
} from './staging-blocks.js'

/** Small slots: everything that 4 MiB do happens with few bytes. */
export const BED_SLOT_BYTES = 16 * KIB
export const BED_FILES = 2
export const BED_FILE_BYTES = 256 * KIB
const POOL_BYTES = 16 * MIB
const GUARD = 0x5c

export type Outcome =
  | 'ok'
  | 'short'
  | 'lost'
  | 'io-error'
  | 'not-registered'
  | 'rotten'
  /** The count of a read is whole, the bytes never came. What a disk does with a write shows only when it is read. */
  | 'stale'
  /** The first of the codings is none, though its checksum was right; or the codec has no room. Other operations end well. */
  | 'refused'
  | 'no-room'
const OUTCOME_RESULT: Partial<Record<Outcome, number>> = { lost: -5, 'io-error': -5044, 'not-registered': -5027 }

/** What an effect asks the device to do. */
export type Work = SsdWorkerEffect & { kind: 'read' | 'scatter' | 'decode' | 'write' | 'copy' | 'encode' }

/** One operation of the device: it happens when it completes, with what it was given. */
export interface Operation {
  readonly tag: number
  readonly worker: number
  /** -1: a copy beside I/O. */
  readonly slot: number
  readonly effect: Work
}

/** How one operation ended, and how it would have ended well. */
export interface Completion {
  readonly tag: number
  readonly result: number
  readonly wanted: number
}

/** Pages as the device reaches them. */
export interface DevicePages {
  /** Throws when no job may touch the page any more. */
  touch(template: number, page: number): void
  /** A coding for this page was none. */
  refuse(template: number, page: number): void
  bytes(template: number, page: number): Uint8Array
  /** The block that is published from the page. */
  seed(template: number, page: number): number
}

/** The arena of a worker: empty while its codings are made, then they stay until they are released. */
interface Arena {
  codes: readonly Uint8Array[] | null
}

const E2BIG = -7

/** A device with real bytes: files, staging slots and a pool are arrays, operations happen in any order that streams allow. */
export class StagingDevice {
  readonly files = Array.from({ length: BED_FILES }, () => new Uint8Array(BED_FILE_BYTES).fill(GUARD))
  readonly pool = new Uint8Array(POOL_BYTES)
  readonly #slots = new Map<string, Uint8Array>()
  readonly #operations: Operation[] = []
  readonly #pages: DevicePages
  readonly #results: Uint32Array
  readonly #deaf: boolean
  readonly #arenas = new Map<number, Arena>()
  /** Nothing is held: the workspace is too small. */
  holdsNothing = false
  #nextFile = Array.from({ length: BED_FILES }, () => 0)
  #nextPool = 0
  #nextSeed = 1

  /**
   * @param results where checksums go and what decodings say
   * @param deaf nobody hears what decodings refuse
   */
  constructor(pages: DevicePages, results: Uint32Array, deaf: boolean) {
    this.#pages = pages
    this.#results = results
    this.#deaf = deaf
  }

  get operations(): readonly Operation[] {
    return this.#operations
  }

  openWorker(worker: number, slotBytes: number): void {
    for (let slot = 0; slot < STAGING_SLOTS; slot++) {
      this.#slots.set(`${worker}/${slot}`, new Uint8Array(slotBytes).fill(0xee))
    }
  }

  // Contents

  /** A place for a block, `gapPages` after the one before; null when the file is full. */
  place(template: number, file: number, gapPages = 0): Block | null {
    const offset = (this.#nextFile[file] as number) + gapPages * PAGE_BYTES
    const end = offset + extentBytesOf(SHAPES[template] as Shape)
    if (end > BED_FILE_BYTES) return null
    this.#nextFile[file] = end
    return { template, file, fileOffsetBytes: offset, seed: this.#nextSeed++ }
  }

  /** Puts the bytes of a block where it says. */
  store(block: Block): void {
    this.files[block.file]?.set(storedBytes(block), block.fileOffsetBytes)
  }

  /** Room in the pool. */
  takePool(bytes: number): number {
    const offset = this.#nextPool
    this.#nextPool += alignUp(bytes, PAGE_BYTES)
    if (this.#nextPool > this.pool.length) throw new Error('the bed has no pool left')
    return offset
  }

  /** Puts the bytes of a block into the pool. */
  poolBytes(block: Block): number {
    const stored = storedBytes(block)
    const offset = this.takePool(stored.length)
    this.pool.set(stored, offset)
    return offset
  }

  /** File bytes in no extent of a block that was placed. */
  checkGuards(): void {
    const guard = new Uint8Array(BED_FILE_BYTES).fill(GUARD)
    for (const [file, bytes] of this.files.entries()) {
      const end = this.#nextFile[file] as number
      if (!same(bytes.subarray(end), guard.subarray(end))) throw new Error('bytes outside of all extents were written')
    }
  }

  // Operations

  /** @param slot -1: a copy beside I/O */
  begin(slot: number, effect: Work): void {
    this.#operations.push({ tag: effect.tag, worker: effect.worker, slot, effect })
  }

  /** Begins an encoding; what refuses it at once, or 0. */
  beginEncode(effect: SsdWorkerEffect & { kind: 'encode' }): number {
    if (this.#arenas.has(effect.worker)) throw new Error('something is coded into an arena that is held')
    if (effect.held && this.holdsNothing) return E2BIG
    if (effect.held) this.#arenas.set(effect.worker, { codes: null })
    this.begin(-1, effect)
    return 0
  }

  /** The worker's codings are nobody's any more, and neither are their bytes. */
  release(worker: number): void {
    const arena = this.#arenas.get(worker)
    if (!arena?.codes) throw new Error('codings are released that nobody holds')
    for (const code of arena.codes) code.fill(0xdd)
    this.#arenas.delete(worker)
  }

  /** Workers whose arena is held. */
  get held(): readonly number[] {
    return [...this.#arenas.keys()]
  }

  /** Ends one operation: of each worker's slot and of its copy stream only the oldest may end. Null: there is none. */
  complete(pick: number, outcome: Outcome): Completion | null {
    const heads = this.#operations.filter(
      (each, at) =>
        this.#operations.findIndex(({ worker, slot }) => worker === each.worker && slot === each.slot) === at,
    )
    const operation = heads[pick % Math.max(1, heads.length)]
    if (operation === undefined) return null
    this.#operations.splice(this.#operations.indexOf(operation), 1)
    return { tag: operation.tag, ...this.#happen(operation, outcome) }
  }

  #happen({ worker, slot, effect }: Operation, outcome: Outcome): { result: number; wanted: number } {
    const failure = OUTCOME_RESULT[outcome]
    const memory = slot < 0 ? this.pool : this.slotBytes(worker, slot)
    switch (effect.kind) {
      case 'copy':
        for (let each = 0; each < effect.count; each++) {
          this.#copyOne(effect.copies, effect.offset + each * COPY.doubles, memory, effect.toPages)
        }
        return { result: failure ?? 0, wanted: 0 }
      case 'encode': {
        const result = outcome === 'no-room' ? -12 : (failure ?? 0)
        const codes = Array.from({ length: effect.count }, (_, each) =>
          this.#encodeOne(effect, each, outcome === 'refused' && each === 0),
        )
        if (effect.held && result === 0) (this.#arenas.get(worker) as Arena).codes = codes
        else this.#arenas.delete(worker)
        return { result, wanted: 0 }
      }
      case 'scatter':
        for (let each = 0; each < effect.copyCount; each++) {
          this.#copyOne(effect.copies, each * COPY.doubles, memory, true)
        }
        return { result: failure ?? 0, wanted: 0 }
      case 'decode': {
        if (outcome === 'no-room') return { result: -12, wanted: 0 }
        for (let each = 0; each < effect.count; each++) {
          const refused = outcome === 'refused' && each === 0
          const done = this.#decodeOne(effect.copies, effect.offset + each * COPY.doubles, memory, refused)
          this.#results[effect.resultBase + each] = done || this.#deaf ? 0 : 1
        }
        return { result: failure ?? 0, wanted: 0 }
      }
      case 'read': {
        const file = this.files[effect.file] as Uint8Array
        const moved =
          outcome === 'short'
            ? effect.bytes - PAGE_BYTES
            : failure !== undefined || outcome === 'stale'
              ? 0
              : effect.bytes
        memory.set(file.subarray(effect.fileOffsetBytes, effect.fileOffsetBytes + moved))
        if (outcome === 'rotten') {
          const at = effect.checks[CHECKSUM.poolOffsetBytes] as number
          memory[at] = (memory[at] as number) ^ 0xff
        }
        for (let each = 0; each < effect.checkCount; each++) {
          this.#results[effect.checkBase + each] = checksumOf(memory, effect.checks, each * CHECKSUM.doubles)
        }
        return { result: failure ?? (outcome === 'short' ? moved : effect.bytes), wanted: effect.bytes }
      }
      case 'write': {
        memory.fill(0, effect.zeroFromBytes, effect.stagingOffsetBytes + effect.bytes)
        for (let at = 0; at < effect.codeCount * HELD_CODE.doubles; at += HELD_CODE.doubles) {
          this.#gatherCode(worker, effect.codes, at, memory)
        }
        for (let each = 0; each < effect.copyCount; each++) {
          this.#copyOne(effect.copies, each * COPY.doubles, memory, false)
        }
        const moved = outcome === 'short' ? effect.bytes - PAGE_BYTES : failure !== undefined ? 0 : effect.bytes
        const from = memory.subarray(effect.stagingOffsetBytes, effect.stagingOffsetBytes + moved)
        this.files[effect.file]?.set(from, effect.fileOffsetBytes)
        return { result: failure ?? (outcome === 'short' ? moved : effect.bytes), wanted: effect.bytes }
      }
    }
  }

  /** What a descriptor names. */
  #target(copies: Float64Array, at: number) {
    const template = copies[at + COPY.template] as number
    const page = copies[at + COPY.page] as number
    const base = copies[at + COPY.poolOffsetBytes] as number
    const granule = (SHAPES[template] as Shape).granules[copies[at + COPY.granule] as number] as Granule
    this.#pages.touch(template, page)
    return { template, page, base, granule }
  }

  /** Decodes one item into its page; false, and nothing happens, when its bytes are no coding. */
  #decodeOne(copies: Float64Array, at: number, memory: Uint8Array, refused: boolean): boolean {
    const { granule, page, base, template } = this.#target(copies, at)
    const stored = copies[at + COPY.storedBytes] as number
    if (granule.codingBytes !== stored) throw new Error(`a coding of ${stored} bytes is not one of this granule`)
    const bytes = memory.subarray(base, base + stored)
    const seed = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true)
    if (refused || !same(bytes, codingOf(seed, stored))) {
      this.#pages.refuse(template, page)
      return false
    }
    const expected = payload({ template, seed }).subarray(
      granule.pageOffsetBytes,
      granule.pageOffsetBytes + granule.segmentBytes,
    )
    this.#pages.bytes(template, page).set(expected, granule.pageOffsetBytes)
    return true
  }

  /** Encodes one item into its room, and says so; its coding, which is empty where it was refused. */
  #encodeOne(effect: SsdWorkerEffect & { kind: 'encode' }, each: number, refused: boolean): Uint8Array {
    const at = each * COPY.doubles
    const { granule, page, base, template } = this.#target(effect.copies, at)
    const roomBytes = effect.copies[at + COPY.storedBytes] as number
    if (granule.codingBytes === null || granule.codingBytes > roomBytes) throw new Error('a coding has no room')
    const code = refused ? new Uint8Array() : codingOf(this.#pages.seed(template, page), granule.codingBytes)
    this.pool.fill(0, base, base + roomBytes)
    this.pool.set(code, base)
    this.#results[effect.resultBase + 2 * each] = code.length
    this.#results[effect.resultBase + 2 * each + 1] = refused ? 0 : crc32(code)
    return code
  }

  /** What a worker holds goes to its place in a slot, with zeros behind it. */
  #gatherCode(worker: number, codes: Float64Array, at: number, memory: Uint8Array): void {
    const code = this.#arenas.get(worker)?.codes?.[codes[at + HELD_CODE.index] as number]
    if (code === undefined || code.length === 0) throw new Error('a coding is gathered that nobody holds')
    const to = codes[at + HELD_CODE.slotOffsetBytes] as number
    const bytes = codes[at + HELD_CODE.bytes] as number
    const end = to + alignUp(bytes, SECTOR_BYTES)
    if (bytes !== code.length || to % SECTOR_BYTES !== 0 || end > memory.length)
      throw new Error('a coding has no place')
    memory.fill(0, to, end)
    memory.set(code, to)
  }

  #copyOne(copies: Float64Array, at: number, memory: Uint8Array, toPages: boolean): void {
    const { template, page, base, granule } = this.#target(copies, at)
    if (granule.codingBytes !== null || copies[at + COPY.storedBytes] !== 0) throw new Error('a coding is copied raw')
    if (base < 0 || base + granule.items * granule.strideBytes > memory.length) {
      throw new Error(`a granule leaves its memory at ${base}`)
    }
    const bytes = this.#pages.bytes(template, page)
    const first = copies[at + COPY.firstItem] as number
    const end = first + (copies[at + COPY.itemCount] as number)
    for (let item = first; item < end; item++) {
      const inPage = granule.pageOffsetBytes + item * granule.segmentBytes
      const inMemory = base + item * granule.strideBytes
      if (toPages) bytes.set(memory.subarray(inMemory, inMemory + granule.segmentBytes), inPage)
      else {
        memory.fill(0, inMemory, inMemory + granule.strideBytes)
        memory.set(bytes.subarray(inPage, inPage + granule.segmentBytes), inMemory)
      }
    }
  }

  slotBytes(worker: number, slot: number): Uint8Array {
    const bytes = this.#slots.get(`${worker}/${slot}`)
    if (bytes === undefined) throw new Error(`slot ${slot} of worker ${worker} is not open`)
    return bytes
  }
}

function checksumOf(memory: Uint8Array, checks: Float64Array, at: number): number {
  const offset = checks[at + CHECKSUM.poolOffsetBytes] as number
  const bytes = checks[at + CHECKSUM.bytes] as number
  const segment = checks[at + CHECKSUM.segmentBytes] as number
  const stride = checks[at + CHECKSUM.segmentStrideBytes] as number
  let crc = 0
  for (let inside = 0; inside < bytes; inside += stride) {
    crc = crc32(memory.subarray(offset + inside, offset + inside + segment), crc)
  }
  return crc
}
