import { CounterReader } from '../../shared/rings/counter-page.js'
import type { Family, Page } from './page-metrics.js'

/**
 * The alarm of the codec's own numbers: a codec that works and counts no bytes saves nothing that anybody could see, and
 * every rate that is made of its bytes reads as zero, which looks like rest.
 */
export function codecSilence(pages: readonly Page[]): Family {
  return {
    name: 'orbitkv_storage_codec_silent_zero',
    help: 'Some lane carried out batches of items and counted no bytes of them: 1, else 0',
    type: 'gauge',
    read: () => [{ labels: {}, value: silent(pages) ? 1 : 0 }],
  }
}

/** Items that were refused have no bytes; the manager counts those of all lanes. */
function silent(pages: readonly Page[]): boolean {
  const refused = pages.reduce((sum, page) => sum + counted(page, 'storage_codec_skips'), 0)
  return pages.some((page) => {
    const position = page.layout.histograms.findIndex(({ name }) => name === 'storage_codec_batch_segments')
    if (position < 0) return false
    const items = new CounterReader(page.buffer, page.layout).histogram(position).sum
    return items > refused && counted(page, 'storage_codec_transfer_bytes') === 0
  })
}

/** The sum of a name over its labels. */
function counted({ buffer, layout }: Page, name: string): number {
  const reader = new CounterReader(buffer, layout)
  return layout.series.reduce((sum, spec, index) => (spec.name === name ? sum + reader.series(index) : sum), 0)
}
