import type { ReadRoute, SsdRoutes, WriteRoute } from './ssd-selection.js'

/**
 * The routes of new work, after start. A cuFile failure of staging, stream or I/O in `auto` stops new cuFile work until
 * restart, once; what was submitted keeps its pages, extents and files, and ends as it would have. Routes that were
 * asked for by name never change: with `--ssd-backend cufile` the next operation tries again, and reads that
 * `--ssd-read-path cufile` pinned under `auto` are unavailable instead of going another way.
 *
 * Invariant: a route that was left is never taken again.
 */
export class SsdRouteSwitch {
  readonly #routes: SsdRoutes
  #stopped = false

  constructor(routes: SsdRoutes) {
    this.#routes = routes
  }

  /** Where a new demand read goes; `unavailable`: nowhere, what is only on the SSD is a miss. */
  get readRoute(): ReadRoute | 'unavailable' {
    const { readRoute, readsFallBack } = this.#routes
    if (!this.#stopped || readRoute !== 'cufile') return readRoute
    return readsFallBack ? 'dram' : 'unavailable'
  }

  /** The operator named the read route. */
  get readsPinned(): boolean {
    return this.#routes.readsPinned
  }

  /** Where a new write goes. */
  get writeRoute(): WriteRoute {
    return this.#stopped ? 'uring' : this.#routes.writeRoute
  }

  /** New cuFile work is admitted no more. */
  get stopped(): boolean {
    return this.#stopped
  }

  /** A cuFile operation failed. True for the failure that stops new work: the one to count and to log. */
  failed(): boolean {
    const { backend, writesFallBack } = this.#routes
    if (this.#stopped || backend !== 'cufile' || !writesFallBack) return false
    this.#stopped = true
    return true
  }
}
