import { invariant } from '../base/invariant.js'
import type { Cells } from './cells.js'

/**
 * How an actor sleeps without losing a wake-up. One word per actor, in a 128-byte block of its own:
 *
 *   RUN            awake, or about to look again
 *   PARKED_JS      asleep in Atomics.wait: only JavaScript can wake it
 *   PARKED_NATIVE  asleep in the addon: an eventfd wakes it, from any thread, callback or process
 *
 * The sleeper sets the word, then looks again, then sleeps while the word still says so. A waker publishes first, then
 * reads the word; whoever exchanges it back to RUN does the one wake-up. Every step is needed: test/explore removes
 * them one by one and shows the record that nobody comes for.
 */
export const RUN = 0
export const PARKED_JS = 1
export const PARKED_NATIVE = 2

/** Wakes one peer, after something was published to it. */
export interface Waker {
  wakeIfParked(): void
}

/** Wakes the actor whose park word is `cells[index]`. `wakeNative` writes its eventfd. */
export class PeerWaker implements Waker {
  private readonly cells: Cells
  private readonly index: number
  private readonly wakeNative: () => void

  constructor(cells: Cells, index: number, wakeNative: () => void) {
    this.cells = cells
    this.index = index
    this.wakeNative = wakeNative
  }

  wakeIfParked(): void {
    const { cells, index } = this
    if (cells.load(index) === RUN) return
    const was = cells.exchange(index, RUN)
    if (was === PARKED_JS) cells.notify(index, 1)
    else if (was === PARKED_NATIVE) this.wakeNative()
  }
}

/** A peer that never sleeps, or is woken by other means: for tests and one-thread use. */
export const NO_WAKER: Waker = { wakeIfParked() {} }

/**
 * Sleeps in JavaScript for at most `timeoutMs`, unless `idle()` finds work after the word was set.
 * For actors that no native thread, callback or process ever wakes.
 */
export function parkInJs(cells: Cells, index: number, idle: () => boolean, timeoutMs: number): void {
  cells.store(index, PARKED_JS)
  if (idle()) cells.wait(index, PARKED_JS, timeoutMs)
  cells.store(index, RUN)
}

/** Longest native sleep: terminate() and process.exit() would otherwise wait for ever on the thread. */
export const NATIVE_PARK_MS_MAX = 100

/**
 * Sleeps in the addon, unless `idle()` finds work after the word was set. `sleep` is the port's park: it compares the
 * word itself, wakes on the eventfd and on completions, and is bounded by NATIVE_PARK_MS_MAX. Returns what it
 * returned, or 0 when it was not called.
 */
export function parkNatively(cells: Cells, index: number, idle: () => boolean, sleep: () => number): number {
  cells.store(index, PARKED_NATIVE)
  const reaped = idle() ? sleep() : 0
  cells.store(index, RUN)
  return reaped
}

/** What a peer without an addon says when it finds PARKED_NATIVE: only a wiring bug gets here. */
export function noNativeWake(): void {
  invariant(false, 'a peer parks natively only where the addon that wakes it is loaded')
}
