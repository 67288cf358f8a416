import type { ReuseWindows } from '../shared/cache/reuse-windows.js'
import type { LeaseTable } from '../shared/leases/lease-table.js'
import type { SsdRouteSwitch } from '../shared/routing/ssd-route-switch.js'
import type { QueryBudget } from '../shared/scheduling/query-budget.js'
import type { DeviceLanes } from './lanes/device-lanes.js'
import type { ManagerEffect } from './messages.js'
import type { ManagerOptions } from './options.js'
import type { ManagerPorts } from './ports.js'
import type { Publications } from './publish/publications.js'
import type { FillWaiters } from './query/fill-waiters.js'
import type { LeaseRecords } from './query/lease-records.js'
import type { Preparations } from './query/preparations.js'
import type { Queries } from './query/queries.js'
import type { Warmings } from './query/warmings.js'
import type { Instances } from './register/instances.js'
import type { Sessions } from './sessions/sessions.js'
import type { Syncs } from './sessions/syncs.js'
import type { PageStorage } from './storage/page-storage.js'
import type { ManagerTally } from './tally.js'

/**
 * What every verb works on: the Manager's whole state, owned by its machine. Verbs are functions of the context and a
 * request; they change it, and append what the loop must do to `out`.
 */
export interface Context {
  readonly options: ManagerOptions
  readonly ports: ManagerPorts
  readonly tally: ManagerTally
  readonly storage: PageStorage
  /** Where new demand reads and new writes of the SSD tier go. */
  readonly routes: SsdRouteSwitch
  readonly leases: LeaseTable
  /** What all instances together may reserve; parent of each instance's budget. */
  readonly queryBudget: QueryBudget
  /** How often what requests ask for was asked for before; null: not measured. */
  readonly reuse: ReuseWindows | null
  readonly leaseRecords: LeaseRecords
  readonly sessions: Sessions
  readonly instances: Instances
  readonly queries: Queries
  readonly preparations: Preparations
  readonly warmings: Warmings
  readonly fillWaiters: FillWaiters
  readonly publications: Publications
  readonly syncs: Syncs
  /** The copying lanes of each device that is served; the host's come first. */
  readonly devices: readonly DeviceLanes[]
  /** Monotonic time of the current step. */
  nowUs: number
  /** Set once, by a drain: nothing new is admitted. */
  draining: boolean
  /** Effects of the current step. */
  out: ManagerEffect[]
}
