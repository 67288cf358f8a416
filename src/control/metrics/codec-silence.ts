import type { SeriesSpec } from '../../shared/base/tally.js'
import { CODEC_COUNT, CODEC_SERIES } from '../../shared/codec/lane-series.js'
import { CounterReader } from '../../shared/rings/counter-page.js'
import type { Family, Page } from './page-metrics.js'

/**
 * The alarm of the codec's own numbers: a codec that works and counts no bytes saves nothing that anybody could see, and
 * every rate that is made of its bytes reads as zero, which looks like rest.
 */
export function codecSilence(pages: readonly Page[]): Family {
  return {
    name: 'orbitkv_storage_codec_silent_zero',
    help: 'Some lane encoded or decoded items and counted no bytes of them: 1, else 0',
    type: 'gauge',
    read: () => [{ labels: {}, value: silent(pages) ? 1 : 0 }],
  }
}

/** Of each direction: what its items are counted as, and their bytes. */
const DIRECTIONS = [
  [CODEC_COUNT.encodedItems, CODEC_COUNT.encodedBytes],
  [CODEC_COUNT.decodedItems, CODEC_COUNT.decodedBytes],
] as const

/** Each lane by itself, each direction by itself: no other's refusals or bytes can hide one. */
function silent(pages: readonly Page[]): boolean {
  return pages.some(({ buffer, layout }) => {
    const first = layout.series.indexOf(CODEC_SERIES[0] as SeriesSpec)
    if (first < 0) return false
    const reader = new CounterReader(buffer, layout)
    return DIRECTIONS.some(([items, bytes]) => reader.series(first + items) > 0 && reader.series(first + bytes) === 0)
  })
}
