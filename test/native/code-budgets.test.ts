import { mkdtempSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { AnsBed, type AnsItem, letters, normals, type Stored } from '../support/ans-bed.js'
import { nvcompShim } from '../support/nvcomp-shim.js'
import { useCudaShims } from '../support/shims.js'

/** What is encoded can be decoded within the budget, whatever that is, and whatever nvCOMP needs for either direction. */

const KIB = 1024
const MIB = 1024 * KIB
const ENOMEM = -12

useCudaShims()
const native = loadNative()
const shim = nvcompShim(mkdtempSync(join(realpathSync(tmpdir()), 'orbitkv-budgets-')))

test.before((t) => {
  t.is(native.openNvcomp(shim.library).reason, 'ok')
})

/** A whole piece of a large segment, and an end of one (shorter ones are not coded). Beside them what other codecs take. */
const ITEMS: readonly AnsItem[] = [
  { scalar: 'bytes', content: letters(MIB, 1) },
  { scalar: 'bytes', content: letters(4096 + 37, 2) },
  { scalar: 'bf16', content: normals(256 * KIB, 3) },
  { scalar: 'bf16', content: normals(4096, 4) },
  { scalar: 'e4m3', content: letters(64 * KIB + 8, 5) },
  { scalar: 'bf16', content: normals(64 * KIB, 6), format: 'fp8' },
  { scalar: 'bf16', content: normals(MIB, 7), format: 'turboquant' },
  { scalar: 'bf16', content: normals(8 * KIB, 8), format: 'turboquant' },
]

interface Budgets {
  readonly own: number
  /** Of streams of staging slots. */
  readonly staging?: number
  readonly temp: number
  readonly decodeTemp: number
}

class Bed {
  readonly bed: AnsBed
  constructor(t: ConstructorParameters<typeof AnsBed>[0]) {
    this.bed = new AnsBed(t, native, ITEMS)
    t.teardown(() => {
      shim.forget('temp')
      shim.forget('decode-temp')
    })
  }

  /** Which items are coded within some budgets. */
  encode({ own, staging, temp, decodeTemp }: Budgets): { readonly stored: Stored[]; readonly coded: number[] } {
    shim.tell('temp', temp)
    shim.tell('decode-temp', decodeTemp)
    const options =
      staging === undefined ? { codecBudgetBytes: own } : { codecBudgetBytes: own, codecStagingBudgetBytes: staging }
    const { result, stored } = this.#on(options, () => this.bed.encode())
    if (result !== 0) throw new Error(`encoding ends with ${result}`)
    const coded = stored.flatMap(({ bytes }, i) =>
      bytes > 0 && bytes < (ITEMS[i] as AnsItem).content.length ? [i] : [],
    )
    return { stored, coded }
  }

  /** What decoding them ends with on a stream of a budget. */
  decode(codecBudgetBytes: number, stored: readonly Stored[], which: number[]): number {
    const { result, refused } = this.#on({ codecBudgetBytes }, () => this.bed.decode(stored, which))
    if (refused.length > 0) throw new Error(`items ${refused} are no codings`)
    return result
  }

  #on<T>(options: { codecBudgetBytes: number }, act: () => T): T {
    const { port } = this.bed.lane
    this.bed.stream = port.openStream('cuda:0', options)
    const done = act()
    if (port.closeStream(this.bed.stream) !== 0) throw new Error('the stream stays open')
    return done
  }
}

test.serial('codes: whatever the budgets, what is encoded is decoded within them', (t) => {
  const bed = new Bed(t)
  let state = 20261130
  const below = (end: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * end)
  }
  /** Many sizes alike. */
  const size = (least: number, most: number): number => Math.floor(least * (most / least) ** (below(1000) / 999))
  const times = new Array<number>(ITEMS.length).fill(0)
  const ROUNDS = 120
  for (let round = 0; round < ROUNDS; round++) {
    const own = size(4 * KIB, 8 * MIB)
    const temps = { temp: below(3) === 0 ? 0 : size(512, 4 * MIB), decodeTemp: below(3) === 0 ? 0 : size(512, 4 * MIB) }
    const staging = below(2) === 0 ? Math.floor(own / 3) : undefined
    const budgets = staging === undefined ? { own, ...temps } : { own, staging, ...temps }
    const { stored, coded } = bed.encode(budgets)
    for (const i of coded) times[i] = (times[i] as number) + 1
    if (coded.length === 0) continue
    for (const budget of staging === undefined ? [own] : [own, staging]) {
      t.is(bed.decode(budget, stored, coded), 0, `${JSON.stringify(budgets)}, ${coded} with ${budget}`)
      for (const i of coded) t.is(bed.decode(budget, stored, [i]), 0, `${JSON.stringify(budgets)}, item ${i} alone`)
    }
  }
  // Each of the others is coded in some and raw in some; FP8 is raw only where a staging slot has no room for a word.
  for (const [i, count] of times.entries()) t.true(count > 0 && count < ROUNDS, `item ${i}: ${count}`)
  t.deepEqual(shim.takeViolations(), [])
})

test.serial('codes: an item whose decoding needs a byte more than the budget stays as it is', (t) => {
  const bed = new Bed(t)
  const isCoded = (own: number, decodeTemp: number, item: number): boolean =>
    bed.encode({ own, temp: 0, decodeTemp }).coded.includes(item)
  // What encoding alone needs, by halving.
  const least = (fits: (budget: number) => boolean): number => {
    let [low, high] = [0, 16 * MIB]
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (fits(middle)) high = middle
      else low = middle
    }
    return high
  }
  const encoding = least((budget) => isCoded(budget, 0, 0))
  t.true(isCoded(4 * MIB, 0, 0))
  // The codings of letters take no seven eighths, so that decoding them is what is planned for, not what they need.
  const decoding = least((budget) => isCoded(budget, 2 * MIB, 0))
  t.true(decoding > encoding && decoding > 2 * MIB + (7 * MIB) / 8, `${decoding} after ${encoding}`)
  const { stored, coded } = bed.encode({ own: decoding, temp: 0, decodeTemp: 2 * MIB })
  t.true(coded.includes(0))
  t.is(bed.decode(decoding, stored, [0]), 0)
  t.false(isCoded(decoding - 1, 2 * MIB, 0))
  t.is(bed.decode(MIB, stored, [0]), ENOMEM, 'nobody decodes without room')
  t.is(bed.encode({ own: decoding - 1, temp: 0, decodeTemp: 2 * MIB }).stored[0]?.bytes, MIB, 'it is there, raw')
  // A staging slot with less counts as well.
  t.true(bed.encode({ own: 8 * MIB, staging: decoding, temp: 0, decodeTemp: 2 * MIB }).coded.includes(0))
  t.false(bed.encode({ own: 8 * MIB, staging: decoding - 1, temp: 0, decodeTemp: 2 * MIB }).coded.includes(0))
})
