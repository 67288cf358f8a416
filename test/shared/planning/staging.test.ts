import test from 'ava'
import fc from 'fast-check'
import { KIB, PAGE_BYTES } from '../../../src/shared/base/units.js'
import { NO_OFFSET, SOURCE, TARGET } from '../../../src/shared/layout/descriptors.js'
import { listOf } from '../../../src/shared/layout/records.js'
import { planStagingReads, type StagingReadPlan } from '../../../src/shared/planning/staging-reads.js'
import { planStagingWrites, type StagingChunk } from '../../../src/shared/planning/staging-writes.js'

const SLOT = 32 * KIB

interface Stored {
  file: number
  /** 512-byte sectors. */
  first: number
  sectors: number
  resident: boolean
}

/** Granules that do not overlap in a file: sizes and gaps, in sectors. */
const granules = fc
  .array(
    fc.record({
      file: fc.nat({ max: 2 }),
      gap: fc.constantFrom(0, 0, 0, 1, 7, 8, 16, 40),
      sectors: fc.constantFrom(1, 2, 8, 9, 16, 48),
      resident: fc.constantFrom(false, false, false, true),
    }),
    { maxLength: 40, size: 'max' },
  )
  .map((each) => {
    const next = [0, 0, 0]
    return each.map(({ file, gap, sectors, resident }): Stored => {
      const first = (next[file] as number) + gap
      next[file] = first + sectors
      return { file, first, sectors, resident }
    })
  })

function sourcesOf(stored: readonly Stored[], order: readonly number[]): number[] {
  return order.flatMap((at) => {
    const { file, first, sectors, resident } = stored[at] as Stored
    const source = new Array<number>(SOURCE.doubles).fill(0)
    source[SOURCE.poolOffsetBytes] = resident ? 4096 : NO_OFFSET
    source[SOURCE.file] = file
    source[SOURCE.fileOffsetBytes] = first * 512
    source[SOURCE.bytes] = sectors * 512
    source[SOURCE.generation] = at
    return source
  })
}

/** What every plan must be, said of sectors and pages one by one. */
function checkReads(stored: readonly Stored[], order: readonly number[], plan: StagingReadPlan): void {
  const wanted = new Set<string>()
  for (const at of order) {
    const { file, first, sectors, resident } = stored[at] as Stored
    if (resident) continue
    for (let sector = first; sector < first + sectors; sector++) wanted.add(`${file}/${Math.floor(sector / 8)}`)
  }
  const served = new Set<number>(plan.resident)
  for (const { file, fileOffsetBytes, bytes, firstRead, readCount } of plan.batches) {
    if (fileOffsetBytes % PAGE_BYTES !== 0 || bytes % PAGE_BYTES !== 0 || bytes > SLOT)
      throw new Error('not whole pages')
    for (let page = fileOffsetBytes / PAGE_BYTES; page < (fileOffsetBytes + bytes) / PAGE_BYTES; page++) {
      if (!wanted.has(`${file}/${page}`)) throw new Error('a page is read that nobody asked for')
    }
    for (let read = firstRead; read < firstRead + readCount; read++) {
      const end = plan.scatterFirst[read + 1] as number
      for (let at = plan.scatterFirst[read] as number; at < end; at++) {
        const source = plan.scatter[at] as number
        const granule = stored[order[source] as number] as Stored
        const inside =
          granule.file === file &&
          granule.first * 512 >= fileOffsetBytes &&
          (granule.first + granule.sectors) * 512 <= fileOffsetBytes + bytes
        if (!inside || granule.resident || served.has(source)) throw new Error('a source is not served by one read')
        served.add(source)
      }
    }
  }
  if (served.size !== order.length) throw new Error('a source is not served')
  // Merged as far as allowed: of two neighbours in one file one more page would not have joined.
  for (const [at, batch] of plan.batches.entries()) {
    const next = plan.batches[at + 1]
    if (next === undefined || next.file !== batch.file) continue
    const end = batch.fileOffsetBytes + batch.bytes
    const first = stored[order[plan.reads[next.firstRead] as number] as number] as Stored
    const joined = Math.max(end, Math.ceil(((first.first + first.sectors) * 512) / PAGE_BYTES) * PAGE_BYTES)
    if (next.fileOffsetBytes <= end && joined - batch.fileOffsetBytes <= SLOT) throw new Error('two reads could be one')
  }
}

const reads = granules.chain((stored) =>
  fc.record({
    stored: fc.constant(stored),
    order: fc.array(fc.nat({ max: Math.max(0, stored.length - 1) }), {
      maxLength: stored.length === 0 ? 0 : 60,
      size: 'max',
    }),
  }),
)

test('reads: whole pages of one file within a slot, every source once, no page that nobody asked for, as few as allowed', (t) => {
  fc.assert(
    fc.property(reads, ({ stored, order }) =>
      checkReads(stored, order, planStagingReads(listOf(sourcesOf(stored, order)), SLOT)),
    ),
  )
  t.pass()
})

test('twin: a plan that reads across small gaps is caught', (t) => {
  t.throws(() =>
    fc.assert(
      fc.property(reads, ({ stored, order }) => {
        const plan = planStagingReads(listOf(sourcesOf(stored, order)), SLOT)
        const [a, b] = plan.batches
        if (a === undefined || b === undefined || a.file !== b.file) return
        const bytes = b.fileOffsetBytes + b.bytes - a.fileOffsetBytes
        if (bytes > SLOT) return
        const merged = { ...a, bytes, readCount: a.readCount + b.readCount }
        checkReads(stored, order, { ...plan, batches: [merged, ...plan.batches.slice(2)] })
      }),
    ),
  )
})

const objects = fc.array(
  fc.record({
    file: fc.nat({ max: 1 }),
    sectors: fc.array(fc.constantFrom(1, 3, 8, 16, 24), { minLength: 1, maxLength: 30, size: 'max' }),
  }),
  { maxLength: 5 },
)

interface Laid {
  readonly targets: number[]
  readonly ends: { object: number; startBytes: number; endBytes: number }[]
}

function lay(specs: readonly { file: number; sectors: readonly number[] }[]): Laid {
  const targets: number[] = []
  const ends: Laid['ends'] = []
  let offset = 0
  for (const [object, { file, sectors }] of specs.entries()) {
    const startBytes = offset
    for (const each of sectors) {
      const target = new Array<number>(TARGET.doubles).fill(0)
      target[TARGET.file] = file
      target[TARGET.fileOffsetBytes] = offset
      target[TARGET.bytes] = each * 512
      target[TARGET.object] = object
      targets.push(...target)
      offset += each * 512
    }
    ends.push({ object, startBytes, endBytes: offset })
    offset = Math.ceil(offset / PAGE_BYTES) * PAGE_BYTES
  }
  return { targets, ends }
}

/** Every byte of every extent is written once, with what was gathered for it or with zero. */
function checkChunks({ targets, ends }: Laid, chunks: readonly StagingChunk[]): void {
  const covered = ends.map(({ startBytes }) => startBytes)
  for (const chunk of chunks) {
    const { object, baseOffsetBytes, fileOffsetBytes, bytes, zeroFromBytes, first, count } = chunk
    const whole = [baseOffsetBytes, fileOffsetBytes, bytes].every((each) => each % PAGE_BYTES === 0)
    const end = fileOffsetBytes + bytes
    if (!whole || bytes <= 0 || end - baseOffsetBytes > SLOT) throw new Error('a chunk is not whole pages of a slot')
    if (covered[object] !== fileOffsetBytes) throw new Error('a byte is written twice or never')
    covered[object] = end
    let gathered = 0
    for (let at = first; at < first + count; at++) {
      const start = targets[at * TARGET.doubles + TARGET.fileOffsetBytes] as number
      const stop = start + (targets[at * TARGET.doubles + TARGET.bytes] as number)
      if (targets[at * TARGET.doubles + TARGET.object] !== object) throw new Error('another object is gathered')
      if (start < baseOffsetBytes || stop - baseOffsetBytes > SLOT) throw new Error('a granule leaves the slot')
      if (at === first && start > fileOffsetBytes) throw new Error('the first bytes are not gathered')
      gathered = stop
    }
    const payload = Math.min(end, ends[object]?.endBytes as number)
    if (gathered < payload) throw new Error('the last bytes are not gathered')
    if (zeroFromBytes !== Math.min(gathered, end) - baseOffsetBytes) throw new Error('padding is not zeroed')
  }
  for (const { object, endBytes } of ends) {
    if (covered[object] !== Math.ceil(endBytes / PAGE_BYTES) * PAGE_BYTES) throw new Error('an extent is not whole')
  }
}

test('writes: whole pages within a slot, every byte of every extent once, padding zeroed', (t) => {
  fc.assert(
    fc.property(objects, (specs) => {
      const laid = lay(specs)
      checkChunks(laid, planStagingWrites(listOf(laid.targets), SLOT))
    }),
  )
  t.pass()
})

test('twin: chunks that end with a granule instead of a page are caught', (t) => {
  t.throws(() =>
    fc.assert(
      fc.property(objects, (specs) => {
        const laid = lay(specs)
        const chunks = planStagingWrites(listOf(laid.targets), SLOT).map((chunk) => ({
          ...chunk,
          bytes: chunk.baseOffsetBytes + chunk.zeroFromBytes - chunk.fileOffsetBytes,
        }))
        checkChunks(laid, chunks)
      }),
    ),
  )
})
