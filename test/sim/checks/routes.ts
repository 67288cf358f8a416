import { VERB_COUNT } from '../../../src/manager/counters.js'
import { type JobOwner, LaneJobs } from '../../../src/manager/lanes/lane-jobs.js'
import type { SsdJobReply } from '../../../src/manager/lanes/ssd-lane.js'
import { DirectSave } from '../../../src/manager/publish/direct.js'
import { EncodedSave } from '../../../src/manager/publish/encoded.js'
import { NO_OFFSET, SOURCE } from '../../../src/shared/layout/descriptors.js'
import { type List, listAt } from '../../../src/shared/layout/records.js'
import type { ManagerProcess } from '../manager-process.js'
import { must } from '../violation.js'

/**
 * N1 to N4 for the routes of the SSD tier: those that were asked for by name never change; under `auto` the first cuFile
 * failure stops new cuFile work until restart, is counted once and told once, and what was admitted before goes on.
 */
export class RouteCheck {
  readonly #process: ManagerProcess
  #failed = false
  #told = 0

  constructor(process: ManagerProcess) {
    this.#process = process
  }

  /** The lane says that cuFile has failed; the Manager learns of it in this very step. */
  failed(): void {
    this.#failed = true
    this.#process.world.faults.fired(this.#auto ? 'route-stopped' : 'route-kept')
  }

  /** The Manager has told its supervisor of a fallback. */
  told(): void {
    this.#told++
    must(this.#auto && this.#failed && this.#told === 1, 'N3', () => `a fallback is told ${this.#told} times`)
  }

  /** Reads of what is only on the SSD have no route until restart. */
  get pinnedAndStopped(): boolean {
    const { readRoute, readsFallBack } = this.#process.machine.context.options.routes
    return this.#auto && this.#failed && readRoute === 'cufile' && !readsFallBack
  }

  /** After every step. */
  mustHold(): void {
    const { routes, options } = this.#process.machine.context
    const { readRoute, writeRoute, readsFallBack } = options.routes
    const fallbacks = this.#process.verbTally.at(VERB_COUNT.ssdBackendFallbacks)
    const stopped = this.#auto && this.#failed
    const reads = !stopped || readRoute !== 'cufile' ? readRoute : readsFallBack ? 'dram' : 'unavailable'
    const writes = stopped ? 'uring' : writeRoute
    must(
      routes.readRoute === reads && routes.writeRoute === writes,
      'N2',
      () => `routes are ${routes.readRoute} and ${routes.writeRoute}, they should be ${reads} and ${writes}`,
    )
    must(fallbacks === (stopped ? 1 : 0), 'N3', () => `${fallbacks} fallbacks are counted, stopped: ${stopped}`)
  }

  /** A job of the cuFile route is admitted now. */
  admits(kind: 'restore' | 'write'): void {
    const { options } = this.#process.machine.context
    const { readRoute, writeRoute } = options.routes
    const route = kind === 'restore' ? readRoute : writeRoute
    must(route === 'cufile', 'N2', () => `a ${kind} goes by cuFile, its route is ${route}`)
    must(!this.#auto || !this.#failed, 'N4', () => `a ${kind} is admitted to cuFile after it has failed`)
  }

  /** A lease is granted on entries that are in DRAM, or not. */
  leased(inDram: boolean): void {
    const { routes } = this.#process.machine.context
    must(inDram || routes.readRoute !== 'unavailable', 'N4', () => 'a lease needs a read route that was stopped')
  }

  /** host-restore gets a job for pages that have a cuFile route. */
  restoresByUring(list: List): void {
    const { routes } = this.#process.machine.context
    const pinned = routes.readRoute === 'cufile' || routes.readRoute === 'unavailable'
    for (let at = 0; pinned && at < list.length; at += SOURCE.doubles) {
      const stored = listAt(list, at + SOURCE.poolOffsetBytes) === NO_OFFSET
      must(!stored, 'N2', () => `a restore reads by io_uring, the route is ${routes.readRoute}`)
    }
  }

  get #auto(): boolean {
    return this.#process.machine.context.options.routes.writesFallBack
  }
}

/** Jobs of the cuFile route under watch: who is admitted to it, and when. */
export class WatchedSsdJobs extends LaneJobs<SsdJobReply> {
  readonly #check: RouteCheck

  constructor(capacity: number, check: RouteCheck) {
    super(capacity)
    this.#check = check
  }

  override request(owner: JobOwner<SsdJobReply>): void {
    this.#check.admits(owner instanceof DirectSave || owner instanceof EncodedSave ? 'write' : 'restore')
    super.request(owner)
  }
}
