import type { HistogramSpec, SeriesSpec } from '../../shared/base/tally.js'
import { bucketLimit, type CounterLayout, CounterReader, HISTOGRAM_BUCKETS } from '../../shared/rings/counter-page.js'

/** The counter page of one actor, as main reads it. */
export interface Page {
  readonly buffer: SharedArrayBuffer
  readonly layout: CounterLayout
}

/** One sample line: a value under labels, possibly of a suffixed name (`_sum`, `_bucket`). */
export interface Sample {
  readonly metricName?: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** One metric family as it is scraped. Everything of one name is summed over the actors that count it. */
export interface Family {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  read(): Sample[]
}

const PREFIX = 'orbitkv_'

/** Exported name of a series: base units, `_total` once and only on counters. */
export function exportedName(spec: SeriesSpec): string {
  return `${PREFIX}${spec.name}${spec.kind === 'counter' ? '_total' : ''}`
}

/** Exported name of a histogram: microseconds become seconds. */
export function exportedHistogramName(name: string, unit: HistogramSpec['unit']): string {
  const suffix = unit === 'us' ? '_seconds' : `_${unit}`
  return `${PREFIX}${name}${name.endsWith(suffix) ? '' : suffix}`
}

/** Series of a feature that is off are absent, not zero. */
export type Shown = (spec: SeriesSpec | HistogramSpec) => boolean

/** Joins the pages of all actors into families, in order of name. */
export function familiesOf(pages: readonly Page[], shown: Shown): Family[] {
  const families = new Map<string, Family & { readonly parts: (() => Sample[])[] }>()
  const join = (name: string, help: string, type: Family['type'], part: () => Sample[]) => {
    let family = families.get(name)
    if (family === undefined) {
      const parts: (() => Sample[])[] = []
      family = { name, help, type, parts, read: () => summed(parts.flatMap((read) => read())) }
      families.set(name, family)
    }
    family.parts.push(part)
  }
  for (const { buffer, layout } of pages) {
    const reader = new CounterReader(buffer, layout)
    for (const [index, spec] of layout.series.entries()) {
      if (!shown(spec)) continue
      const labels = spec.labels ?? {}
      join(exportedName(spec), spec.text, spec.kind, () => [{ labels, value: reader.series(index) }])
    }
    for (const [index, spec] of layout.histograms.entries()) {
      if (!shown(spec)) continue
      const name = exportedHistogramName(spec.name, spec.unit)
      join(name, spec.text, 'histogram', () => histogramSamples(reader, index, name, spec.unit, spec.labels ?? {}))
    }
  }
  return [...families.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

function histogramSamples(
  reader: CounterReader,
  index: number,
  name: string,
  unit: HistogramSpec['unit'],
  labels: Readonly<Record<string, string>>,
): Sample[] {
  const scale = unit === 'us' ? 1e-6 : 1
  const { sum, buckets } = reader.histogram(index)
  const samples: Sample[] = []
  let below = 0
  for (let bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
    below += buckets[bucket] as number
    const limit = bucketLimit(bucket)
    const le = Number.isFinite(limit) ? String(Number((limit * scale).toPrecision(12))) : '+Inf'
    samples.push({ metricName: `${name}_bucket`, labels: { ...labels, le }, value: below })
  }
  samples.push({ metricName: `${name}_sum`, labels, value: sum * scale })
  samples.push({ metricName: `${name}_count`, labels, value: below })
  return samples
}

/** Adds up what several actors count under one name and the same labels. */
function summed(samples: readonly Sample[]): Sample[] {
  const sums = new Map<string, { metricName?: string; labels: Readonly<Record<string, string>>; value: number }>()
  for (const sample of samples) {
    const key = `${sample.metricName ?? ''}${JSON.stringify(sample.labels)}`
    const known = sums.get(key)
    if (known === undefined) sums.set(key, { ...sample })
    else known.value += sample.value
  }
  return [...sums.values()]
}
