import { parentPort, Worker, workerData } from 'node:worker_threads'
import { ActorControl } from '../../shared/rings/control.js'
import type { Seat } from './wiring.js'

/** How long a worker may take to say `ready`: 30 ms on a quiet host, seconds on one that is starved of processors. */
export const READY_MS_MAX = 30_000
/** How long a worker may take to leave after STOP; block-device reads in flight cannot be cancelled. */
export const STOP_MS_MAX = 5_000

/** The one message of a worker to main that is not a ring record: main has an event loop, and it comes once. */
const READY = 'ready'

/** What a worker gets. */
export interface WorkerInput<P> {
  readonly seat: Seat
  readonly params: P
}

/** Why a lane ended although nobody asked it to. */
export interface LaneDeath {
  readonly name: string
  /** What it threw, or null when it just exited. */
  readonly error: unknown
  readonly exitCode: number
}

export interface SpawnOptions<P> {
  readonly seat: Seat
  /**
   * Module whose import runs the lane: compiled, without a top-level await (V8 of Node 20 may crash the process when
   * such a worker is terminated early).
   */
  readonly entry: URL
  /** Plain, posted to the worker. */
  readonly params: P
  /** Called once when the lane throws, or exits before its loop has ended and unasked. Lanes are fail-stop: end the process, with this report. */
  onDeath(death: LaneDeath): void
}

/** How a lane came to its end. */
export type LaneEnd = 'left' | 'terminated' | 'died'

/** A lane as main holds it. */
export class LaneHandle {
  readonly name: string
  /** Resolves when the lane runs; rejects when it dies first or takes longer than READY_MS_MAX. */
  readonly ready: Promise<void>
  private readonly worker: Worker
  private readonly exited: Promise<void>
  private end: LaneEnd | null = null
  private thrown: unknown = null

  constructor(options: SpawnOptions<unknown>) {
    const { seat } = options
    const control = new ActorControl(seat.control)
    this.name = seat.name
    this.worker = new Worker(options.entry, { workerData: { seat, params: options.params }, name: seat.name })
    this.worker.on('error', (error) => {
      this.thrown = error
    })
    this.exited = new Promise((resolve) => {
      this.worker.on('exit', (exitCode) => {
        // Asked to leave is not enough: a lane that ends without saying so has not drained.
        const left = this.thrown === null && (this.end === 'terminated' || control.hasLeft())
        this.end ??= left ? 'left' : 'died'
        resolve()
        if (!left) options.onDeath({ name: seat.name, error: this.thrown, exitCode })
      })
    })
    this.ready = this.whenReady()
    // Whoever does not wait for `ready` still hears of a failed start through onDeath.
    this.ready.catch(() => {})
  }

  /**
   * Ends the lane: `sendStop` puts a STOP record into its ring (or nothing, when a peer sends it), the lane drains and
   * leaves by itself; after `limitMs` it is terminated. Never rejects. Idempotent after the end.
   */
  async stop(sendStop: () => void, limitMs: number = STOP_MS_MAX): Promise<LaneEnd> {
    if (this.end !== null) return this.end
    sendStop()
    if (await within(this.exited, limitMs)) return this.end ?? 'left'
    return this.terminate()
  }

  /** The fallback. Waits for `ready` first; a lane that is parked natively ends within its park limit. */
  async terminate(): Promise<LaneEnd> {
    await this.ready.catch(() => {})
    if (this.end === null) {
      this.end = 'terminated'
      await this.worker.terminate()
    }
    await this.exited
    return this.end
  }

  private whenReady(): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`Lane ${this.name} was not ready after ${READY_MS_MAX} ms`))
      }, READY_MS_MAX)
      this.worker.once('message', () => {
        clearTimeout(timer)
        resolve()
      })
      void this.exited.then(() => {
        clearTimeout(timer)
        reject(new Error(`Lane ${this.name} ended before it was ready`, { cause: this.thrown }))
      })
    })
  }
}

/** Starts a lane on a thread of its own. */
export function spawnLane<P>(options: SpawnOptions<P>): LaneHandle {
  return new LaneHandle(options)
}

/** In a worker: what spawnLane was given. */
export function workerInput<P>(): WorkerInput<P> {
  return workerData as WorkerInput<P>
}

/** In a worker: everything is attached and the port is published; the loop comes next. */
export function sayReady(): void {
  parentPort?.postMessage(READY)
}

async function within(promise: Promise<void>, limitMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), limitMs)
  })
  const intime = await Promise.race([promise.then(() => true), late])
  clearTimeout(timer)
  return intime
}
