import type { MainSeat } from '../actors/runtime/main-seat.js'
import { type LaneDeath, type LaneHandle, spawnLane } from '../actors/runtime/spawn.js'
import type { Wiring } from '../actors/runtime/wiring.js'
import { errorOf } from '../shared/base/error-of.js'
import { ERROR_CODES, type ErrorCode, type ErrorValues } from '../shared/base/errors.js'

/**
 * The lanes of one Manager while they start. A lane that dies before the crew is complete fails the start, with its own
 * error; one that dies later is reported to `onDeath`, which must end the process.
 */
export class Crew {
  readonly wiring: Wiring
  readonly lanes: LaneHandle[] = []
  /** Main's own seat, once it is open. */
  seat: MainSeat | null = null
  readonly #onDeath: (death: LaneDeath) => void
  readonly #failed: Promise<never>
  #fail: (error: unknown) => void = () => {}
  #complete = false

  constructor(wiring: Wiring, onDeath: (death: LaneDeath) => void) {
    this.wiring = wiring
    this.#onDeath = onDeath
    this.#failed = new Promise((_, reject) => {
      this.#fail = reject
    })
    this.#failed.catch(() => {})
  }

  spawn<P>(name: string, entry: URL, params: P): LaneHandle {
    const onDeath = (death: LaneDeath) => {
      if (this.#complete) this.#onDeath(death)
      else this.#fail(startError(death))
    }
    const lane = spawnLane({ seat: this.wiring.seat(name), entry, params, onDeath })
    this.lanes.push(lane)
    return lane
  }

  /** Waits for `step`. Rejects with the error of a lane that dies first. */
  async whole<T>(step: Promise<T>): Promise<T> {
    step.catch(() => {})
    return await Promise.race([this.#failed, step])
  }

  /** Everybody is there. */
  complete(): void {
    this.#complete = true
  }

  /** The start failed: ends every lane that runs and leaves main's seat. */
  async dismiss(): Promise<void> {
    await Promise.all(this.lanes.map((lane) => lane.terminate()))
    this.seat?.close()
  }
}

/** What a lane threw, in its own class again: between threads an error keeps its fields and loses its class. */
function startError({ name, error, exitCode }: LaneDeath): unknown {
  if (!(error instanceof Error)) return new Error(`Lane ${name} ended with code ${exitCode} before it was ready`)
  const { code, values } = error as Error & { readonly code?: unknown; readonly values?: ErrorValues }
  if (typeof code !== 'string' || !Object.hasOwn(ERROR_CODES, code)) return error
  return errorOf(code as ErrorCode, error.message, values)
}
