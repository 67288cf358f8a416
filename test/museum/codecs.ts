import { DRAM_WORKER_COUNT, DRAM_WORKER_HISTOGRAMS, DRAM_WORKER_SERIES } from '../../src/actors/dram-worker/counters.js'
import { DRAM_WORKER_LAYOUT } from '../../src/actors/dram-worker/params.js'
import { codecSilence } from '../../src/control/metrics/codec-silence.js'
import { CodecTally, type CodedBatch } from '../../src/shared/codec/lane-series.js'
import { CounterPage, createCounterPage } from '../../src/shared/rings/counter-page.js'
import type { Exhibit } from './exhibit.js'
import { demand, named } from './named.js'

const BATCHES = 100

/** Saves whose items a codec takes, one batch after the other; the alarm is looked at after each. */
function save(Tally: typeof CodecTally, count: () => void): void {
  const layout = DRAM_WORKER_LAYOUT
  const page = { buffer: createCounterPage(layout), layout }
  const counters = new CounterPage(page.buffer, layout)
  const codec = new Tally(counters, DRAM_WORKER_SERIES.length, DRAM_WORKER_HISTOGRAMS.length)
  const alarm = codecSilence([page])
  for (let batch = 0; batch < BATCHES; batch++) {
    count()
    counters.add(DRAM_WORKER_COUNT.savesDone, 1)
    codec.batchEnded({ op: 'encode', segments: 1 + batch, storedBytes: 66 * (1 + batch), refused: 0, durationUs: 1 })
    demand(alarm.read()[0]?.value === 0, 'a codec that completes items counts their bytes')
  }
}

/** Completes batches whose bytes went nowhere. */
class CountsNoBytes extends CodecTally {
  override batchEnded(batch: CodedBatch): void {
    super.batchEnded({ ...batch, storedBytes: 0 })
  }
}

/** Bugs of storage codecs. */
export const CODECS: readonly Exhibit[] = [
  named({
    id: 'LMCache#4064',
    what: 'a codec completes its items and stores nothing, while every counter of success rises',
    where: 'CodecTally.batchEnded',
    foundBy: 'check: orbitkv_storage_codec_silent_zero',
    shows: /counts their bytes/,
    bound: 1,
    shipped: CodecTally,
    twin: CountsNoBytes,
    check: save,
  }),
]
