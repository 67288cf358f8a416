import type { DeviceName } from '../../src/shared/base/device-name.js'
import { PAGE_BYTES, SECTOR_BYTES } from '../../src/shared/base/units.js'
import { HELD_CODE } from '../../src/shared/layout/descriptors.js'
import type { Actor } from './actor.js'
import { checkedGranules, DeviceStream } from './device-stream.js'
import type { LaneDevice } from './lane.js'
import type { Shard } from './shard.js'
import { HeldBack, type PlacedCode, SlotMemory, StagingSlot, type StagingWorld } from './staging-slot.js'
import { must } from './violation.js'

/** CU_FILE_MEMORY_ALREADY_REGISTERED, and no memory for a stream. */
const SLOT_REFUSED = -5016
const ENOMEM = 12
const EINVAL = -22
const NONE = new Float64Array(0)

/**
 * The port of the ssd-worker lane, to the letter of binding/cufile.ts: staging slots over registered memory, reads and
 * writes between them and the simulated shards, and streams for copies between the pool and pages.
 */
export class StagingPort implements LaneDevice {
  readonly #world: StagingWorld
  readonly #actor: Actor
  readonly #completed: (tag: number, result: number) => void
  readonly #results: Uint32Array
  readonly #heldBack: HeldBack
  readonly #streams = new Map<number, DeviceStream>()
  #next = 1
  #closedCompletions = 0
  #closedDuplicates = 0

  /** `results`: where checksums go. */
  constructor(
    world: StagingWorld,
    actor: Actor,
    results: Uint32Array,
    completed: (tag: number, result: number) => void,
  ) {
    this.#world = world
    this.#actor = actor
    this.#results = results
    this.#completed = completed
    this.#heldBack = new HeldBack(world)
  }

  /** Slots and streams that exist. */
  get open(): number {
    return this.#streams.size
  }

  get completions(): number {
    return this.#sum(this.#closedCompletions, ({ completions }) => completions)
  }

  get coding(): number {
    return this.#sum(0, ({ coding }) => coding)
  }

  get duplicates(): number {
    return this.#sum(this.#closedDuplicates, ({ duplicates }) => duplicates)
  }

  openStaging(_device: DeviceName, bytes: number): number {
    const strike = this.#world.opens.strike()
    if (strike?.kind === 'slot-refused') return SLOT_REFUSED
    const number = this.#next++
    const memory = new SlotMemory(number, bytes)
    this.#streams.set(number, new StagingSlot(this.#world, memory, this.#heldBack, this.#actor, this.#completed))
    return number
  }

  openStream(_device: DeviceName): number {
    const { opens, parts, pool } = this.#world
    if (opens.strike()?.kind === 'stream-refused') throw Object.assign(new Error('no stream'), { errno: ENOMEM })
    const number = this.#next++
    const world = { ...this.#world, memory: pool, copies: parts, checksums: null }
    this.#streams.set(number, new DeviceStream(world, this.#actor, this.#completed))
    return number
  }

  closeStream(number: number): number {
    const stream = this.#stream(number)
    must(stream.inFlight === 0, 'O10', () => `stream ${number} is closed with ${stream.inFlight} in flight`)
    must(stream.arena.free, 'O10', () => `stream ${number} is closed while it holds codings`)
    this.#closedCompletions += stream.completions
    this.#closedDuplicates += stream.duplicates
    this.#streams.delete(number)
    return 0
  }

  stagingRead(
    number: number,
    tag: number,
    file: number,
    fileOffsetBytes: number,
    bytes: number,
    checks: Float64Array,
    offset: number,
    count: number,
    base: number,
  ): number {
    const granules = checkedGranules(checks, offset, count)
    const inside = granules.every(({ start, bytes: granule }) => start >= 0 && start + granule <= bytes)
    must(inside && count > 0, 'X3', () => `checksums of ${count} granules leave the ${bytes} bytes that are read`)
    const shard = this.#shard(file, fileOffsetBytes, 0, bytes)
    return this.#slot(number).read(tag, shard, fileOffsetBytes, bytes, granules, this.#results, base)
  }

  stagingWrite(
    number: number,
    tag: number,
    file: number,
    fileOffsetBytes: number,
    stagingOffsetBytes: number,
    bytes: number,
    zeroFromBytes: number,
    copies: Float64Array,
    _offset: number,
    count: number,
    codes: Float64Array = NONE,
    _codeOffset = 0,
    codeCount = 0,
    holder = -1,
  ): number {
    const shard = this.#shard(file, fileOffsetBytes, stagingOffsetBytes, bytes)
    must(zeroFromBytes <= stagingOffsetBytes + bytes, 'X3', () => `zeros from ${zeroFromBytes} on`)
    const place = { fileOffsetBytes, stagingOffsetBytes, bytes }
    const placed = this.#placed(codes.subarray(0, codeCount * HELD_CODE.doubles), holder)
    return placed === null ? EINVAL : this.#slot(number).write(tag, shard, place, zeroFromBytes, copies, count, placed)
  }

  /** What triples name of a stream; null where the addon would refuse one. */
  #placed(codes: Float64Array, holder: number): PlacedCode[] | null {
    const placed: PlacedCode[] = []
    for (let each = 0; each < codes.length; each += HELD_CODE.doubles) {
      const at = codes[each + HELD_CODE.slotOffsetBytes] as number
      const bytes = codes[each + HELD_CODE.bytes] as number
      must(at % SECTOR_BYTES === 0, 'X3', () => `a coding goes to ${at} in a slot`)
      const reading = this.#stream(holder).arena.read(codes[each + HELD_CODE.index] as number, bytes)
      if (reading !== null) {
        placed.push({ at, reading })
        continue
      }
      for (const { reading: other } of placed) other.end()
      return null
    }
    return placed
  }

  encode(number: number, tag: number, list: Float64Array, offset: number, count: number, base: number): number {
    return this.#stream(number).encode(tag, list, offset, count, this.#results, base)
  }

  encodeHeld(number: number, tag: number, list: Float64Array, offset: number, count: number, base: number): number {
    const { heldCodes } = this.#world
    return this.#stream(number).encodeHeld(tag, list, offset, count, this.#results, base, heldCodes)
  }

  releaseCodes(number: number): number {
    return this.#stream(number).arena.release()
  }

  /** On a slot a scatter; on a stream without one a copy between the pool and pages. */
  copy(number: number, tag: number, direction: 0 | 1, copies: Float64Array, offset: number, count: number): number {
    return this.#stream(number).copy(tag, direction === 0, copies, offset, count)
  }

  decode(number: number, tag: number, list: Float64Array, offset: number, count: number, base: number): number {
    return this.#stream(number).decode(tag, list, offset, count, this.#results, base)
  }

  unstall(): void {
    for (const stream of this.#streams.values()) stream.unstall()
    this.#heldBack.release()
  }

  #stream(number: number): DeviceStream {
    const stream = this.#streams.get(number)
    must(stream !== undefined, 'O10', () => `stream ${number} is used after it was closed`)
    return stream as DeviceStream
  }

  #slot(number: number): StagingSlot {
    const stream = this.#stream(number)
    must(stream instanceof StagingSlot, 'X3', () => `stream ${number} has no slot`)
    return stream as StagingSlot
  }

  /** As the addon checks an extent: whole pages of the file and of the slot. */
  #shard(file: number, fileOffsetBytes: number, stagingOffsetBytes: number, bytes: number): Shard {
    const shard = this.#world.shards.get(file)
    must(shard !== undefined, 'X3', () => `file ${file} does not exist`)
    const whole = [fileOffsetBytes, stagingOffsetBytes, bytes].every((number) => number % PAGE_BYTES === 0)
    const inside = bytes > 0 && fileOffsetBytes >= 0 && fileOffsetBytes + bytes <= (shard as Shard).bytes.length
    must(whole && inside, 'G3', () => `cuFile at ${fileOffsetBytes}+${bytes} of file ${file}`)
    return shard as Shard
  }

  #sum(closed: number, pick: (stream: DeviceStream) => number): number {
    let sum = closed
    for (const stream of this.#streams.values()) sum += pick(stream)
    return sum
  }
}
