import { mkdtempSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { CODEC_WORKSPACE } from '../../src/binding/codecs.js'
import { loadNative } from '../../src/binding/load.js'
import type { StreamOptions } from '../../src/binding/streams.js'
import { MIB } from '../../src/shared/base/units.js'
import { ITEM_CODING, ITEM_FORMAT, ITEM_ROLE, ITEM_SCALAR } from '../../src/shared/layout/descriptors.js'
import { noise, normals } from '../support/ans-bed.js'
import { CudaLane } from '../support/cuda-lane.js'
import { CuFileShim, shimMissing } from '../support/cufile-shim.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { type NvcompShim, nvcompShim } from '../support/nvcomp-shim.js'
import { cudaFaults, useCudaShims } from '../support/shims.js'

/**
 * Codings that a stream holds where it made them, and their way from there through a staging slot to the file: over the
 * twins of libcuda, libnvrtc, libcufile and nvCOMP. What the pool got of the same job is the oracle.
 */

const native = loadNative()
const missing = shimMissing()
const shimTest = needs(missing === null, missing ?? '')

const EINVAL = -22
const EBUSY = -16
const E2BIG = -7
const EIO = -5
const EOPNOTSUPP = -95
const SECTOR = 512
const PAGE = 4096
const KIB = 1024
const up = (bytes: number, to = SECTOR): number => Math.ceil(bytes / to) * to
const NONE = new Float64Array(0)

type Format = 'raw' | 'fp8' | 'turboquant' | 'ans'
interface Item {
  readonly format: Format
  readonly content: Uint8Array
  /** Of TurboQuant. */
  readonly headDim?: number
}

function coding({ format, headDim = 128 }: Item): number[] {
  const fields = new Array<number>(ITEM_CODING.doubles).fill(0)
  if (format === 'raw') return fields
  fields[ITEM_CODING.format] = ITEM_FORMAT[format]
  fields[ITEM_CODING.scalar] = ITEM_SCALAR.bf16
  if (format !== 'ans') fields[ITEM_CODING.role] = ITEM_ROLE.k
  if (format !== 'turboquant') return fields
  fields[ITEM_CODING.bits] = 4
  fields[ITEM_CODING.headDim] = headDim
  fields[ITEM_CODING.seed] = 1379
  return fields
}

/** Bytes that its coding takes in the pool: what is known of it, or the item's. */
function roomOf({ format, content, headDim = 128 }: Item): number {
  if (format === 'fp8') return up(content.length / 2)
  if (format === 'turboquant') return up((content.length / (2 * headDim)) * (headDim / 2 + 2))
  return up(content.length)
}

useCudaShims()
let shim: CuFileShim | null = null
let nvcomp: NvcompShim | null = null
if (missing === null) {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'orbitkv-held-'))
  shim = new CuFileShim(folder)
  process.env['ORBITKV_CUFILE_SHIM'] = folder
  native.openCuFile({ library: shim.library, nativeOnly: false, logFolder: folder })
  nvcomp = nvcompShim(folder)
  native.openNvcomp(nvcomp.library)
}

/** Items of device memory, a lane with a stream and a staging slot over them, and a file. */
class Bed {
  readonly lane: CudaLane
  readonly items: readonly Item[]
  readonly slot: number
  readonly path: string
  readonly #file: number
  readonly #template: number
  readonly #offsets: number[] = []
  readonly #workspace = new Float64Array(CODEC_WORKSPACE.doubles)

  constructor(t: ExecutionContext, items: readonly Item[], options: StreamOptions = {}) {
    this.items = items
    const bases: number[] = []
    let end = 0
    let pool = 0
    for (const item of items) {
      bases.push(end)
      end = up(end + item.content.length, 16)
      this.#offsets.push(pool)
      pool += roomOf(item)
    }
    const { mapping } = native.allocateDeviceMemory(native.cudaProbe().devices[0]?.uuid ?? '', end)
    for (const [i, { content }] of items.entries()) native.writeMapping(mapping, bases[i] as number, content)
    this.#template = native.defineTemplate(
      Float64Array.from(
        items.flatMap(({ content: { length } }, i) => [mapping, bases[i] as number, 0, 1, 0, length, up(length)]),
      ),
      Float64Array.from({ length: items.length + 1 }, (_, i) => i),
      Float64Array.from(items.flatMap(coding)),
    )
    this.path = join(folderOf(t), 'shard.dat')
    this.#file = native.openShard(this.path, 8 * MIB, false).file
    t.is(native.registerCuFileShard(this.#file), 0)
    this.lane = new CudaLane(native, pool, options)
    this.slot = this.lane.port.openStaging('cuda:0', 4 * MIB)
    t.true(this.slot >= 0)
    t.teardown(() => {
      native.releaseTemplate(this.#template)
      native.releaseMapping(mapping)
      this.lane.close()
      native.closeShard(this.#file)
    })
  }

  copy(i: number, stored = roomOf(this.items[i] as Item), at = this.#offsets[i] as number): number[] {
    return [this.#template, i, 0, at, 0, 1, stored]
  }

  get all(): number[] {
    return this.items.flatMap((_, i) => this.copy(i))
  }

  /** Queues an encoding whose codings are held. */
  hold(tag = 1, list = this.all): number {
    const { port, stream } = this.lane
    return port.encodeHeld(stream, tag, Float64Array.from(list), 0, list.length / 7, 0)
  }

  encode(): number {
    return this.lane.encode(2, this.all)
  }

  release(): number {
    return this.lane.port.releaseCodes(this.lane.stream)
  }

  /** Writes `bytes` from the start of the slot to the start of the file. */
  write(bytes: number, codes: readonly number[], { zeroFrom = bytes, copies = NONE, holder = this.lane.stream } = {}) {
    const { port } = this.lane
    const list = Float64Array.from(codes)
    const count = codes.length / 3
    const place = [this.#file, 0, 0, bytes, zeroFrom] as const
    return port.stagingWrite(this.slot, 7, ...place, copies, 0, copies.length / 7, list, 0, count, holder)
  }

  /** Leaves no zero in the slot. */
  dirty(t: ExecutionContext): void {
    writeFileSync(this.path, new Uint8Array(4 * MIB).fill(0xee), { flag: 'r+' })
    t.is(this.lane.port.stagingRead(this.slot, 6, this.#file, 0, 4 * MIB, NONE, 0, 0, 0), 0)
    t.is(this.lane.reap(1)[0]?.result, 4 * MIB)
  }

  stored(i: number): number {
    return this.lane.results[2 * i] as number
  }

  /** An item as the pool has it, with the zeroes behind it. */
  pool(i: number): Uint8Array {
    const at = this.#offsets[i] as number
    return this.lane.poolBytes.slice(at, at + up(this.stored(i)))
  }

  file(bytes: number): Uint8Array {
    return readFileSync(this.path).subarray(0, bytes)
  }

  workspace(place: 'reservedBytes' | 'heldBytes' | 'allocations'): number {
    this.lane.port.codecWorkspace(this.lane.stream, this.#workspace)
    return this.#workspace[CODEC_WORKSPACE[place]] as number
  }
}

const fp8 = (bytes: number, seed: number): Item => ({ format: 'fp8', content: normals(bytes, seed) })
const turboquant = (bytes: number, seed: number, headDim = 128): Item => ({
  format: 'turboquant',
  content: normals(bytes, seed),
  headDim,
})
const ans = (bytes: number, seed: number): Item => ({ format: 'ans', content: normals(bytes, seed) })
/** One value of which makes FP8 refuse the item. */
function infinite(bytes: number): Item {
  const content = normals(bytes, 9)
  content.set([0x80, 0x7f], 2)
  return { format: 'fp8', content }
}

for (const [format, make] of [
  ['fp8', fp8],
  ['turboquant', turboquant],
  ['ans', ans],
] as const) {
  shimTest(`held codes: ${format} reaches the file byte for byte, beside raw bytes, with zeroes in every gap`, (t) => {
    const raw: Item = { format: 'raw', content: noise(3 * KIB + 100, 3) }
    const bed = new Bed(t, [make(64 * KIB, 1), raw, make(48 * KIB, 2), make(16 * KIB, 4)])
    const coded = [0, 2, 3]
    bed.lane.poolBytes.fill(0xee)
    t.is(
      bed.hold(
        1,
        coded.flatMap((i) => bed.copy(i)),
      ),
      0,
    )
    t.deepEqual(bed.lane.reap(1), [{ tag: 1, result: 0, nanoseconds: 0 }])
    const words = [...bed.lane.results.subarray(0, 6)]
    // Every place of the results is that of the job's descriptor; the bed counts items.
    for (const [place, i] of coded.entries()) bed.lane.results.set(words.slice(2 * place, 2 * place + 2), 2 * i)
    t.true(coded.every((i) => bed.stored(i) > 0 && bed.stored(i) < (bed.items[i] as Item).content.length))

    // In another order than they were made, the raw one between; what the slot held before is no zero.
    bed.dirty(t)
    const places = [2, 1, 0, 3]
    const codes: number[] = []
    let copies: number[] = []
    const expected: Uint8Array[] = []
    let at = 0
    for (const i of places) {
      if (i === 1) {
        copies = bed.copy(i, 0, at)
        expected.push(raw.content, new Uint8Array(up(raw.content.length) - raw.content.length))
        at += up(raw.content.length)
        continue
      }
      codes.push(coded.indexOf(i), at, bed.stored(i))
      expected.push(bed.pool(i))
      at += up(bed.stored(i))
    }
    const bytes = up(at, PAGE)
    expected.push(new Uint8Array(bytes - at))
    t.is(bed.write(bytes, codes, { zeroFrom: at, copies: Float64Array.from(copies) }), 0)
    t.is(bed.lane.reap(1)[0]?.result, bytes)
    t.is(Buffer.compare(bed.file(bytes), Buffer.concat(expected)), 0)
    t.is(bed.release(), 0)
    t.deepEqual(nvcomp?.takeViolations(), [])
  })
}

shimTest('held codes: while they are held nobody encodes, then the stream encodes and holds again', (t) => {
  const bed = new Bed(t, [fp8(64 * KIB, 1), fp8(32 * KIB, 2)])
  t.is(bed.release(), EINVAL, 'nothing is held')
  t.is(bed.hold(), 0)
  t.is(bed.release(), EBUSY, 'it is not made yet')
  t.is(bed.encode(), EBUSY)
  bed.lane.reap(1)
  t.is(bed.hold(), EBUSY)
  t.is(bed.encode(), EBUSY)
  const reserved = bed.workspace('reservedBytes')
  t.true(reserved >= up(32 * KIB) + up(16 * KIB), 'what is held stays reserved')
  t.is(bed.lane.port.releaseCodecWorkspace(bed.lane.stream), EBUSY, 'nor is it given back')
  // Decoding has a workspace of its own.
  t.is(bed.lane.decode(3, [...bed.copy(0, 32 * KIB), ...bed.copy(1, 16 * KIB)]), 0)
  t.is(bed.lane.reap(1)[0]?.result, 0)
  t.is(bed.release(), 0)
  t.is(bed.workspace('reservedBytes'), 0)
  t.is(bed.release(), EINVAL)
  const allocations = bed.workspace('allocations')
  for (const encode of [() => bed.encode(), () => bed.hold()]) {
    t.is(encode(), 0)
    t.is(bed.lane.reap(1)[0]?.result, 0)
  }
  t.is(bed.workspace('allocations'), allocations, 'the arena is the same one')
  t.is(bed.release(), 0)
  t.is(bed.lane.port.releaseCodecWorkspace(bed.lane.stream), 0)
  t.is(bed.workspace('heldBytes'), 0)
})

shimTest('held codes: a write under way keeps them, and the stream that has them', (t) => {
  const bed = new Bed(t, [fp8(64 * KIB, 1)])
  t.is(bed.hold(), 0)
  bed.lane.reap(1)
  shim?.tell('write', 'hold')
  t.is(bed.write(32 * KIB, [0, 0, 32 * KIB]), 0)
  t.is(bed.release(), EBUSY)
  t.is(bed.lane.port.closeStream(bed.lane.stream), EBUSY)
  shim?.forget('write')
  t.is(bed.lane.reap(1)[0]?.result, 32 * KIB)
  t.is(Buffer.compare(bed.file(32 * KIB), bed.pool(0)), 0)
  // It is there as long as nobody releases it.
  t.is(bed.write(32 * KIB, [0, 0, 32 * KIB]), 0)
  bed.lane.reap(1)
  t.is(bed.release(), 0)
  t.is(bed.write(32 * KIB, [0, 0, 32 * KIB]), EINVAL, 'and no longer')
  t.is(bed.lane.port.closeStream(bed.lane.stream), 0)
})

shimTest('held codes: an item that was refused has no coding, and the others are held', (t) => {
  const bed = new Bed(t, [fp8(16 * KIB, 1), infinite(16 * KIB), fp8(16 * KIB, 2)])
  t.is(bed.hold(), 0)
  t.is(bed.lane.reap(1)[0]?.result, 0)
  t.deepEqual(
    [0, 1, 2].map((i) => bed.stored(i)),
    [8 * KIB, 0, 8 * KIB],
  )
  t.is(bed.write(8 * KIB, [1, 0, 8 * KIB]), EINVAL)
  t.is(bed.write(8 * KIB, [2, 0, 8 * KIB]), 0)
  bed.lane.reap(1)
  t.is(Buffer.compare(bed.file(8 * KIB), bed.pool(2)), 0)
  t.is(bed.release(), 0)
})

shimTest('held codes: ANS that saves nothing is stored as it is, and has no coding', (t) => {
  const bed = new Bed(t, [ans(16 * KIB, 1), { format: 'ans', content: noise(16 * KIB, 5) }])
  t.is(bed.hold(), 0)
  t.is(bed.lane.reap(1)[0]?.result, 0)
  t.is(bed.stored(1), 16 * KIB)
  t.is(bed.write(16 * KIB, [1, 0, 16 * KIB]), EINVAL)
  t.is(bed.write(16 * KIB, [0, 0, bed.stored(0)]), 0)
  bed.lane.reap(1)
  t.is(Buffer.compare(bed.file(up(bed.stored(0))), bed.pool(0)), 0)
  t.is(bed.release(), 0)
})

shimTest(
  'held codes: what does not fit together, or the processor codes, is refused at once and leaves no trace',
  (t) => {
    const two = new Bed(t, [fp8(256 * KIB, 1), fp8(256 * KIB, 2)], { codecBudgetBytes: 200 * KIB })
    t.is(two.hold(), E2BIG)
    t.is(two.release(), EINVAL)
    t.is(two.encode(), 0, 'in two batches it goes')
    t.is(two.lane.reap(1)[0]?.result, 0)
    t.is(two.hold(1, two.copy(1)), 0, 'one of them alone is held')
    two.lane.reap(1)
    t.is(two.release(), 0)

    // Encoding has a budget of its own where it is given one.
    const own = new Bed(t, [fp8(256 * KIB, 1), fp8(256 * KIB, 2)], {
      codecBudgetBytes: 4 * KIB,
      encodeBudgetBytes: MIB,
    })
    t.is(own.hold(), 0)
    t.is(own.lane.reap(1)[0]?.result, 0)
    t.true(own.workspace('heldBytes') <= MIB)
    t.is(own.release(), 0)

    const shapes = new Bed(t, [turboquant(16 * KIB, 1, 64), turboquant(16 * KIB, 2, 128)])
    t.is(shapes.hold(), E2BIG, 'two programs make two batches')

    const none = new Bed(t, [fp8(64 * KIB, 1)], { codecBudgetBytes: 0 })
    t.is(none.hold(), E2BIG, 'without a workspace the processor codes')
    t.is(none.encode(), 0)
    t.is(none.lane.reap(1)[0]?.result, 0)

    const host = two.lane.port.openStream('host')
    t.is(two.lane.port.encodeHeld(host, 1, Float64Array.from(two.copy(0)), 0, 1, 0), EOPNOTSUPP)
    t.is(two.lane.port.releaseCodes(host), EINVAL)
    t.is(two.lane.port.encodeHeld(two.slot, 1, Float64Array.from(two.copy(0, 32 * KIB, 0)), 0, 1, 0), EOPNOTSUPP)
  },
)

shimTest(
  'held codes: triples that name nothing that is held, or no place in the slot, are refused before anything is queued',
  (t) => {
    const bed = new Bed(t, [fp8(64 * KIB, 1)])
    t.is(bed.write(8 * KIB, [0, 0, 32 * KIB]), EINVAL, 'nothing is held')
    t.is(bed.hold(), 0)
    t.is(bed.write(8 * KIB, [0, 0, 32 * KIB]), EINVAL, 'it is not made yet')
    bed.lane.reap(1)
    for (const codes of [
      [1, 0, 32 * KIB],
      [-1, 0, 32 * KIB],
      [0.5, 0, 32 * KIB],
      [Number.NaN, 0, 32 * KIB],
      [0, 0, 32 * KIB - 1],
      [0, 0, 32 * KIB + 1],
      [0, 0, 0],
      [0, 100, 32 * KIB],
      [0, 4 * MIB - 31 * KIB, 32 * KIB],
      [0, 2 ** 52, 32 * KIB],
      [0, 0, 32 * KIB, 0, 64 * KIB, 1],
    ]) {
      t.is(bed.write(32 * KIB, codes), EINVAL, String(codes))
    }
    t.is(bed.write(32 * KIB, [0, 0, 32 * KIB], { holder: 99 }), EINVAL)
    t.is(bed.write(32 * KIB, [0, 0, 32 * KIB], { holder: bed.slot }), EINVAL, 'a slot holds nothing')
    const host = bed.lane.port.openStaging('host', 4 * MIB)
    t.is(
      bed.lane.port.stagingWrite(host, 1, 0, 0, 0, PAGE, PAGE, NONE, 0, 0, Float64Array.of(0, 0, 32 * KIB), 0, 1, 0) <
        0,
      true,
    )
    t.is(bed.write(32 * KIB, [0, 0, 32 * KIB]), 0, 'and the right one goes')
    t.is(bed.lane.reap(1)[0]?.result, 32 * KIB)
    t.is(bed.release(), 0)
  },
)

shimTest('held codes: after a failed encoding nothing is held', (t) => {
  const bed = new Bed(t, [ans(16 * KIB, 1)])
  nvcomp?.tell('compress', 1000)
  t.is(bed.hold(), 0)
  t.is(bed.lane.reap(1)[0]?.result, EIO)
  nvcomp?.forget('compress')
  t.is(bed.release(), EINVAL)
  t.is(bed.hold(), 0)
  t.is(bed.lane.reap(1)[0]?.result, 0)
  t.is(bed.release(), 0)
})

shimTest('held codes: without memory of the device everything stays what it is, and the hold holds nothing', (t) => {
  const bed = new Bed(t, [fp8(64 * KIB, 1)])
  cudaFaults('alloc=2')
  t.is(bed.hold(), 0)
  t.is(bed.lane.reap(1)[0]?.result, 0)
  cudaFaults('')
  t.is(bed.stored(0), 0)
  t.is(bed.write(32 * KIB, [0, 0, 32 * KIB]), EINVAL)
  t.is(bed.workspace('reservedBytes'), 0)
  t.is(bed.release(), 0)
  t.is(bed.hold(), 0)
  bed.lane.reap(1)
  t.is(bed.stored(0), 32 * KIB)
  t.is(bed.release(), 0)
})
