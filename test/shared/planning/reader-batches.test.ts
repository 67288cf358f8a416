import test from 'ava'
import fc from 'fast-check'
import { NO_OFFSET, SOURCE } from '../../../src/shared/layout/descriptors.js'
import { type List, listOf } from '../../../src/shared/layout/records.js'
import { type BatchLimits, planReaderBatches, type ReaderPlan } from '../../../src/shared/planning/reader-batches.js'
import { catches, holds } from '../../support/model-commands.js'

/** A source as the test thinks of it. */
interface Source {
  readonly generation: number
  readonly granule: number
  readonly resident: boolean
}

/** Generations g and g + 60 are of one key and, so that they could share a batch, in one store. */
const keyOf = (generation: number) => generation % 60
const storeOf = (generation: number) => generation % 3

function encode(sources: readonly Source[]): List {
  return listOf(
    sources.flatMap(({ generation, granule, resident }, page) => {
      const fields = new Array<number>(SOURCE.doubles).fill(0)
      fields[SOURCE.page] = page
      fields[SOURCE.poolOffsetBytes] = resident ? 4096 : NO_OFFSET
      fields[SOURCE.store] = storeOf(generation)
      fields[SOURCE.file] = 10 + storeOf(generation)
      fields[SOURCE.fileOffsetBytes] = 2 ** 33 + generation * 2 ** 24 + granule * 2 ** 20
      fields[SOURCE.bytes] = 512 * (1 + granule)
      fields[SOURCE.crc32] = generation * 100 + granule
      fields[SOURCE.generation] = generation
      fields[SOURCE.key] = keyOf(generation)
      return fields
    }),
  )
}

/** Every rule of a plan, each checked by looking at all of it. */
function breach(sources: readonly Source[], limits: BatchLimits, plan: ReaderPlan): string | null {
  const name = (source: number) => `${sources[source]?.generation}/${sources[source]?.granule}`
  const scattered = [...plan.resident, ...plan.scatter].sort((a, b) => a - b)
  if (scattered.join() !== sources.map((_, index) => index).join()) return 'a source is not served exactly once'
  if ([...plan.resident].some((source) => !sources[source]?.resident)) return 'a source on SSD counts as resident'
  if ([...plan.scatter].some((source) => sources[source]?.resident)) return 'a resident source is read'
  if (new Set([...plan.reads].map(name)).size !== plan.reads.length) return 'a granule is read twice'
  for (const [read, source] of plan.reads.entries()) {
    const served = [...plan.scatter.slice(plan.scatterFirst[read], plan.scatterFirst[read + 1])]
    if (served[0] !== source || served[0] !== Math.min(...served)) return 'a read is not described by its first source'
    if (served.some((each) => name(each) !== name(source))) return 'a source gets bytes of another granule'
    if (served.some((each, index) => index > 0 && each <= (served[index - 1] as number))) return 'served out of order'
  }
  let nextRead = 0
  let lastFirst = -1
  for (const batch of plan.batches) {
    if (batch.firstRead !== nextRead || batch.readCount < 1) return 'batches do not tile the reads'
    nextRead += batch.readCount
    if (batch.readCount > limits.granulesMax) return 'a batch has too many granules'
    const reads = [...plan.reads.slice(batch.firstRead, nextRead)]
    if (reads.some((each, index) => index > 0 && each <= (reads[index - 1] as number))) return 'reads out of first need'
    if ((reads[0] as number) <= lastFirst) return 'batches out of first need'
    lastFirst = reads[0] as number
    const generations = new Set(reads.map((source) => sources[source]?.generation as number))
    if (generations.size > limits.generationsMax) return 'a batch has too many generations'
    if (generations.size !== batch.generations) return 'a batch miscounts its generations'
    if ([...generations].some((each) => storeOf(each) !== batch.store)) return 'a batch mixes stores'
    if (new Set([...generations].map(keyOf)).size !== generations.size)
      return 'two generations of one key share a batch'
  }
  return nextRead === plan.reads.length ? null : 'a read is in no batch'
}

const anySource = fc.record({
  generation: fc.oneof(fc.nat(30), fc.integer({ min: 60, max: 90 })),
  granule: fc.nat(3),
  resident: fc.nat(4).map((draw) => draw === 0),
})
const anyLimits = fc.record({
  generationsMax: fc.integer({ min: 1, max: 16 }),
  granulesMax: fc.integer({ min: 1, max: 40 }),
})

type Plan = (sources: List, limits: BatchLimits) => ReaderPlan

function keepsTheRules(plan: Plan) {
  return fc.property(fc.array(anySource, { maxLength: 150, size: 'max' }), anyLimits, (sources, limits) => {
    const found = breach(sources, limits, plan(encode(sources), limits))
    if (found !== null) throw new Error(found)
  })
}

/** The planner that takes field `at` for what `read` says, generation by generation: it does not look where it should. */
function blindTo(at: number, read: (generation: number) => number): Plan {
  return (sources, limits) => {
    const doubles = Float64Array.from(sources.doubles)
    for (let from = 0; from < doubles.length; from += SOURCE.doubles) {
      doubles[from + at] = read(doubles[from + SOURCE.generation] as number)
    }
    return planReaderBatches({ ...sources, doubles }, limits)
  }
}

test('planReaderBatches: every source is served once, by batches that keep every rule', (t) => {
  t.true(holds(keepsTheRules(planReaderBatches), 500))
})

test('broken twin: a planner that lets generations of one key share a batch is caught', (t) => {
  t.true(catches(keepsTheRules(blindTo(SOURCE.key, (generation) => generation))))
})

test('broken twin: a planner that counts one generation too many is caught', (t) => {
  const offByOne: Plan = (sources, limits) =>
    planReaderBatches(sources, { ...limits, generationsMax: limits.generationsMax + 1 })
  t.true(catches(keepsTheRules(offByOne)))
})

test('broken twin: a planner that counts one granule too many is caught', (t) => {
  const offByOne: Plan = (sources, limits) =>
    planReaderBatches(sources, { ...limits, granulesMax: limits.granulesMax + 1 })
  t.true(catches(keepsTheRules(offByOne)))
})

test('broken twin: a planner that does not see what is in DRAM is caught', (t) => {
  t.true(catches(keepsTheRules(blindTo(SOURCE.poolOffsetBytes, () => NO_OFFSET))))
})

test('planReaderBatches: layers that name one granule share one read', (t) => {
  const sources = Array.from({ length: 36 }, () => ({ generation: 4, granule: 0, resident: false }))
  const plan = planReaderBatches(encode(sources))
  t.deepEqual([...plan.reads], [0])
  t.is(plan.scatter.length, 36)
  t.deepEqual(plan.batches, [{ store: 1, firstRead: 0, readCount: 1, generations: 1 }])
})

test('planReaderBatches: the seventeenth generation opens a batch', (t) => {
  const sources = Array.from({ length: 17 }, (_, index) => ({ generation: index * 3, granule: 0, resident: false }))
  const plan = planReaderBatches(encode(sources))
  t.deepEqual(
    plan.batches.map((batch) => batch.readCount),
    [16, 1],
  )
})

test('planReaderBatches: a job of nothing, and a job that is all in DRAM, read nothing', (t) => {
  t.deepEqual(planReaderBatches(encode([])).batches, [])
  const plan = planReaderBatches(encode([{ generation: 1, granule: 1, resident: true }]))
  t.deepEqual([[...plan.resident], plan.batches, plan.reads.length], [[0], [], 0])
})

test('planReaderBatches: a generation in two files, or a granule described two ways, is an invariant', (t) => {
  const twice = encode([
    { generation: 1, granule: 1, resident: false },
    { generation: 1, granule: 1, resident: false },
  ])
  for (const at of [SOURCE.file, SOURCE.store, SOURCE.key, SOURCE.bytes, SOURCE.crc32]) {
    const doubles = Float64Array.from(twice.doubles)
    doubles[at] = 77
    t.throws(() => planReaderBatches({ ...twice, doubles }), { code: 'invariant' })
  }
  t.throws(() => planReaderBatches({ ...twice, length: 5 }), { code: 'invariant' })
})
