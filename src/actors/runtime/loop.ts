import { COMPLETION_WORDS } from '../../binding/completions.js'
import type { Port } from '../../binding/port.js'
import { IoError } from '../../shared/base/errors.js'
import { type ActorControl, PARK_WORD } from '../../shared/rings/control.js'
import { NATIVE_PARK_MS_MAX, parkInJs, parkNatively } from '../../shared/rings/park.js'
import type { Inbox } from './inbox.js'
import type { Outbox } from './outbox.js'

/** Messages taken from one inbox in one turn: the others, and completions, then have theirs. */
export const TURN_MESSAGES_MAX = 64
/** Longest sleep in JavaScript. Wake-ups are never lost, so this only bounds how late a bug would show. */
export const JS_PARK_MS_MAX = 1000

/** An inbox with its sink: what the loop needs to know of it. */
export interface LaneInbox {
  /** Steps the machine with at most `limit` messages; their lists stay valid until `release`. */
  take(limit: number): number
  release(): void
  empty(): boolean
}

/** What the loop needs to know of an outbox. */
export type LaneOutbox = Pick<Outbox<never>, 'flush' | 'stalled' | 'pending'>

/** Joins an inbox to where its messages go. */
export function feed<M>(inbox: Inbox<M>, each: (message: M) => void): LaneInbox {
  return {
    take: (limit) => inbox.take(limit, each),
    release: () => inbox.release(),
    empty: () => inbox.empty(),
  }
}

/** The native side of a lane: its port, and where completions land (PortOptions.completions). */
export interface LanePort {
  readonly port: Port
  readonly completions: Int32Array
  /** One native completion: steps the machine. */
  completed(tag: number, result: number, aux: number, kind: number): void
}

/** All that a lane's loop.ts hands over; every function is called on the lane's thread and never concurrently. */
export interface Lane {
  readonly control: ActorControl
  /**
   * How long the lane looks again after its last work before it sleeps, in microseconds; 0: not at all. Whoever comes in
   * that time saves a wake-up and pays with a core, so it is for machines with more cores than lanes.
   */
  readonly spinUs: number
  readonly inboxes: readonly LaneInbox[]
  readonly outboxes: readonly LaneOutbox[]
  /** null: a lane that never has native work. */
  readonly native: LanePort | null
  /** Performs the effects decided since the last call; returns the entries it wrote to the port's submissions. */
  perform(): number
  /** True while the addon may have something to say: I/O or jobs in flight, or sockets and other foreign producers. */
  hasNativeWork(): boolean
  /** When `tick` is wanted, in the microseconds of `nowUs`; Infinity when never. */
  nextTickUs(): number
  /** Steps the machine with the time. */
  tick(nowUs: number): void
  nowUs(): number
  /** True when the lane has ended: the loop flushes what waits and returns. */
  ended(): boolean
}

/**
 * The loop of every lane: take, reap, tick, act, give back, flush; when turns found nothing to do for `spinUs`, sleep.
 * Effects run before the messages of the turn are released, so they may use the messages' lists. Returns when the
 * lane has ended and its last messages are in the rings. Native failures are thrown: a lane without its port is dead.
 */
export function runLane(lane: Lane): void {
  const { inboxes, outboxes, native } = lane
  const idle = (): boolean => {
    for (const inbox of inboxes) if (!inbox.empty()) return false
    for (const outbox of outboxes) if (!outbox.stalled()) return false
    return true
  }
  let reaped = 0
  let sleepsAtUs = 0
  for (;;) {
    let taken = 0
    for (const inbox of inboxes) taken += inbox.take(TURN_MESSAGES_MAX)
    if (native !== null) deliver(native, reaped)
    if (lane.nextTickUs() !== Number.POSITIVE_INFINITY) tickIfDue(lane)
    const submitted = lane.perform()
    for (const inbox of inboxes) inbox.release()
    let flushed = true
    for (const outbox of outboxes) flushed = outbox.flush() && flushed
    const busy = taken > 0 || reaped > 0
    const working = lane.hasNativeWork()
    reaped = native !== null && (submitted > 0 || working) ? reap(native.port.pump(submitted, 0, 0), 'pump') : 0
    if (lane.ended() && flushed) {
      lane.control.sayLeft()
      return
    }
    if (busy || reaped > 0) sleepsAtUs = lane.spinUs > 0 ? lane.nowUs() + lane.spinUs : 0
    else if (sleepsAtUs === 0 || lane.nowUs() >= sleepsAtUs) reaped = park(lane, working, idle)
  }
}

function deliver(native: LanePort, count: number): void {
  const { completions } = native
  for (let at = 0; at < count * COMPLETION_WORDS; at += COMPLETION_WORDS) {
    native.completed(
      completions[at] as number,
      completions[at + 1] as number,
      completions[at + 2] as number,
      completions[at + 3] as number,
    )
  }
}

function tickIfDue(lane: Lane): void {
  const nowUs = lane.nowUs()
  if (nowUs >= lane.nextTickUs()) lane.tick(nowUs)
}

/** Sleeps where a wake-up can reach: in the addon while it may have something to say, else in JavaScript. */
function park(lane: Lane, working: boolean, idle: () => boolean): number {
  const { control, native } = lane
  const nextTickUs = lane.nextTickUs()
  const untilTickMs = nextTickUs === Number.POSITIVE_INFINITY ? JS_PARK_MS_MAX : (nextTickUs - lane.nowUs()) / 1000
  if (untilTickMs <= 0) return 0
  if (native === null || !working) {
    parkInJs(control.cells, PARK_WORD, idle, Math.min(untilTickMs, JS_PARK_MS_MAX))
    return 0
  }
  const timeoutUs = Math.ceil(Math.min(untilTickMs, NATIVE_PARK_MS_MAX) * 1000)
  return reap(
    parkNatively(control.cells, PARK_WORD, idle, () => native.port.park(timeoutUs)),
    'park',
  )
}

function reap(result: number, call: string): number {
  if (result < 0)
    throw new IoError('uring_unavailable', `Port ${call} failed with errno ${-result}`, { errno: -result })
  return result
}
