/**
 * Everything the ring and park protocols do to shared memory, as one small interface. Production binds it straight to
 * Int32Array and Atomics, always with the one class below, so that calls stay monomorphic; the explorer in
 * test/explore binds it to a scheduler that walks every interleaving of the same code.
 *
 * This folder is the only user of Atomics.
 */

/** How a `wait` ended, with the words that the language uses. */
export type WaitOutcome = 'ok' | 'not-equal' | 'timed-out'

/** Sequentially consistent operations on int32 words that several threads share. */
export interface Cells {
  load(index: number): number
  store(index: number, value: number): void
  /** Stores `value` and returns what was there. */
  exchange(index: number, value: number): number
  /** Sleeps while the word is `value`; compare and sleep are one step. */
  wait(index: number, value: number, timeoutMs: number): WaitOutcome
  /** Wakes at most `count` sleepers of the word; returns how many. */
  notify(index: number, count: number): number
}

/** The production binding. */
export class SharedCells implements Cells {
  private readonly words: Int32Array

  constructor(words: Int32Array) {
    this.words = words
  }

  load(index: number): number {
    return Atomics.load(this.words, index)
  }

  store(index: number, value: number): void {
    Atomics.store(this.words, index, value)
  }

  exchange(index: number, value: number): number {
    return Atomics.exchange(this.words, index, value)
  }

  wait(index: number, value: number, timeoutMs: number): WaitOutcome {
    return Atomics.wait(this.words, index, value, timeoutMs)
  }

  notify(index: number, count: number): number {
    return Atomics.notify(this.words, index, count)
  }

  /**
   * The wait of a thread with an event loop: calls `woken` once when the word is not `value` any more or was notified,
   * never before this call returns. A pending wait does not keep the thread alive and costs memory: hold at most one
   * a word, and an explicit keep-alive beside it.
   */
  waitAsync(index: number, value: number, woken: () => void): void {
    const pending = Atomics.waitAsync(this.words, index, value)
    if (pending.async) void pending.value.then(woken)
    else queueSettled(woken)
  }
}

function queueSettled(then: () => void): void {
  void Promise.resolve().then(then)
}
