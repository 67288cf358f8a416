import type { ExecutionContext } from 'ava'
import { CODEC_WORKSPACE } from '../../src/binding/codecs.js'
import type { StreamOptions } from '../../src/binding/streams.js'
import type { Native } from '../../src/binding/surface.js'
import { aligned, type Coding, codingFields, fillGaussians } from '../native/coded-engine.js'
import { firstDifference } from './cuda-claims.js'
import { CudaLane } from './cuda-lane.js'

const GUARD = 0x5a
const POISON = 0xa5
/** Words of results that a lane has; the second half is the host's. */
export const RESULTS = 4096

export interface Item {
  readonly coding: Coding
  readonly bytes: number
  readonly base: number
}

export const storedOf = ({ coding: { format, role, bits = 0, headDim = 0 }, bytes }: Item): number => {
  if (format === 'fp8') return bytes / 2
  const trailer = role === 'k' ? 2 : role === 'v' ? 4 : 6
  const vectors = role === 'packed' ? 2 : 1
  return (bytes / (vectors * headDim * 2)) * (vectors * ((headDim * bits) / 8) + trailer)
}
export const roomOf = (item: Item): number => aligned(storedOf(item))

const EXTREMES = {
  bf16: [0x0000, 0x8000, 0x0001, 0x8001, 0x0080, 0x3f80, 0x7f7f, 0x4780, 0x7f80, 0x7fc0, 0x2000, 0x3300],
  fp16: [0x0000, 0x8000, 0x0001, 0x8001, 0x0400, 0x3c00, 0x7bff, 0x7c00, 0x7e00, 0x0010, 0x1400, 0x2e66],
} as const

function fill(bytes: Uint8Array, scalar: 'bf16' | 'fp16', seed: number): void {
  fillGaussians(bytes, seed)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  // bfloat16 of a few binades around 1, read as fp16, are numbers of such a kind too.
  const values = bytes.length >> 1
  if (seed % 5 === 1) for (let i = 0; i < values; i++) view.setUint16(2 * i, EXTREMES[scalar][i % 2] ?? 0, true)
  if (seed % 5 === 2) for (let i = 0; i < values; i++) view.setUint16(2 * i, EXTREMES[scalar][5], true)
  if (seed % 5 === 3) view.setUint16(2 * ((seed * 7919) % values), EXTREMES[scalar][seed % 12] ?? 0, true)
}

/** A memory of the device, one of the host beside it, and a template over each. */
class CodedEngine {
  readonly items: readonly Item[]
  readonly bytes: number
  readonly device: number
  readonly host: number
  readonly #native: Native
  readonly #templates: readonly [number, number]

  constructor(native: Native, t: ExecutionContext, items: readonly Item[]) {
    this.#native = native
    this.items = items
    this.bytes = Math.max(...items.map(({ base, bytes }) => base + bytes)) + 64
    this.device = native.allocateDeviceMemory(native.cudaProbe().devices[0]?.uuid ?? '', this.bytes).mapping
    const fd = native.createMemory(this.bytes)
    this.host = native.importMemory(fd).mapping
    native.closeFd(fd)
    this.#templates = [this.#template(this.device), this.#template(this.host)]
    t.teardown(() => {
      native.releaseMapping(this.device)
      native.releaseMapping(this.host)
    })
  }

  #template(mapping: number): number {
    return this.#native.defineTemplate(
      Float64Array.from(this.items.flatMap(({ base, bytes }) => [mapping, base, 0, 1, 0, bytes, bytes])),
      Float64Array.from({ length: this.items.length + 1 }, (_, g) => g),
      Float64Array.from(this.items.flatMap(({ coding }) => codingFields(coding))),
    )
  }

  get hostBytes(): Uint8Array {
    return this.#native.mappingView(this.host, 0, this.bytes)
  }
  deviceBytes(): Uint8Array {
    const bytes = new Uint8Array(this.bytes)
    this.#native.readMapping(this.device, 0, bytes)
    return bytes
  }
  write(content: Uint8Array): void {
    this.#native.writeMapping(this.device, 0, content)
    this.hostBytes.set(content)
  }
  content(): Uint8Array {
    const content = new Uint8Array(this.bytes).fill(GUARD)
    for (const [i, { base, bytes, coding }] of this.items.entries())
      fill(content.subarray(base, base + bytes), coding.scalar === 'fp16' ? 'fp16' : 'bf16', i)
    return content
  }
  copy(where: 'device' | 'host', index: number, offset: number, stored: number): number[] {
    return [this.#templates[where === 'device' ? 0 : 1], index, 0, offset, 0, 1, stored]
  }
}

/**
 * A stream of the device and one of the host in one port, each with the same items in memory of its own and a half of
 * the pool. What both are asked must come out alike, to the last byte.
 */
export class CodeBed {
  readonly lane: CudaLane
  readonly host: number
  readonly engine: CodedEngine
  /** Offsets of the items' rooms in the device's half of the pool, and bytes of a half. */
  readonly offsets: readonly number[]
  readonly half: number

  constructor(native: Native, t: ExecutionContext, items: readonly Item[], options: StreamOptions = {}, room = roomOf) {
    this.engine = new CodedEngine(native, t, items)
    let half = 512
    this.offsets = items.map((item) => {
      half += room(item) + 512
      return half - room(item) - 512
    })
    this.half = half
    this.lane = new CudaLane(native, 2 * half, options)
    t.teardown(() => this.lane.close())
    this.host = this.lane.port.openStream('host')
  }

  /** Device and host encode every item with that room: results and rooms must agree. Returns the results. */
  encode(t: ExecutionContext, room = roomOf): number[] {
    const { lane, host, engine, offsets, half } = this
    const { items } = engine
    lane.poolBytes.fill(POISON)
    lane.results.fill(9)
    const on = (where: 'device' | 'host', shift: number): number[] =>
      items.flatMap((item, i) => engine.copy(where, i, shift + (offsets[i] as number), room(item)))
    t.is(lane.encode(1, on('device', 0), 1), 0)
    t.is(lane.encode(2, on('host', half), RESULTS / 2, host), 0)
    t.true(lane.reap(2).every(({ result }) => result === 0))
    const said = [...lane.results.subarray(1, 1 + 2 * items.length)]
    t.deepEqual(said, [...lane.results.subarray(RESULTS / 2, RESULTS / 2 + 2 * items.length)])
    t.deepEqual([lane.results[0], lane.results[1 + 2 * items.length]], [9, 9])
    items.forEach((item, i) => {
      const stored = said[2 * i] as number
      const at = offsets[i] as number
      const [mine, theirs] = [0, half].map((shift) => lane.poolBytes.subarray(shift + at, shift + at + aligned(stored)))
      const differs = firstDifference(mine as Uint8Array, theirs as Uint8Array)
      t.is(differs, -1, `item ${i}, ${JSON.stringify(item)}`)
      const around = [
        lane.poolBytes.subarray(at - 512, at),
        lane.poolBytes.subarray(at + room(item), at + room(item) + 512),
      ]
      t.true(
        around.every((guard) => guard.every((byte) => byte === POISON)),
        `beside item ${i}`,
      )
    })
    return said
  }

  /** Both decode what lies at the offsets of the items named; every byte of both memories must agree. */
  decode(t: ExecutionContext, which: readonly number[]): number[] {
    const { lane, host, engine, offsets, half } = this
    const guarded = new Uint8Array(engine.bytes).fill(GUARD)
    engine.write(guarded)
    lane.results.fill(9)
    const on = (where: 'device' | 'host', shift: number): number[] =>
      which.flatMap((i) => engine.copy(where, i, shift + (offsets[i] as number), storedOf(engine.items[i] as Item)))
    t.is(lane.decode(3, on('device', 0), 1), 0)
    t.is(lane.decode(4, on('host', half), RESULTS / 2, host), 0)
    t.true(lane.reap(2).every(({ result }) => result === 0))
    const said = [...lane.results.subarray(1, 1 + which.length)]
    t.deepEqual(said, [...lane.results.subarray(RESULTS / 2, RESULTS / 2 + which.length)])
    t.is(lane.results[1 + which.length], 9)
    const [mine, theirs] = [engine.deviceBytes(), Uint8Array.from(engine.hostBytes)]
    which.forEach((i, place) => {
      if (said[place] === 0) return
      const { base, bytes } = engine.items[i] as Item
      for (const memory of [mine, theirs]) memory.fill(0, base, base + bytes)
    })
    const differs = firstDifference(mine, theirs)
    const item = engine.items.findIndex(({ base, bytes }) => differs >= base && differs < base + bytes)
    t.is(differs, -1, `item ${item}, ${JSON.stringify(engine.items[item])}`)
    return said
  }

  /** What the codec of the device's stream holds, by CODEC_WORKSPACE. */
  workspace(): Float64Array {
    const into = new Float64Array(CODEC_WORKSPACE.doubles)
    this.lane.port.codecWorkspace(this.lane.stream, into)
    return into
  }

  /** Encodes, decodes what was coded, damages it and decodes again. */
  roundTrip(t: ExecutionContext): void {
    this.engine.write(this.engine.content())
    const said = this.encode(t)
    const coded = this.engine.items.flatMap((_, i) => (said[2 * i] === 0 ? [] : [i]))
    t.true(coded.length > this.engine.items.length / 2)
    t.true(this.decode(t, coded).every((damage) => damage === 0))
    for (const i of coded) {
      const item = this.engine.items[i] as Item
      const at = (this.offsets[i] as number) + ((i * 7919) % storedOf(item))
      for (const shift of [0, this.half]) this.lane.poolBytes[shift + at] = i % 2 === 0 ? 0x7f : 0xff
    }
    this.decode(t, coded)
    const [reserved, held, allocations] = this.workspace()
    t.is(reserved, 0)
    t.true((held ?? 0) > 0 && (allocations ?? 0) > 0)
  }
}
