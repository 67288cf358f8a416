import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CudaDevice } from '../src/binding/devices.js'
import { loadNative } from '../src/binding/load.js'
import type { Native } from '../src/binding/surface.js'
import { alignUp, MIB, SECTOR_BYTES } from '../src/shared/base/units.js'
import { type ItemCoding, isCoded, type RawReason } from '../src/shared/codec/coding.js'
import { codingsOf, itemCoding } from '../src/shared/codec/representation.js'
import { CODEC_BUDGET_BYTES, CODEC_NAMES, type CodecName } from '../src/shared/codec/setting.js'
import type { RegionSpec } from '../src/shared/layout/regions.js'
import { CodecLane } from './support/codec-lane.js'
import { codedTemplate, copyList, type ItemCopy, roomOf } from './support/coded-engine.js'
import { type BenchOptions, Refusal } from './support/options.js'
import { cudaDeviceOf, PageMemory } from './support/page-memory.js'
import { estimate, rounded } from './support/statistics.js'

/**
 * Question: how many bytes, how much error and how much time does each codec cost on keys and values that a model made?
 * Input: the folder that ORBITKV_BENCH_KV names, made by bench/kv/make-kv.py. Every layer's keys and values are cut into
 * pages of 64 tokens, coded as the Manager would code them (the layers that a codec keeps exact are kept, and counted),
 * decoded into other pages and compared value by value. `--device cuda:N` codes there; ANS needs that and nvCOMP
 * (ORBITKV_NVCOMP_LIBRARY). Control: the bytes themselves: ratios are of whole sectors, as they are stored.
 * Does not show: what the error does to the answers of a model.
 */

const PAGE_TOKENS = 64
const VALUE_BYTES = 2
/** Layers that are coded at once: the memory of pages and pool. */
const LAYERS_AT_ONCE = 4
const REPEATS = 5

interface Model {
  readonly layers: number
  readonly tokens: number
  readonly heads: number
  readonly headDim: number
  readonly weights: string
  readonly hidden: number
}

/** Sums over what one codec did to all layers. */
interface Sums {
  logicalBytes: number
  storedBytes: number
  codedItems: number
  rawItems: number
  encodeUs: number
  decodeUs: number
  readonly rawReasons: Map<string, number>
  readonly errors: Record<'k' | 'v', Errors>
}

interface Errors {
  /** Of coded items alone. */
  squares: number
  errorSquares: number
  largest: number
}

export async function run(options: BenchOptions, say: (line: string) => void): Promise<object> {
  const folder = process.env['ORBITKV_BENCH_KV'] ?? ''
  if (folder === '' || !existsSync(join(folder, 'kv.json'))) {
    throw new Refusal(
      `Cannot find keys and values in ORBITKV_BENCH_KV=${folder}: make them with python3 bench/kv/make-kv.py FOLDER`,
    )
  }
  const model = JSON.parse(readFileSync(join(folder, 'kv.json'), 'utf8')) as Model
  const native = loadNative()
  const cuda = cudaDeviceOf(native, options.device)
  const absent = ansMissing(native, cuda)
  say(
    `${model.weights} weights, ${model.layers} layers, ${model.tokens} tokens, ${model.heads} heads of ${model.headDim}`,
  )
  const rows = []
  for (const name of CODEC_NAMES) {
    if (name === 'none') continue
    if (name === 'ans' && absent !== null) {
      say(`ans: not measured: ${absent}`)
      continue
    }
    const sums = measure(native, { name, folder, model, cuda, options })
    const row = rowOf(name, sums)
    rows.push(row)
    say(lineOf(row))
  }
  return { model, pageTokens: PAGE_TOKENS, rows, ansAbsent: absent }
}

/** Why ANS cannot be measured; null when it can. */
function ansMissing(native: Native, cuda: CudaDevice | null): string | null {
  if (cuda === null) return 'it is coded by a GPU: --device cuda:0'
  const { available, reason, path } = native.openNvcomp(process.env['ORBITKV_NVCOMP_LIBRARY'] ?? '')
  return available ? null : `nvCOMP: ${reason}: ${path}`
}

interface Measured {
  readonly name: CodecName
  readonly folder: string
  readonly model: Model
  readonly cuda: CudaDevice | null
  readonly options: BenchOptions
}

interface Part {
  readonly layer: number
  readonly role: 'k' | 'v'
  readonly coding: ItemCoding
}

function measure(native: Native, { name, folder, model, cuda, options }: Measured): Sums {
  const pages = Math.floor(model.tokens / PAGE_TOKENS)
  const itemBytes = PAGE_TOKENS * model.heads * model.headDim * VALUE_BYTES
  const sums = emptySums()
  const parts = partsOf(name, model, itemBytes, cuda !== null, sums.rawReasons, pages)
  for (const { coding } of parts) {
    sums.logicalBytes += pages * itemBytes
    if (isCoded(coding)) continue
    sums.rawItems += pages
    sums.storedBytes += pages * alignUp(itemBytes, SECTOR_BYTES)
  }
  const coded = parts.filter(({ coding }) => isCoded(coding))
  for (let first = 0; first < coded.length; first += 2 * LAYERS_AT_ONCE) {
    const here = coded.slice(first, first + 2 * LAYERS_AT_ONCE)
    const codings = here.map(({ coding }) => coding)
    const bytes = here.length * pages * itemBytes
    const from = new PageMemory(native, bytes, cuda)
    const to = new PageMemory(native, bytes, cuda)
    from.write((memory) => {
      for (const [i, part] of here.entries()) fileOf(folder, part).copy(memory, i * pages * itemBytes)
    })
    const templates = [from, to].map((memory) => codedTemplate(native, memory, itemBytes, pages, codings))
    const rooms = here.flatMap(({ coding }) => new Array<number>(pages).fill(roomOf(coding, itemBytes)))
    const poolBytes = rooms.reduce((sum, room) => sum + room, 0)
    const budget = { codecBudgetBytes: CODEC_BUDGET_BYTES }
    const lane = new CodecLane(native, options.device, alignUp(poolBytes, MIB), budget)
    const [fromTemplate = -1, toTemplate = -1] = templates
    const copies = copiesOf(fromTemplate, rooms, pages)
    const times = { encode: [] as number[], decode: [] as number[] }
    for (let repeat = 0; repeat < (options.quick ? 1 : REPEATS); repeat++) {
      const { us, coded: results } = lane.encode(copyList(copies))
      times.encode.push(us)
      const decodable: ItemCopy[] = []
      for (const [i, { stored }] of results.entries()) {
        if (repeat === 0) count(sums, stored, itemBytes)
        if (stored === 0 || stored === itemBytes) continue
        decodable.push({ ...(copies[i] as ItemCopy), template: toTemplate, storedBytes: stored })
      }
      if (decodable.length > 0) times.decode.push(lane.decode(copyList(decodable)))
      if (repeat === 0) compareValues(sums, here, { from: from.read(), to: to.read(), decodable, pages, itemBytes })
    }
    sums.encodeUs += estimate(times.encode).median
    sums.decodeUs += times.decode.length === 0 ? 0 : estimate(times.decode).median
    lane.close()
    for (const template of templates) native.releaseTemplate(template)
    from.release()
    to.release()
  }
  return sums
}

/** Keys and values of every layer with the coding that the Manager's policy gives their pages. */
function partsOf(
  name: CodecName,
  { layers, heads, headDim }: Model,
  itemBytes: number,
  onGpu: boolean,
  rawReasons: Map<string, number>,
  pages: number,
): Part[] {
  const parts = Array.from({ length: 2 * layers }, (_, i) => ({
    layer: i >> 1,
    role: i % 2 === 0 ? ('k' as const) : ('v' as const),
  }))
  const regions = parts.map(
    ({ layer, role }): RegionSpec => ({
      ...{ layer: `layers.${layer}.${role}`, group: 0, allocation: 0, offsetBytes: 0, pageCount: pages },
      ...{ pageStrideBytes: itemBytes, segments: 1, segmentBytes: itemBytes, segmentStrideBytes: itemBytes },
      ...{ dtype: 'bfloat16', kvRole: role, headDim, heads },
    }),
  )
  const groups = [{ kind: 'full-attention', blockTokens: PAGE_TOKENS, windowTokens: 0 }] as const
  const codings = codingsOf(regions, groups, { name }, onGpu ? 'cuda' : 'host')
  return parts.map((part, i) => {
    const { segments, rawReason } = codings[i] as (typeof codings)[number]
    const coding = itemCoding(segments[0] as ItemCoding, itemBytes)
    if (!isCoded(coding)) note(rawReasons, rawReason ?? 'small', pages)
    return { ...part, coding }
  })
}

function note(reasons: Map<string, number>, reason: RawReason, items: number): void {
  reasons.set(reason, (reasons.get(reason) ?? 0) + items)
}

function fileOf(folder: string, { layer, role }: Part): Buffer {
  return readFileSync(join(folder, `layer-${String(layer).padStart(2, '0')}-${role}.bf16`))
}

/** Every page of every granule, one room behind the other in the pool. */
function copiesOf(template: number, rooms: readonly number[], pages: number): ItemCopy[] {
  let poolOffsetBytes = 0
  return rooms.map((room, i) => {
    const copy = { template, granule: Math.floor(i / pages), page: i % pages, poolOffsetBytes, storedBytes: room }
    poolOffsetBytes += room
    return copy
  })
}

function count(sums: Sums, stored: number, itemBytes: number): void {
  const raw = stored === 0 || stored === itemBytes
  sums.storedBytes += alignUp(raw ? itemBytes : stored, SECTOR_BYTES)
  if (!raw) sums.codedItems += 1
  else {
    sums.rawItems += 1
    sums.rawReasons.set('refused', (sums.rawReasons.get('refused') ?? 0) + 1)
  }
}

interface Compared {
  readonly from: Buffer
  readonly to: Buffer
  readonly decodable: readonly ItemCopy[]
  readonly pages: number
  readonly itemBytes: number
}

function compareValues(sums: Sums, parts: readonly Part[], { from, to, decodable, pages, itemBytes }: Compared): void {
  for (const { granule, page } of decodable) {
    const at = (granule * pages + page) * itemBytes
    const errors = sums.errors[(parts[granule] as Part).role]
    const [had, has] = [valuesOf(from, at, itemBytes), valuesOf(to, at, itemBytes)]
    for (let i = 0; i < had.length; i++) {
      const value = had[i] as number
      const error = (has[i] as number) - value
      errors.squares += value * value
      errors.errorSquares += error * error
      errors.largest = Math.max(errors.largest, Math.abs(error))
    }
  }
}

/** bf16 widened: its bits are the upper half of a binary32. */
function valuesOf(memory: Buffer, at: number, bytes: number): Float32Array {
  const halves = new Uint16Array(memory.buffer, memory.byteOffset + at, bytes / VALUE_BYTES)
  return new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer)
}

function emptySums(): Sums {
  const errors = () => ({ squares: 0, errorSquares: 0, largest: 0 })
  return {
    ...{ logicalBytes: 0, storedBytes: 0, codedItems: 0, rawItems: 0, encodeUs: 0, decodeUs: 0 },
    rawReasons: new Map(),
    errors: { k: errors(), v: errors() },
  }
}

function rowOf(codec: CodecName, sums: Sums) {
  const { logicalBytes, storedBytes, codedItems, rawItems, encodeUs, decodeUs, rawReasons, errors } = sums
  const codedBytes = (logicalBytes * codedItems) / Math.max(1, codedItems + rawItems)
  const relative = ({ squares, errorSquares }: Errors) => (squares === 0 ? 0 : rounded(errorSquares / squares))
  return {
    codec,
    logicalBytes,
    storedBytes,
    ofLogicalBytes: rounded(storedBytes / logicalBytes),
    codedItems,
    rawItems,
    rawReasons: Object.fromEntries(rawReasons),
    encodeGbps: rounded(codedBytes / encodeUs / 1000),
    decodeGbps: rounded(codedBytes / decodeUs / 1000),
    relativeMseK: relative(errors.k),
    relativeMseV: relative(errors.v),
    largestErrorK: rounded(errors.k.largest),
    largestErrorV: rounded(errors.v.largest),
  }
}

function lineOf(row: ReturnType<typeof rowOf>): string {
  const raw = Object.entries(row.rawReasons).map(([reason, items]) => `${items} ${reason}`)
  return [
    `${row.codec.padEnd(12)} ${row.ofLogicalBytes} of the bytes, ${row.codedItems} items coded, ${row.rawItems} raw`,
    raw.length === 0 ? '' : ` (${raw.join(', ')})`,
    `; encode ${row.encodeGbps} GB/s, decode ${row.decodeGbps};`,
    ` relative MSE K ${row.relativeMseK}, V ${row.relativeMseV}; largest error K ${row.largestErrorK}, V ${row.largestErrorV}`,
  ].join('')
}
