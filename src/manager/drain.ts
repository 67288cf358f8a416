import { invariant } from '../shared/base/invariant.js'
import type { Context } from './context.js'
import { ownership } from './sessions/inspecting.js'
import { disconnect, leave } from './sessions/leaving.js'
import { reply } from './sessions/replies.js'
import type { Session } from './sessions/session.js'

/**
 * How the Manager ends.
 *
 *   serving ──begin──▶ draining ──nothing is owned──▶ stopping ──every lane answered──▶ drained
 *
 * `draining`: nothing new is admitted; open operations end, then writes, then sessions are asked to leave and staging is
 * given back. When its time is over, what is open is cancelled, and only what devices still do is waited for.
 * `stopping`: lanes have got STOP, which is the last they get.
 *
 * Invariant: a lane is stopped only when nothing of it is owned: no job, no staging, no read or write in storage.
 */
export class Drain {
  readonly #context: Context
  readonly #stores: number
  #phase: 'serving' | 'draining' | 'stopping' | 'drained' = 'serving'
  #endsUs = Number.POSITIVE_INFINITY
  /** Its time is over. */
  #late = false
  #lanesLeft = 0
  #unfinished = 0
  readonly #waiters: { readonly session: Session; readonly request: number }[] = []

  /** `stores`: how many host-reader lanes (and as many writeback lanes) there are. */
  constructor(context: Context, stores: number) {
    this.#context = context
    this.#stores = stores
  }

  /** Every lane has stopped and the last report is out. */
  get ended(): boolean {
    return this.#phase === 'drained'
  }

  /** Lanes still take requests. */
  get lanesRun(): boolean {
    return this.#phase === 'serving' || this.#phase === 'draining'
  }

  /** When its time is over; Infinity while it has none, or it is over. */
  get nextTickUs(): number {
    return this.#phase === 'draining' && !this.#late ? this.#endsUs : Number.POSITIVE_INFINITY
  }

  /** A client asks for the end and is answered when sessions have left; main decides how long that may take. */
  ask(session: Session, request: number): void {
    this.#waiters.push({ session, request })
    this.#context.out.push({ kind: 'control', reply: { kind: 'drain-asked' } })
  }

  /** Again: the shorter time counts. */
  begin(limitUs: number): void {
    const context = this.#context
    this.#endsUs = Math.min(this.#endsUs, context.nowUs + limitUs)
    if (this.#phase !== 'serving') return
    this.#phase = 'draining'
    context.draining = true
  }

  /** Goes on as far as what is owned allows. Called after each step. */
  progress(): void {
    if (this.#phase !== 'draining') return
    const context = this.#context
    const late = context.nowUs >= this.#endsUs
    const { operationsOpen = 0, jobsOpen = 0 } = ownership(context)
    if (late && !this.#late) this.#unfinished = operationsOpen
    this.#late ||= late
    if (!late && (operationsOpen + jobsOpen > 0 || context.storage.writesPending > 0)) return
    for (const session of [...context.sessions]) leave(context, session)
    context.storage.beginDrain()
    if (!context.storage.quiesced || this.#lanesOwn) return
    for (const { session, request } of this.#waiters.splice(0)) reply(context, session, request, { kind: 'ack' })
    for (const session of [...context.sessions]) {
      if (session.connected) context.out.push({ kind: 'close-connection', connection: session.connection })
      disconnect(context, session)
    }
    this.#stopLanes()
  }

  laneStopped(): void {
    invariant(this.#phase === 'stopping' && this.#lanesLeft > 0, 'a lane stops when it was asked to')
    if (--this.#lanesLeft > 0) return
    this.#phase = 'drained'
    this.#context.out.push({ kind: 'control', reply: { kind: 'drained', unfinished: this.#unfinished } })
  }

  get #lanesOwn(): boolean {
    const { jobsOpen = 0, stagingsOpen = 0 } = ownership(this.#context)
    return jobsOpen + stagingsOpen > 0
  }

  #stopLanes(): void {
    const { out, devices } = this.#context
    this.#phase = 'stopping'
    const request = { kind: 'stop' } as const
    let ssdLanes = 0
    for (const lanes of devices) {
      out.push(lanes.toDramWorker(request), lanes.toHostRestore(request))
      if (lanes.ssd === null) continue
      lanes.ssd.send(request)
      ssdLanes += 1
    }
    for (let store = 0; store < this.#stores; store++) {
      out.push({ kind: 'to-host-reader', store, request }, { kind: 'to-writeback', store, request })
    }
    this.#lanesLeft = 2 * devices.length + ssdLanes + 2 * this.#stores
  }
}
