import type { ExecutionContext } from 'ava'
import type { StreamOptions } from '../../src/binding/streams.js'
import type { Native } from '../../src/binding/surface.js'
import { aligned, type Coding } from '../native/coded-engine.js'
import { firstDifference } from './cuda-claims.js'
import { CodeBed, type Item, RESULTS, roomOf, storedOf } from './cuda-code-bed.js'
import type { Body } from './needs.js'

/**
 * What a CUDA device must do with codings, whichever driver stands behind it. The oracle is the host stream of the same
 * port: it codes the same items of a memory of the same content, and every byte of both must agree.
 */

const SCALARS = ['bf16', 'fp16'] as const
const ROLES = ['k', 'v', 'packed'] as const

/** Items of one coding each, at `alignment` and on, with gaps. */
function laidOut(codings: readonly (readonly [Coding, number])[], alignment: (i: number) => number): Item[] {
  let end = 0
  return codings.map(([coding, bytes], i) => {
    const base = Math.ceil(end / 16) * 16 + alignment(i)
    end = base + bytes + 7
    return { coding, bytes, base }
  })
}

/** Every shape of TurboQuant, of as many vectors as an item can have at its end. */
function everyShape(vectors: (i: number) => number): (readonly [Coding, number])[] {
  const shapes = [32, 64, 128, 256].flatMap((headDim) => [3, 4].map((bits) => ({ headDim, bits })))
  const kinds = shapes.flatMap((shape) =>
    ROLES.flatMap((role) => SCALARS.map((scalar) => ({ ...shape, role, scalar }))),
  )
  return kinds.map((kind, i) => [
    { format: 'turboquant', seed: 42 + 1337 * i, ...kind },
    vectors(i) * kind.headDim * (kind.role === 'packed' ? 4 : 2),
  ])
}

export function declareCudaCodeClaims(declare: (title: string, body: Body) => void, native: Native): void {
  const bed = (t: ExecutionContext, items: readonly Item[], options?: StreamOptions, room?: (item: Item) => number) =>
    new CodeBed(native, t, items, options, room)

  for (const transfer of ['direct', 'kernel', 'auto'] as const) {
    declare(`CUDA codes: FP8 of any length and alignment is the processor's, byte for byte, by ${transfer}`, (t) => {
      const sizes = [1024, 1026, 2048, 4094, 4096, 4098, 6000, 8192, 16_384, 65_536, 65_552, (1 << 20) + 2]
      const codings = SCALARS.flatMap((scalar) =>
        sizes.map((bytes) => [{ format: 'fp8', scalar, role: 'packed' }, bytes] as const),
      )
      const items = laidOut(codings, (i) => (i % 3 === 0 ? 0 : (i * 5) % 16))
      bed(t, items, { transfer }).roundTrip(t)
    })
  }

  declare("CUDA codes: TurboQuant of every shape is the processor's, byte for byte, at any alignment", (t) => {
    const codings = [...everyShape((i) => 32 + ((i * 7) % 37)), ...everyShape(() => 160)]
    const items = laidOut(codings, (i) => (i % 2 === 0 ? 0 : (i * 3) % 16))
    bed(t, items).roundTrip(t)
  })

  declare('CUDA codes: every pattern of 16 bits is coded, or refused wherever it lies, as on the processor', (t) => {
    for (const scalar of SCALARS) {
      const limit = scalar === 'bf16' ? 0x43e0 : 0x5f00
      const patterns = Array.from({ length: 65_536 }, (_, bits) => bits)
      const fine = patterns.filter((bits) => (bits & 0x7fff) <= limit)
      const bad = patterns.filter((bits) => (bits & 0x7fff) > limit)
      const bytes = 1024
      const the = bed(
        t,
        laidOut(
          Array.from({ length: 1000 }, () => [{ format: 'fp8', scalar }, bytes]),
          () => 0,
        ),
      )
      const write = (values: (item: number, i: number) => number): void => {
        const content = new Uint8Array(the.engine.bytes)
        const view = new DataView(content.buffer)
        the.engine.items.forEach(({ base }, item) => {
          for (let i = 0; i < bytes / 2; i++) view.setUint16(base + 2 * i, values(item, i), true)
        })
        the.engine.write(content)
      }
      write((item, i) => fine[(item * 512 + i) % fine.length] ?? 0)
      t.true(the.encode(t).every((said, i) => i % 2 === 1 || said === bytes / 2))
      t.true(
        the
          .decode(
            t,
            the.offsets.map((_, i) => i),
          )
          .every((damage) => damage === 0),
      )
      for (let first = 0; first < bad.length; first += 1000) {
        const of = (item: number): number | undefined => bad[first + item]
        write((item, i) => (i === (first + item * 7) % 512 ? (of(item) ?? 0) : (fine[i] ?? 0)))
        const said = the.encode(t)
        t.deepEqual(
          said.filter((_, i) => i % 2 === 0),
          the.offsets.map((_, item) => (of(item) === undefined ? bytes / 2 : 0)),
        )
      }
    }
  })

  declare('CUDA codes: an item that has no coding is stored as it is where there is room, else not at all', (t) => {
    const fp8 = { format: 'fp8', scalar: 'bf16' } as const
    const items = laidOut(
      [...Array(300)].map(() => [fp8, 4096] as const),
      (i) => i % 16,
    )
    const room = (item: Item): number => (items.indexOf(item) % 3 === 0 ? roomOf(item) : aligned(item.bytes))
    const the = bed(t, items, {}, room)
    const content = the.engine.content()
    items.forEach(({ base }, i) => {
      if (i % 2 === 0) content.fill(0xff, base + 2 * (i % 2048), base + 2 * (i % 2048) + 2)
    })
    the.engine.write(content)
    const said = the.encode(t, room)
    items.forEach((item, i) => {
      const stored = said[2 * i] as number
      if (i % 2 === 1 && i % 5 !== 1 && i % 5 !== 3) t.is(stored, storedOf(item))
      if (i % 2 === 0) t.is(stored, i % 3 === 0 ? 0 : item.bytes)
      const at = the.offsets[i] as number
      if (stored === item.bytes)
        t.is(
          firstDifference(
            the.lane.poolBytes.subarray(at, at + stored),
            content.subarray(item.base, item.base + stored),
          ),
          -1,
        )
    })
  })

  declare('CUDA codes: a small budget is kept, by batches, and grows to no more than that', (t) => {
    const budget = 192 * 1024
    const codings = Array.from(
      { length: 40 },
      (_, i) => [{ format: 'fp8', scalar: 'bf16' }, 4096 * (1 + (i % 16))] as const,
    )
    const the = bed(
      t,
      laidOut(codings, () => 0),
      { codecBudgetBytes: budget },
    )
    t.deepEqual([...the.workspace()], [0, 0, 0])
    the.roundTrip(t)
    const [, held] = the.workspace()
    t.true((held ?? 0) <= 2 * budget)
  })

  declare(
    'CUDA codes: what a codec holds is given back when it is asked for, and had anew with the next coding',
    (t) => {
      const codings = Array.from({ length: 20 }, () => [{ format: 'fp8', scalar: 'bf16' }, 65_536] as const)
      const the = bed(
        t,
        laidOut(codings, () => 0),
        { codecBudgetBytes: 512 * 1024 },
      )
      const { port, stream } = the.lane
      t.is(port.releaseCodecWorkspace(stream), 0, 'there is nothing yet')
      let before = 0
      for (let round = 0; round < 3; round++) {
        the.roundTrip(t)
        const [, held = 0, allocations = 0] = the.workspace()
        t.true(held > 0 && allocations > before)
        t.is(port.releaseCodecWorkspace(stream), 0)
        t.is(port.releaseCodecWorkspace(stream), 0, 'twice is once')
        t.deepEqual([...the.workspace()], [0, 0, allocations])
        before = allocations
      }
      t.is(port.releaseCodecWorkspace(-1), -22)
    },
  )

  declare('CUDA codes: with no budget FP8 is coded by the processor, and TurboQuant not at all', (t) => {
    const fp8 = { format: 'fp8', scalar: 'fp16' } as const
    const turboquant = { format: 'turboquant', scalar: 'bf16', role: 'k', bits: 4, headDim: 128, seed: 1 } as const
    const codings = [...Array(30)].map((_, i) => [i % 7 === 6 ? turboquant : fp8, 1 << 20] as const)
    const the = bed(
      t,
      laidOut(codings, (i) => i % 16),
      { codecBudgetBytes: 0 },
    )
    const content = the.engine.content()
    for (const [i, { base, bytes }] of the.engine.items.entries()) content.fill(i, base, base + bytes)
    the.engine.write(content)
    const { lane, engine, offsets } = the
    const list = engine.items.flatMap((item, i) => engine.copy('device', i, offsets[i] as number, roomOf(item)))
    const there = engine.items.flatMap((item, i) =>
      engine.copy('host', i, the.half + (offsets[i] as number), roomOf(item)),
    )
    t.is(lane.encode(1, list), 0)
    t.is(lane.encode(2, there, RESULTS / 2, the.host), 0)
    t.true(lane.reap(2).every(({ result }) => result === 0))
    engine.items.forEach((item, i) => {
      const turbo = item.coding.format === 'turboquant'
      t.is(lane.results[2 * i], turbo ? 0 : storedOf(item), `item ${i}`)
      if (turbo) return
      t.is(lane.results[2 * i + 1], lane.results[RESULTS / 2 + 2 * i + 1])
      const at = offsets[i] as number
      const [mine, theirs] = [0, the.half].map((s) => lane.poolBytes.subarray(s + at, s + at + storedOf(item)))
      t.is(firstDifference(mine as Uint8Array, theirs as Uint8Array), -1)
    })
    t.deepEqual([...the.workspace()], [0, 0, 0])
    const fp8s = engine.items.flatMap(({ coding }, i) => (coding.format === 'fp8' ? [i] : []))
    t.true(the.decode(t, fp8s).every((damage) => damage === 0))
    t.is(lane.port.releaseCodecWorkspace(lane.stream), 0, 'the buffer of the processor goes too')
    t.true(the.decode(t, fp8s).every((damage) => damage === 0))
    for (const shift of [0, the.half]) lane.poolBytes[shift + (offsets[0] as number)] = 0x7f
    t.deepEqual(the.decode(t, fp8s.slice(0, 2)), [1, 0])
    t.deepEqual([...the.workspace()], [0, 0, 0])
    const refused = engine.items.findIndex(({ coding }) => coding.format === 'turboquant')
    const [at, stored] = [offsets[refused] as number, storedOf(engine.items[refused] as Item)]
    t.is(lane.decode(3, engine.copy('device', refused, at, stored)), 0)
    t.deepEqual(lane.reap(1), [{ tag: 3, result: -12, nanoseconds: 0 }])
  })

  declare('CUDA codes: bytes of another length are no coding, and bad descriptors begin nothing', (t) => {
    const items = laidOut([[{ format: 'fp8', scalar: 'bf16' }, 4096]], () => 0)
    const the = bed(t, items)
    the.engine.write(the.engine.content())
    the.encode(t)
    const { lane, engine } = the
    const copy = (offset: number, stored: number): number[] => engine.copy('device', 0, offset, stored)
    t.is(lane.decode(1, [...copy(512, 2047), ...copy(512, 2048), ...copy(512, 1)]), 0)
    t.is(lane.reap(1)[0]?.result, 0)
    t.deepEqual([...lane.results.subarray(0, 3)], [1, 0, 1])
    t.is(lane.encode(1, copy(512, 2000)), -22, 'no multiple of 512')
    t.is(lane.encode(1, copy(lane.poolBytes.length - 512, 2048)), -22, 'behind the pool')
    t.is(lane.decode(1, copy(512, 4096)), -22, 'as long as the item')
    t.is(lane.decode(1, copy(512, 0)), -22)
    t.is(lane.encode(1, copy(512, 2048), RESULTS - 1), -22, 'no room for both results')
    t.is(lane.encode(1, engine.copy('host', 0, 512, 2048)), -18, 'pages of the host')
    t.is(lane.copy(1, 0, copy(512, 2048)), -22, 'a copy that is coded')
    t.is(lane.port.inFlight(), 0)
  })

  declare('CUDA codes: jobs of every kind end in their order, and each sees what came before it', (t) => {
    const fp8 = { format: 'fp8', scalar: 'bf16' } as const
    const the = bed(
      t,
      laidOut(
        [...Array(64)].map(() => [fp8, 65_536] as const),
        () => 0,
      ),
    )
    const content = the.engine.content()
    for (const [i, { base, bytes }] of the.engine.items.entries()) content.fill(i % 0x3f, base, base + bytes)
    the.engine.write(content)
    const { lane, engine, offsets } = the
    const whole = (i: number): number[] =>
      engine.copy('device', i, offsets[i] as number, roomOf(engine.items[i] as Item))
    const part = (i: number): number[] =>
      engine.copy('device', i, offsets[i] as number, storedOf(engine.items[i] as Item))
    for (let i = 0; i < 64; i++) {
      t.is(lane.encode(2 * i, whole(i), 2 * i), 0)
      t.is(lane.decode(2 * i + 1, part(i), 1024 + i), 0)
    }
    const said = lane.reap(128)
    t.deepEqual(
      said.map(({ tag }) => tag),
      Array.from({ length: 128 }, (_, i) => i),
    )
    t.true(said.every(({ result }) => result === 0))
    t.true(lane.results.subarray(1024, 1088).every((damage) => damage === 0))
    const back = engine.deviceBytes()
    engine.items.forEach(({ base, bytes }, i) => {
      // One byte twice: a value that E4M3 may round, and then keeps.
      const pair = back.subarray(base, base + 2)
      t.true(
        back.subarray(base, base + bytes).every((byte, k) => byte === pair[k % 2]),
        `item ${i}`,
      )
    })
  })
}
