import type { Feature, HistogramSpec, SeriesSpec } from '../../shared/base/tally.js'
import type { SsdRoutes } from '../../shared/routing/ssd-selection.js'
import type { ManagerConfig } from '../config.js'
import type { Shown } from './page-metrics.js'

/** The features that a configuration turns on. */
export function featuresOf(config: ManagerConfig, routes: SsdRoutes | null): ReadonlySet<Feature> {
  const on = new Set<Feature>()
  if (config.ssdPaths.length > 0) on.add('ssd')
  if (routes?.backend === 'cufile') on.add('cufile')
  if (config.cacheProtectedPercent > 0) on.add('protection')
  if (config.lfuAdmission) on.add('lfu')
  if (config.codec.name !== 'none') on.add('codec')
  return on
}

/** The feature without which a series is absent; null: it is always there. */
export function featureOf(spec: SeriesSpec | HistogramSpec): Feature | null {
  if ('feature' in spec && spec.feature !== undefined) return spec.feature
  return spec.name.startsWith('ssd_') ? 'ssd' : null
}

/** A feature that is off has no series rather than zeros. */
export function shownWith(features: ReadonlySet<Feature>): Shown {
  return (spec) => {
    const feature = featureOf(spec)
    return feature === null || features.has(feature)
  }
}
