import { SsdRouteSwitch } from '../shared/routing/ssd-route-switch.js'
import type { ReadRoute, SsdCause, SsdRoutes, WriteRoute } from '../shared/routing/ssd-selection.js'

/** Why new cuFile work was stopped while the process ran. */
export interface SsdFailure {
  /** What the device said: -errno, or minus a cuFile status. */
  readonly code: number
  readonly reason: string
}

/** Where new work of the SSD tier goes, and why. */
export interface RoutesNow {
  readonly backend: 'uring' | 'cufile'
  readonly readRoute: ReadRoute | 'unavailable'
  readonly writeRoute: WriteRoute
  readonly cause: SsdCause
}

/** cuFile's own statuses begin here; what is smaller is an errno. */
const CUFILE_STATUS_MIN = 5000

/**
 * How the SSD tier is used: what was selected at start, and the one change that may follow. Main's copy of what the
 * manager worker decided, for the log, /health and metrics.
 */
export class SsdStatus {
  readonly selected: SsdRoutes
  readonly #switch: SsdRouteSwitch
  #failure: SsdFailure | null = null

  constructor(selected: SsdRoutes) {
    this.selected = selected
    this.#switch = new SsdRouteSwitch(selected)
  }

  /** Null while nothing was stopped. */
  get failure(): SsdFailure | null {
    return this.#failure
  }

  get now(): RoutesNow {
    const { backend, cause } = this.selected
    const { readRoute, writeRoute, stopped } = this.#switch
    return { backend: stopped ? 'uring' : backend, readRoute, writeRoute, cause: stopped ? 'failed' : cause }
  }

  /** The manager worker has stopped new cuFile work. */
  fellBack(code: number): SsdFailure {
    this.#switch.failed()
    const said = -code >= CUFILE_STATUS_MIN ? `cuFile status ${-code}` : `errno ${-code}`
    this.#failure = { code, reason: `cuFile failed with ${said}: no new work goes by it until restart` }
    return this.#failure
  }
}
