import type { CounterLayout } from '../shared/rings/counter-page.js'
import { reuseSeries, VERB_HISTOGRAMS, VERB_SERIES } from './counters.js'
import { STORAGE_HISTOGRAMS, STORAGE_SERIES } from './storage/counters.js'

/** Where the gauges of reuse begin on the manager's counter page. */
export const REUSE_SERIES_FIRST = VERB_SERIES.length + STORAGE_SERIES.length

/** The manager's counter page: the verbs' series first, then storage's, then three a window of reuse. */
export function managerLayout(windows: readonly { readonly name: string }[]): CounterLayout {
  return {
    series: [...VERB_SERIES, ...STORAGE_SERIES, ...reuseSeries(windows)],
    histograms: [...VERB_HISTOGRAMS, ...STORAGE_HISTOGRAMS],
  }
}
