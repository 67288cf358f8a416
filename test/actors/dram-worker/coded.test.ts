import test from 'ava'
import { DRAM_WORKER_HISTOGRAMS, DRAM_WORKER_SERIES } from '../../../src/actors/dram-worker/counters.js'
import {
  type DramWorkerEffect,
  type DramWorkerInput,
  DramWorkerMachine,
} from '../../../src/actors/dram-worker/machine.js'
import { resultsOf } from '../../../src/actors/dram-worker/parts.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { CODEC_COUNT, CODEC_HISTOGRAM, CODEC_PART_BYTES } from '../../../src/shared/codec/lane-series.js'
import { COPY } from '../../../src/shared/layout/descriptors.js'
import { listOf } from '../../../src/shared/layout/records.js'
import { SLOT_STATE } from '../../../src/shared/layout/slot-states.js'
import { PlainTally } from '../../support/plain-tally.js'

const OPTIONS = { parts: 4, partDescriptors: 3, codedDescriptors: 5 }
const RESULTS = resultsOf(OPTIONS)
const BYTES = 4096

/** A job of descriptors with these stored bytes; 0: copied. */
function coded(kind: 'save' | 'restore', job: number, stored: readonly number[]): DramWorkerInput {
  const list = listOf(stored.flatMap((bytes, at) => [job, at, 0, 0, 0, 1, bytes]))
  const common = { job, more: 0, list, slots: 9, slot: job, slotGeneration: 1, fence: 0 } as const
  const request = kind === 'save' ? { kind, ...common } : { kind, bytes: BYTES, admitUs: 0, ...common }
  return { kind: 'request', request }
}

test('dram-worker: a part ends where the kind changes, and where its stored bytes are a part full', (t) => {
  const machine = new DramWorkerMachine(OPTIONS, new Uint32Array(RESULTS), new PlainTally())
  const out: DramWorkerEffect[] = []
  machine.step(coded('restore', 1, [0, 0, 512, 512, 512, 0]), out)
  t.like(out.splice(0), [
    { kind: 'copy', direction: 0, offset: 0, count: 2 },
    { kind: 'decode', offset: 2 * COPY.doubles, count: 3, resultBase: 10 },
    { kind: 'copy', direction: 0, offset: 5 * COPY.doubles, count: 1 },
  ])
  const half = CODEC_PART_BYTES / 2
  const other = new DramWorkerMachine(OPTIONS, new Uint32Array(RESULTS), new PlainTally())
  other.step(coded('save', 2, [half, half, 512, 512]), out)
  t.like(out, [
    { kind: 'encode', count: 2 },
    { kind: 'encode', count: 2 },
  ])
})

test('dram-worker: an item that does not fit the workspace fails its restore and damages nothing', (t) => {
  const tally = new PlainTally()
  const machine = new DramWorkerMachine(OPTIONS, new Uint32Array(RESULTS), tally)
  const out: DramWorkerEffect[] = []
  machine.step(coded('restore', 1, [512]), out)
  const [part] = out.splice(0)
  machine.step({ kind: 'stream-completed', tag: part?.kind === 'decode' ? part.tag : -1, result: -12 }, out)
  t.like(out, [
    { kind: 'finish-slot', slot: 1, state: SLOT_STATE.failed, errorCode: ERROR_CODES.capacity_codec },
    { kind: 'reply', reply: { kind: 'restore-done', status: ERROR_CODES.capacity_codec, list: { length: 0 } } },
  ])
  t.is(tally.at(DRAM_WORKER_SERIES.length + CODEC_COUNT.decodeFailures), 1)
})

test('dram-worker: what codecs did is counted: batches, items, stored bytes, refusals and durations', (t) => {
  const tally = new PlainTally()
  const results = new Uint32Array(RESULTS)
  const machine = new DramWorkerMachine(OPTIONS, results, tally)
  const out: DramWorkerEffect[] = []
  const complete = (said: readonly number[]) => {
    const part = out.find((effect) => effect.kind === 'encode' || effect.kind === 'decode')
    if (part === undefined || !('resultBase' in part)) return t.fail('a part was queued')
    out.length = 0
    results.set(said, part.resultBase)
    machine.step({ kind: 'tick', nowUs: 90 }, out)
    machine.step({ kind: 'stream-completed', tag: part.tag, result: 0 }, out)
  }
  machine.step({ kind: 'tick', nowUs: 50 }, out)
  machine.step(coded('save', 1, [512, 1024]), out)
  complete([500, 77, 0, 0])
  t.like(out, [{ kind: 'reply', reply: { kind: 'save-done', status: 0 } }])
  machine.step(coded('restore', 2, [512, 1024, 512]), out)
  complete([0, 1, 0])
  t.like(out.at(-1), { kind: 'reply', reply: { kind: 'restore-done', status: ERROR_CODES.codec_damaged } })
  const count = (position: number) => tally.at(DRAM_WORKER_SERIES.length + position)
  t.is(count(CODEC_COUNT.encodeBatches), 1)
  t.is(count(CODEC_COUNT.decodeBatches), 1)
  t.is(count(CODEC_COUNT.encodedBytes), 500)
  t.is(count(CODEC_COUNT.decodedBytes), 2048)
  t.is(count(CODEC_COUNT.decodeFailures), 1)
  const observed = (position: number) => tally.observed[DRAM_WORKER_HISTOGRAMS.length + position]
  t.deepEqual(observed(CODEC_HISTOGRAM.batchSegments), [2, 3])
  t.deepEqual(observed(CODEC_HISTOGRAM.encodeDuration), [40])
  t.deepEqual(observed(CODEC_HISTOGRAM.decodeDuration), [0])
})

test('dram-worker: a lane that was told of no codec refuses coded descriptors', (t) => {
  const options = { parts: 4, partDescriptors: 3 }
  const machine = new DramWorkerMachine(options, new Uint32Array(resultsOf(options)), new PlainTally())
  t.throws(() => machine.step(coded('save', 1, [512]), []), { message: /told of no codec/ })
})
