import { strictEqual as is, ok, deepStrictEqual as same } from 'node:assert'
import { CODEC_WORKSPACE } from '../../src/binding/codecs.js'
import type { Native } from '../../src/binding/surface.js'
import { type Coding, codingFields, fillGaussians } from '../native/coded-engine.js'
import { firstDifference } from './cuda-claims.js'
import { CudaLane } from './cuda-lane.js'
import { cudaFaults } from './shims.js'

/** Faults of a driver that meet codings: scenarios of cuda-faults-child.ts. */

const EIO = -5
const ENOMEM = -12
const ENODEV = -19
const BYTES = 65_536
const ITEMS = 8
const KEYS: Coding = { format: 'turboquant', scalar: 'bf16', role: 'k', bits: 4, headDim: 128, seed: 42 }
const CODINGS = { fp8: { format: 'fp8', scalar: 'bf16' }, turboquant: KEYS } satisfies Record<string, Coding>
const STORED = { fp8: BYTES / 2, turboquant: (BYTES / 256) * 66 }
type Name = keyof typeof CODINGS

class Bed {
  readonly lane: CudaLane
  readonly #native: Native
  readonly #mapping: number
  readonly #templates: Readonly<Record<Name, number>>

  constructor(native: Native) {
    this.#native = native
    this.lane = new CudaLane(native, ITEMS * BYTES)
    this.#mapping = native.allocateDeviceMemory(native.cudaProbe().devices[0]?.uuid ?? '', ITEMS * BYTES).mapping
    const content = new Uint8Array(ITEMS * BYTES)
    fillGaussians(content, 3)
    native.writeMapping(this.#mapping, 0, content)
    const template = (coding: Coding): number =>
      native.defineTemplate(
        Float64Array.of(this.#mapping, 0, BYTES, ITEMS, 0, BYTES, BYTES),
        Float64Array.of(0, 1),
        Float64Array.from(codingFields(coding)),
      )
    this.#templates = { fp8: template(CODINGS.fp8), turboquant: template(CODINGS.turboquant) }
  }

  list(name: Name, stored = STORED[name]): number[] {
    const pages = Array.from({ length: ITEMS }, (_, page) => page)
    return pages.flatMap((page) => [this.#templates[name], 0, page, page * BYTES, 0, 1, stored])
  }

  /** What encoding ends with, and the lengths that it says. */
  encode(name: Name): [number | undefined, number[]] {
    this.lane.results.fill(9)
    is(this.lane.encode(1, this.list(name)), 0)
    const [said] = this.lane.reap(1)
    return [said?.result, [...this.lane.results.subarray(0, 2 * ITEMS)].filter((_, i) => i % 2 === 0)]
  }

  decode(name: Name): number | undefined {
    is(this.lane.decode(2, this.list(name)), 0)
    return this.lane.reap(1)[0]?.result
  }

  pages(): Uint8Array {
    const bytes = new Uint8Array(ITEMS * BYTES)
    this.#native.readMapping(this.#mapping, 0, bytes)
    return bytes
  }

  /** Encodes, decodes, encodes again: FP8 of what was FP8 is itself. */
  holds(name: Name): void {
    same(this.encode(name), [0, Array(ITEMS).fill(STORED[name])])
    is(this.decode(name), 0)
    ok(this.lane.results.subarray(0, ITEMS).every((damage) => damage === 0))
    const once = this.pages()
    same(this.encode('fp8')[0], 0)
    is(this.decode('fp8'), 0)
    if (name === 'fp8') is(firstDifference(this.pages(), once), -1)
  }

  workspace(): number[] {
    const into = new Float64Array(CODEC_WORKSPACE.doubles)
    this.lane.port.codecWorkspace(this.lane.stream, into)
    return [...into]
  }

  close(): void {
    this.#native.releaseMapping(this.#mapping)
    this.lane.close()
    is(this.#native.mappingsAlive(), 0)
  }
}

const none = Array(ITEMS).fill(0)

export const codeScenarios = (native: Native): Readonly<Record<string, () => void>> => ({
  'codes-without-compiler': () => {
    const bed = new Bed(native)
    bed.holds('fp8')
    same(bed.encode('turboquant'), [0, none])
    is(bed.decode('turboquant'), ENOMEM)
    same(bed.workspace(), [0, 0, 0])
    bed.close()
  },
  'codes-without-memory': () => {
    const bed = new Bed(native)
    cudaFaults('alloc=2')
    for (const name of ['fp8', 'turboquant'] as const) {
      same(bed.encode(name), [0, none], 'what there is no memory for stays what it is')
      is(bed.decode(name), ENOMEM)
    }
    same(bed.workspace(), [0, 0, 0])
    cudaFaults('')
    for (const name of ['fp8', 'turboquant'] as const) bed.holds(name)
    is(bed.workspace()[CODEC_WORKSPACE.reservedBytes], 0)
    bed.close()
  },
  'codes-refused': () => {
    const bed = new Bed(native)
    bed.holds('turboquant')
    for (const fault of ['launch=701', 'copy=1']) {
      cudaFaults(fault)
      for (const name of ['fp8', 'turboquant'] as const) {
        is(bed.encode(name)[0], EIO, fault)
        is(bed.decode(name), EIO, fault)
      }
      cudaFaults('')
      for (const name of ['fp8', 'turboquant'] as const) bed.holds(name)
    }
    is(bed.workspace()[CODEC_WORKSPACE.reservedBytes], 0)
    bed.close()
  },
  'codes-lost': () => {
    const bed = new Bed(native)
    bed.holds('fp8')
    cudaFaults('hang')
    is(bed.lane.encode(1, bed.list('fp8')), 0)
    is(bed.lane.decode(2, bed.list('turboquant')), 0)
    cudaFaults('sticky=700')
    same(
      bed.lane.reap(2).map(({ tag, result }) => [tag, result]),
      [
        [1, ENODEV],
        [2, ENODEV],
      ],
    )
    is(bed.lane.encode(3, bed.list('fp8')), ENODEV)
    bed.lane.close()
  },
})
