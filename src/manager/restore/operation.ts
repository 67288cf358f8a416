import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant } from '../../shared/base/invariant.js'
import { COPY, NO_OFFSET, SOURCE } from '../../shared/layout/descriptors.js'
import { type List, listAt } from '../../shared/layout/records.js'
import { SLOT_STATE, terminalStateOf } from '../../shared/layout/slot-states.js'
import { NONE_FAILED } from '../../shared/layout/wire/slots.js'
import type { Reservation } from '../../shared/scheduling/query-budget.js'
import type { Context } from '../context.js'
import type { JobOwner, LaneJobs } from '../lanes/lane-jobs.js'
import { sendInRecords } from '../lanes/records.js'
import type { DramJobReply, RestoreJobReply } from '../lanes/replies.js'
import type { SsdJobReply, SsdLane } from '../lanes/ssd-lane.js'
import type { Operation, RankHold, Session } from '../sessions/session.js'
import { finishSlot, releaseSlot } from '../sessions/slots.js'
import type { RestorePlan } from './plan.js'

type RestoreReply = DramJobReply | RestoreJobReply | SsdJobReply

/**
 * One RESTORE of one rank, from admission to its terminal slot state.
 *
 * States: `waiting` (no job number free) -> `submitted` -> ended; a cancel takes `waiting` straight to ended.
 * Invariants: every entry is held (the redemption took the interests) until the lane's terminal reply; the lane writes the slot
 * of a submitted job; this class writes it only when the job never reached a lane, or when the lane found generations damaged.
 */
export class RestoreOperation implements Operation, JobOwner<RestoreReply> {
  readonly session: Session
  readonly slot: number
  readonly slotGeneration: number
  readonly #context: Context
  readonly #hold: RankHold
  readonly #fence: number
  readonly #plan: RestorePlan
  readonly #entries: Int32Array
  readonly #reservation: Reservation
  readonly #admitUs: number
  #job: number | null = null
  #cancelled = false

  /** `entries`: what the redemption returned; each is held for this operation, which drops it at its end, as it releases `reservation`. */
  constructor(
    context: Context,
    session: Session,
    hold: RankHold,
    request: { readonly slot: number; readonly generation: number; readonly fence: number },
    plan: RestorePlan,
    entries: Int32Array,
    reservation: Reservation,
  ) {
    this.#context = context
    this.session = session
    this.slot = request.slot
    this.slotGeneration = request.generation
    this.#hold = hold
    this.#fence = request.fence
    this.#plan = plan
    this.#entries = entries
    this.#reservation = reservation
    this.#admitUs = context.nowUs
  }

  /** Asks its lane for a job number. */
  request(): void {
    this.#jobs.request(this)
  }

  /** The lane gave a job number: everything of the job goes out now, in as many records as it needs. */
  start(job: number): void {
    this.#job = job
    const { route, descriptors, bytes } = this.#plan
    const rest = {
      bytes,
      admitUs: this.#admitUs,
      slots: this.#hold.slotTable.slots,
      slot: this.slot,
      slotGeneration: this.slotGeneration,
      fence: this.#fence,
    }
    this.#demand(1)
    const size = route === 'dram' ? COPY.doubles : SOURCE.doubles
    sendInRecords(descriptors, size, this.#context.options.descriptorsPerRecordMax, (list, more) => {
      const request = { kind: 'restore', job, more, list, ...rest } as const
      if (route === 'dram') this.#context.out.push(this.#hold.lanes.toDramWorker(request))
      else if (route === 'ssd') this.#context.out.push(this.#hold.lanes.toHostRestore(request))
      else this.#ssd.send({ ...request, worker: this.#ssd.staging(this.#hold).worker })
    })
  }

  cancel(): void {
    if (this.#cancelled) return
    this.#cancelled = true
    const { route } = this.#plan
    if (this.#job === null) {
      const withdrawn = this.#jobs.withdraw(this)
      invariant(withdrawn, 'a restore waits for a job or has one')
      finishSlot(this.#context, this, SLOT_STATE.cancelled, ERROR_CODES.cancelled, 0, this.#admitUs)
      this.#context.tally.restoreEnded(ERROR_CODES.cancelled, 0)
      return this.#end()
    }
    const request = { kind: 'cancel', job: this.#job } as const
    if (route === 'dram') this.#context.out.push(this.#hold.lanes.toDramWorker(request))
    else if (route === 'ssd') this.#context.out.push(this.#hold.lanes.toHostRestore(request))
    else this.#ssd.send(request)
  }

  /** The jobs of the lane that finishes it. */
  get #jobs(): Pick<LaneJobs<RestoreReply>, 'request' | 'withdraw'> {
    const { lanes } = this.#hold
    if (this.#plan.route === 'dram') return lanes.dramJobs
    return this.#plan.route === 'ssd' ? lanes.restoreJobs : this.#ssd.jobs
  }

  get #ssd(): SsdLane {
    const { ssd } = this.#hold.lanes
    invariant(ssd !== null, 'the cuFile route is planned where it exists')
    return ssd
  }

  /** The lane's terminal reply: the slot is written, everything submitted has drained. */
  replied(reply: RestoreReply): void {
    invariant(reply.kind === 'restore-done', 'a restore ends with restore-done', { kind: reply.kind })
    this.#demand(-1)
    if (reply.list.length > 0) {
      const firstFailed = 'firstFailed' in reply ? this.#hideFound(reply) : this.#hideRefused(reply.list)
      this.#endDamaged(reply.status, firstFailed)
    }
    if (reply.status === ERROR_CODES.ok) for (const entry of this.#entries) this.#context.storage.restored(entry)
    this.#context.tally.restoreEnded(reply.status, reply.latencyUs)
    this.#end()
  }

  /** It is hidden by now: a client that asks again must not find what it was just told is lost. */
  #endDamaged(status: number, firstFailed: number): void {
    const failed = firstFailed < 0 ? NONE_FAILED : firstFailed
    finishSlot(this.#context, this, terminalStateOf(status), status, 0, this.#admitUs, failed)
  }

  /** The generations that the lane found damaged are among those this restore holds. */
  #hideFound({ list, firstFailed }: { readonly list: List; readonly firstFailed: number }): number {
    const { storage } = this.#context
    for (let i = 0; i < list.length; i++) {
      const generation = listAt(list, i)
      const entry = this.#entries.find((held) => storage.generationOf(held) === generation)
      invariant(entry !== undefined, 'a lane reports only generations it was given', { generation })
      storage.invalidateGeneration(entry, generation)
    }
    return firstFailed
  }

  /** What DRAM holds of some generations is no coding: `positions` of their descriptors. Returns the first pair of them. */
  #hideRefused(positions: List): number {
    const { storage } = this.#context
    const { descriptors, pairs, decodedPairs } = this.#plan
    const rawCount = descriptors.length / COPY.doubles - decodedPairs.length
    let firstFailed = Number.POSITIVE_INFINITY
    for (let i = 0; i < positions.length; i++) {
      const position = listAt(positions, i)
      const pair = decodedPairs[position - rawCount] ?? -1
      const entry = pairs[pair]?.entry
      invariant(entry !== undefined, 'a lane refuses only what it was to decode', { position })
      storage.invalidateGeneration(entry, storage.generationOf(entry))
      firstFailed = Math.min(firstFailed, pair)
    }
    return firstFailed
  }

  /** Reads of this restore wait on these stores: writes make room until the lane has answered. */
  #demand(delta: 1 | -1): void {
    const { route, descriptors } = this.#plan
    if (route === 'dram') return
    const stores = new Set<number>()
    for (let at = 0; at < descriptors.length; at += SOURCE.doubles) {
      if (descriptors[at + SOURCE.poolOffsetBytes] === NO_OFFSET) stores.add(descriptors[at + SOURCE.store] as number)
    }
    for (const store of stores) this.#context.storage.demand(store, delta)
  }

  #end(): void {
    for (const entry of this.#entries) this.#context.storage.drop(entry)
    this.#reservation.release()
    releaseSlot(this.#context, this)
  }
}
