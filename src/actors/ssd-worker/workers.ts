import { invariant } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { COPY } from '../../shared/layout/descriptors.js'
import { partBase } from './checks.js'
import { SSD_WORKER_COUNT as COUNT } from './counters.js'
import type { Encodings } from './encodings.js'
import type { AnyJob, Worker } from './job.js'
import { SSD_WORKERS_MAX } from './messages.js'
import type { Operations } from './operations.js'
import type { Restores } from './restores.js'
import type { SsdWorkerEffect } from './steps.js'
import { STAGING_SLOTS, StagingWorker } from './worker.js'
import type { Writes } from './writes.js'

export interface SsdWorkerOptions {
  /** Bytes of one staging slot. */
  readonly slotBytes: number
  /** Copies in one part at most. */
  readonly partDescriptors: number
  /** Decodings in one part at most, with a result each; absent: no job has anything coded. */
  readonly codedDescriptors?: number
}

/**
 * The workers of a lane: opened with their first job, closed when they were asked to and nothing is left. Gives their
 * free slots to batches and their free places on the stream to copies, job by job.
 */
export class Workers {
  readonly #options: SsdWorkerOptions
  readonly #operations: Operations
  readonly #restores: Restores
  readonly #writes: Writes
  readonly #encodings: Encodings
  readonly #workers = new Map<number, Worker>()

  constructor(
    options: SsdWorkerOptions,
    operations: Operations,
    restores: Restores,
    writes: Writes,
    encodings: Encodings,
  ) {
    this.#options = options
    this.#operations = operations
    this.#restores = restores
    this.#writes = writes
    this.#encodings = encodings
  }

  get size(): number {
    return this.#workers.size
  }

  add(number: number): void {
    const fits = number >= 0 && number < SSD_WORKERS_MAX && !this.#workers.has(number)
    invariant(fits, 'a worker number names one worker', { worker: number })
    this.#workers.set(number, new StagingWorker(number))
  }

  of(number: number): Worker {
    const worker = this.#workers.get(number)
    invariant(worker !== undefined, 'a worker is opened before it is named', { worker: number })
    return worker
  }

  closeAll(): void {
    for (const worker of this.#workers.values()) worker.closing = true
  }

  /** The job may have turns from now on. The first one of a worker opens it. */
  start(job: AnyJob, out: SsdWorkerEffect[]): void {
    const { worker } = job
    worker.want(job)
    if (worker.state !== 'closed') return
    worker.state = 'opening'
    out.push({ kind: 'open-worker', worker: worker.number, slotBytes: this.#options.slotBytes })
  }

  /** The device said whether it opened a worker: `code` is 0 or what refused it. */
  opened(number: number, code: number): Worker {
    const worker = this.of(number)
    invariant(worker.state === 'opening', 'a worker opens when it was asked to', { worker: number })
    worker.state = code < 0 ? 'closed' : 'open'
    return worker
  }

  /** Gives what is free to who waits, and ends what may end. `announced`: each end is said. */
  advance(nowUs: number, announced: boolean, out: SsdWorkerEffect[]): void {
    for (const worker of [...this.#workers.values()]) {
      if (worker.state === 'open') {
        this.#encodings.begin(worker, nowUs, out)
        this.#fillSlots(worker, nowUs, out)
        this.#fillStream(worker, nowUs, out)
      }
      if (worker.closing && worker.jobs.size === 0) this.#close(worker, announced, out)
    }
  }

  #fillSlots(worker: Worker, nowUs: number, out: SsdWorkerEffect[]): void {
    for (let slot = worker.freeSlot; slot >= 0; slot = worker.freeSlot) {
      const turn = worker.turns.take(worker.writesInFlight > 0)
      if (turn === null) return
      if (turn.kind === 'read') this.#restores.read(turn.job, slot, nowUs, out)
      else this.#writes.write(turn.job, slot, nowUs, out)
      worker.wantSlot(turn.job)
    }
  }

  #fillStream(worker: Worker, nowUs: number, out: SsdWorkerEffect[]): void {
    for (let place = worker.freePart; place >= 0 && worker.copiers.length > 0; place = worker.freePart) {
      const job = worker.copiers.shift() as AnyJob
      this.#copy(job, place, nowUs, out)
      worker.wantStream(job)
    }
  }

  #copy(job: AnyJob, place: number, nowUs: number, out: SsdWorkerEffect[]): void {
    const { worker, copies } = job
    const { first, count, coded, storedBytes } = copies.take(this.#options)
    worker.parts[place] = true
    job.partsInFlight += 1
    const resultBase = partBase(worker.number, place, this.#options.codedDescriptors ?? 0)
    const part = { kind: 'copy', job, first, count, coded, place, resultBase, storedBytes, sinceUs: nowUs } as const
    const tag = this.#operations.put(part)
    const descriptors = { worker: worker.number, tag, copies: copies.doubles, offset: first * COPY.doubles, count }
    if (coded) out.push({ kind: 'decode', slot: STAGING_SLOTS, ...descriptors, resultBase })
    else out.push({ kind: 'copy', toPages: job.kind === 'restore', ...descriptors })
  }

  #close(worker: Worker, announced: boolean, out: SsdWorkerEffect[]): void {
    invariant(worker.batchesInFlight === 0 && worker.partsInFlight === 0, 'a worker without jobs has nothing in flight')
    this.#workers.delete(worker.number)
    if (worker.state === 'open') out.push({ kind: 'close-worker', worker: worker.number })
    if (announced) out.push({ kind: 'reply', reply: { kind: 'worker-closed', worker: worker.number } })
  }

  gauge(tally: Tally): void {
    let batches = 0
    let writes = 0
    let parts = 0
    let slots = 0
    let arenas = 0
    for (const worker of this.#workers.values()) {
      batches += worker.batchesInFlight
      writes += worker.writesInFlight
      parts += worker.partsInFlight
      if (worker.encoder !== null) arenas += 1
      if (worker.state === 'open') slots += STAGING_SLOTS
    }
    tally.set(COUNT.batchesInFlight, batches)
    tally.set(COUNT.writesInFlight, writes)
    tally.set(COUNT.copiesInFlight, parts)
    tally.set(COUNT.slotsOpen, slots)
    tally.set(COUNT.arenasHeld, arenas)
    tally.set(COUNT.stagingBytes, slots * this.#options.slotBytes)
  }
}
