import { WRITES_OUTSTANDING_MAX, type WritebackRequest } from '../../actors/writeback/messages.js'
import { invariant } from '../../shared/base/invariant.js'
import type { StorageOptions, StoragePorts } from './ports.js'

type WriteRequest = Extract<WritebackRequest, { kind: 'write' }>

/**
 * One writeback lane as its client sees it: the jobs it has, those that wait for a place among them, and the bytes it
 * may have in flight, which shrink while demand reads want the same device.
 */
export class WriteLane {
  readonly #writer: number
  readonly #ports: StoragePorts
  readonly #wideBytes: number
  readonly #narrowBytes: number
  readonly #restoreUs: number
  readonly #jobs = new Set<number>()
  readonly #waiting: WriteRequest[] = []
  #windowBytes: number
  #demand = 0
  #calmSinceUs = 0

  constructor(writer: number, options: StorageOptions, ports: StoragePorts) {
    this.#writer = writer
    this.#ports = ports
    this.#wideBytes = options.writeWindowBytes
    this.#narrowBytes = options.writeWindowBytesMin
    this.#restoreUs = options.writeWindowRestoreUs
    this.#windowBytes = options.writeWindowBytes
  }

  /** Jobs that the lane has and has not answered. */
  get outstanding(): number {
    return this.#jobs.size
  }

  get windowBytes(): number {
    return this.#windowBytes
  }

  /** When the window may widen again; Infinity: it is wide, or reads still wait. */
  get reopensUs(): number {
    if (this.#demand > 0 || this.#windowBytes === this.#wideBytes) return Number.POSITIVE_INFINITY
    return this.#calmSinceUs + this.#restoreUs
  }

  send(request: WriteRequest): void {
    this.#waiting.push(request)
    this.#pump()
  }

  /** The lane answered a job; false when it did not have it. */
  ended(job: number): boolean {
    if (!this.#jobs.delete(job)) return false
    this.#pump()
    return true
  }

  /** Demand reads on the lane's device begin (+) or end (-). */
  demand(delta: number, nowUs: number): void {
    this.#demand += delta
    invariant(this.#demand >= 0, 'a demand read ends once', { writer: this.#writer, demand: this.#demand })
    if (this.#demand === 0) this.#calmSinceUs = nowUs
    else this.#resize(this.#narrowBytes)
  }

  tick(nowUs: number): void {
    if (nowUs >= this.reopensUs) this.#resize(this.#wideBytes)
  }

  #resize(bytes: number): void {
    if (bytes === this.#windowBytes) return
    this.#windowBytes = bytes
    this.#ports.write(this.#writer, { kind: 'set-window', bytes })
  }

  #pump(): void {
    while (this.#waiting.length > 0 && this.#jobs.size < WRITES_OUTSTANDING_MAX) {
      const request = this.#waiting.shift() as WriteRequest
      this.#jobs.add(request.job)
      this.#ports.write(this.#writer, request)
    }
  }
}
