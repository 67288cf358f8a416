import type { ReadRoute } from '../../shared/routing/ssd-selection.js'
import type { Context } from '../context.js'
import type { Instance } from '../register/instances.js'

/**
 * Where an instance's demand reads of what is only on the SSD go now. Unless the operator named cuFile, it is the route
 * of instances whose every rank it reaches; the others read into DRAM, as with io_uring alone. `unavailable`: the named
 * route was stopped, and no other replaces it.
 */
export function demandRouteOf({ routes }: Context, { ranks }: Instance): ReadRoute | 'unavailable' {
  const { readRoute, readsPinned } = routes
  if (readRoute !== 'cufile' || readsPinned) return readRoute
  for (const { session } of ranks.values()) if (session.hold === null || session.hold.lanes.ssd === null) return 'dram'
  return 'cufile'
}
