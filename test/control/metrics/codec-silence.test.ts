import test from 'ava'
import {
  DRAM_WORKER_COUNT,
  DRAM_WORKER_HISTOGRAMS,
  DRAM_WORKER_SERIES,
} from '../../../src/actors/dram-worker/counters.js'
import { DRAM_WORKER_LAYOUT } from '../../../src/actors/dram-worker/params.js'
import { WRITEBACK_LAYOUT } from '../../../src/actors/writeback/params.js'
import { codecSilence } from '../../../src/control/metrics/codec-silence.js'
import { MANAGER_DEFAULTS } from '../../../src/manager/options.js'
import { managerLayout } from '../../../src/manager/series.js'
import { CodecTally } from '../../../src/shared/codec/lane-series.js'
import { CounterPage, createCounterPage } from '../../../src/shared/rings/counter-page.js'

const MANAGER = managerLayout(MANAGER_DEFAULTS.reuseWindows)
const SKIPS = MANAGER.series.findIndex(({ name }) => name === 'storage_codec_skips')

/** The pages of a Manager with two lanes that code. */
function pages() {
  const all = [MANAGER, DRAM_WORKER_LAYOUT, DRAM_WORKER_LAYOUT, WRITEBACK_LAYOUT].map((layout) => ({
    buffer: createCounterPage(layout),
    layout,
  }))
  const page = (place: number) => {
    const { buffer, layout } = all[place] as (typeof all)[number]
    return new CounterPage(buffer, layout)
  }
  const lane = (place: number) => new CodecTally(page(place), DRAM_WORKER_SERIES.length, DRAM_WORKER_HISTOGRAMS.length)
  const family = codecSilence(all)
  return { page, lane, silent: () => family.read()[0]?.value }
}

const BATCH = { op: 'encode', segments: 4, refused: 0, durationUs: 10 } as const

test('codecSilence: 0 at rest, and while every lane that codes counts its bytes', (t) => {
  const { lane, silent, page } = pages()
  t.is(silent(), 0)
  lane(1).batchEnded({ ...BATCH, storedBytes: 4096 })
  lane(2).batchEnded({ ...BATCH, op: 'decode', storedBytes: 1 })
  page(1).add(DRAM_WORKER_COUNT.savesDone, 7)
  t.is(silent(), 0)
})

test('codecSilence: 1 when one lane of several coded items and counted no bytes of them', (t) => {
  const { lane, silent } = pages()
  lane(1).batchEnded({ ...BATCH, storedBytes: 4096 })
  lane(2).batchEnded({ ...BATCH, op: 'decode', storedBytes: 0 })
  t.is(silent(), 1)
  lane(2).batchEnded({ ...BATCH, op: 'decode', storedBytes: 512 })
  t.is(silent(), 0)
})

test('codecSilence: items that were all refused have no bytes and raise no alarm', (t) => {
  const { lane, silent } = pages()
  lane(1).batchEnded({ ...BATCH, refused: 4, storedBytes: 0 })
  lane(1).batchEnded({ ...BATCH, op: 'decode', refused: 4, storedBytes: 9 })
  t.is(silent(), 0)
  lane(1).batchEnded({ ...BATCH, segments: 1, storedBytes: 0 })
  t.is(silent(), 1)
})

test('codecSilence: what others refuse, and what the other direction moves, hides no silent one', (t) => {
  const { lane, page, silent } = pages()
  t.true(SKIPS > 0)
  page(0).add(SKIPS, 1_000_000)
  lane(2).batchEnded({ ...BATCH, segments: 256, refused: 256, storedBytes: 0 })
  lane(1).batchEnded({ ...BATCH, op: 'decode', storedBytes: 4096 })
  t.is(silent(), 0)
  lane(1).batchEnded({ ...BATCH, segments: 256, refused: 255, storedBytes: 0 })
  t.is(silent(), 1)
})
