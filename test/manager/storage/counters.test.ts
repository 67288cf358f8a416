import test from 'ava'
import {
  STORAGE_COUNT,
  STORAGE_HISTOGRAM,
  STORAGE_HISTOGRAMS,
  STORAGE_SERIES,
} from '../../../src/manager/storage/counters.js'

test('every position of a storage counter has its series, and no series appears twice', (t) => {
  t.deepEqual(Object.values(STORAGE_COUNT), [...STORAGE_SERIES.keys()])
  t.deepEqual(Object.values(STORAGE_HISTOGRAM), [...STORAGE_HISTOGRAMS.keys()])
  const names = [...STORAGE_SERIES, ...STORAGE_HISTOGRAMS].map(
    ({ name, labels }) => name + JSON.stringify(labels ?? {}),
  )
  t.is(new Set(names).size, names.length)
})
