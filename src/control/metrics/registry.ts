import { Registry } from 'prom-client'
import type { RoutesNow } from '../ssd-status.js'
import { codecSilence } from './codec-silence.js'
import { type Family, familiesOf, type Page, type Shown } from './page-metrics.js'

/** A registry whose metrics are read from the counter pages when they are scraped. */
export function metricsOf(
  pages: readonly Page[],
  shown: Shown,
  info: Readonly<Record<string, string>>,
  routes: (() => RoutesNow) | null,
  codec: boolean,
): Registry {
  const registry = new Registry()
  const families: Family[] = [
    ...familiesOf(pages, shown),
    {
      name: 'orbitkv_build_info',
      help: 'Version and the I/O that was selected; always 1',
      type: 'gauge',
      read: () => [{ labels: info, value: 1 }],
    },
  ]
  if (routes !== null) families.push(backendInfo(routes))
  if (codec) families.push(codecSilence(pages))
  for (const family of families) {
    const metric = {
      name: family.name,
      help: family.help,
      type: family.type,
      aggregator: 'sum',
      get: async () => ({
        name: family.name,
        help: family.help,
        type: family.type,
        aggregator: 'sum',
        values: family.read(),
      }),
      getPureValues: () => family.read(),
      reset: () => {},
    }
    registry.registerMetric(metric as never)
  }
  return registry
}

/** How the SSD tier is used, in labels: what a fallback looks like on a dashboard. */
function backendInfo(routes: () => RoutesNow): Family {
  return {
    name: 'orbitkv_ssd_backend_info',
    help: 'The SSD backend and routes of new work, and why; always 1',
    type: 'gauge',
    read: () => {
      const { backend, readRoute, writeRoute, cause } = routes()
      return [{ labels: { backend, read_route: readRoute, write_route: writeRoute, cause }, value: 1 }]
    },
  }
}

/** All current gauge values by exported name and labels: for the closing report. */
export function gaugesOf(pages: readonly Page[], shown: Shown): Map<string, number> {
  const gauges = new Map<string, number>()
  for (const family of familiesOf(pages, shown)) {
    if (family.type !== 'gauge') continue
    for (const { labels, value } of family.read()) {
      const text = Object.entries(labels).map(([name, label]) => `${name}="${label}"`)
      gauges.set(text.length === 0 ? family.name : `${family.name}{${text.join(',')}}`, value)
    }
  }
  return gauges
}
