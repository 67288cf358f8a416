import { CapacityError, errorCodeName, type OrbitError } from '../shared/base/errors.js'
import { invariant } from '../shared/base/invariant.js'
import { SLOT_STATE } from '../shared/layout/slot-states.js'
import {
  isTerminal,
  NONE_FAILED,
  SLOT_GENERATION_MAX,
  slotGeneration,
  slotStateOf,
} from '../shared/layout/wire/slots.js'
import { errorOf } from './failures.js'
import { SLOT_RESULT, type SlotLines } from './link.js'

/**
 * Restores and publications between their submission and their end. Owns the slot lines of one session: which are
 * free, and which generation comes next. A line, and with it the pages it names, is given back for three reasons only:
 * the Manager's word reached a terminal state, the Manager refused the request, or the Manager's process has ended.
 * No time-out, signal or closed socket is among them.
 */

/** What a finished operation moved, and when by the Manager's monotonic clock. */
export interface OperationResult {
  readonly bytes: number
  readonly admitUs: number
  readonly doneUs: number
  readonly layers: number
}

/** One operation that owns a line. */
export interface Operation {
  readonly slot: number
  readonly generation: number
  readonly opId: number
  /** Settles at the end of the operation, never before. */
  readonly ended: Promise<OperationResult>
}

interface Running extends Operation {
  readonly resolve: (result: OperationResult) => void
  readonly reject: (error: unknown) => void
}

export class Operations {
  readonly #lines: SlotLines
  readonly #free: number[]
  readonly #generations: Float64Array
  readonly #running = new Map<number, Running>()
  readonly #result = new Float64Array(SLOT_RESULT.doubles)
  #retired = 0

  /** `generationUsed`: what every line has had already; other than 0 in tests only. */
  constructor(lines: SlotLines, count: number, generationUsed = 0) {
    this.#lines = lines
    this.#free = Array.from({ length: count }, (_, i) => count - 1 - i)
    this.#generations = new Float64Array(count).fill(generationUsed)
  }

  /** Operations that hold a line. */
  get outstanding(): number {
    return this.#running.size
  }

  /**
   * Takes a line with a new generation and marks it submitted, its fence word at 0.
   * @throws CapacityError capacity_slots when every line is in use.
   */
  submit(opId: number): Operation {
    const slot = this.#free.pop()
    if (slot === undefined) {
      throw new CapacityError(
        'capacity_slots',
        `Cannot submit: all ${this.#running.size} completion slots are in use`,
        {
          running: this.#running.size,
          retired: this.#retired,
        },
      )
    }
    const generation = (this.#generations[slot] as number) + 1
    this.#generations[slot] = generation
    let resolve!: (result: OperationResult) => void
    let reject!: (error: unknown) => void
    const ended = new Promise<OperationResult>((yes, no) => {
      resolve = yes
      reject = no
    })
    // The end is also reported to those who never awaited it; an unread failure must not end the process.
    ended.catch(() => {})
    const operation = { slot, generation, opId, ended, resolve, reject }
    this.#running.set(slot, operation)
    this.#lines.submit(slot, generation, opId, 0)
    return operation
  }

  /** The Manager refused the request or never got it, so that it never touches the line: gives it back. */
  refuse(operation: Operation, error: unknown): void {
    const running = this.#running.get(operation.slot)
    if (running?.generation !== operation.generation) return
    this.#release(running)
    running.reject(error)
  }

  /** Resolves when no operation holds a line any more, as far as is known now. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled([...this.#running.values()].map(({ ended }) => ended))
  }

  raiseFence(operation: Operation, fence: number): void {
    if (this.#running.get(operation.slot)?.generation === operation.generation) {
      this.#lines.raiseFence(operation.slot, fence)
    }
  }

  /** Looks at every line in use; settles what has ended. Returns true when something has. */
  poll(): boolean {
    let ended = false
    for (const running of [...this.#running.values()]) {
      const word = this.#lines.poll(running.slot, this.#result)
      if (word < 0 || slotGeneration(word) !== running.generation || !isTerminal(slotStateOf(word))) continue
      ended = true
      this.#finish(running, slotStateOf(word))
    }
    return ended
  }

  /** The Manager's process has ended: looks once more, then fails the rest. */
  abandon(error: OrbitError): void {
    this.poll()
    for (const running of [...this.#running.values()]) {
      this.#release(running)
      running.reject(error)
    }
  }

  /** Unmaps the lines. Nothing may be running. */
  close(): void {
    invariant(this.#running.size === 0, 'slot lines close after their operations', { running: this.#running.size })
    this.#lines.close()
  }

  #finish(running: Running, state: number): void {
    const result = this.#result
    const moved = {
      bytes: result[SLOT_RESULT.bytes] as number,
      admitUs: result[SLOT_RESULT.admitUs] as number,
      doneUs: result[SLOT_RESULT.doneUs] as number,
      layers: result[SLOT_RESULT.layers] as number,
    }
    const code = result[SLOT_RESULT.errorCode] as number
    const failed = result[SLOT_RESULT.firstFailed] as number
    this.#release(running)
    if (state === SLOT_STATE.done) {
      running.resolve(moved)
      return
    }
    const values = { slot: running.slot, bytes: moved.bytes, firstFailed: failed === NONE_FAILED ? null : failed }
    running.reject(
      state === SLOT_STATE.cancelled
        ? errorOf('cancelled', `Cancelled after ${moved.bytes} bytes`, values)
        : errorOf(errorCodeName(code), failureText(code, values.firstFailed), values),
    )
  }

  #release(running: Running): void {
    this.#running.delete(running.slot)
    this.#lines.free(running.slot, running.generation)
    if (running.generation < SLOT_GENERATION_MAX) this.#free.push(running.slot)
    else this.#retired++
  }
}

/** The Manager's code by its name, and its number for who meets one that is newer than this client. */
function failureText(code: number, firstFailed: number | null): string {
  const where = firstFailed === null ? '' : ` at item ${firstFailed}`
  return `Failed${where}: ${errorCodeName(code)} (${code})`
}
