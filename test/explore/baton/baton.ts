import type { Cells, WaitOutcome } from '../../../src/shared/rings/cells.js'

/**
 * Real threads, one of which runs at a time. A thread holds the baton from one operation on cells to its next; there it
 * draws, from a state that all share, who performs the next operation. So the order of everything follows from the seed.
 *
 * A sleep on a word gives the baton away until somebody notifies that word. When nobody could take the baton and some
 * sleep, a wake-up was lost: sleeps never run out here.
 *
 *   word 0  who holds the baton; NOBODY before the start; OVER at the end
 *   word 1  state of the draw        word 2  operations so far        word 3  digest of (thread, operation, word)
 *   word 4  how it ended             word 8 + t  state of thread t     word 16 + t  the word that thread t sleeps on
 */
const HOLDER = 0
const DRAW = 1
const STEPS = 2
const HASH = 3
const END = 4
const STATE = 8
const SLEEPS_ON = 16
const WORDS = 32

const NOBODY = -1
const OVER = -2
const ABSENT = 0
const READY = 1
const FINISHED = 2
const ASLEEP = 3

const OUTCOMES = ['running', 'finished', 'lost wake-up', 'failed'] as const
export type Outcome = (typeof OUTCOMES)[number]

/** Thrown in a thread whose turn never comes again. */
export class BatonOver extends Error {}

/** Makes the memory of a baton. */
export function createBaton(seed: number): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer(WORDS * 4)
  const words = new Int32Array(buffer)
  words[HOLDER] = NOBODY
  words[DRAW] = Math.imul(seed, 0x9e3779b1) | 1
  return buffer
}

/** What a run came to. */
export interface BatonReport {
  readonly outcome: Outcome
  /** Operations on cells, each chosen by the seed. */
  readonly steps: number
  readonly hash: number
}

export function reportOf(buffer: SharedArrayBuffer): BatonReport {
  const words = new Int32Array(buffer)
  const outcome = OUTCOMES[Atomics.load(words, END)] as Outcome
  return { outcome, steps: words[STEPS] as number, hash: (words[HASH] as number) >>> 0 }
}

/** A thread's hand on the baton. */
export class Baton {
  readonly #words: Int32Array
  readonly #thread: number
  readonly #threads: number

  constructor(buffer: SharedArrayBuffer, thread: number, threads: number) {
    this.#words = new Int32Array(buffer)
    this.#thread = thread
    this.#threads = threads
  }

  /** Joins; the last to come starts the run. Returns with the baton. */
  join(): void {
    Atomics.store(this.#words, STATE + this.#thread, READY)
    const all = Array.from({ length: this.#threads }, (_, thread) => Atomics.load(this.#words, STATE + thread))
    if (!all.includes(ABSENT) && Atomics.compareExchange(this.#words, HOLDER, NOBODY, 0) === NOBODY) {
      Atomics.notify(this.#words, HOLDER)
    }
    this.#await()
  }

  /** Before an operation on word `place`: somebody is drawn, and this thread goes on when it is its turn. */
  step(operation: number, place: number): void {
    this.#pass()
    this.#await()
    const words = this.#words
    words[STEPS] = (words[STEPS] as number) + 1
    const what = (this.#thread * 8 + operation) * 65_536 + place
    words[HASH] = Math.imul((words[HASH] as number) ^ what, 0x85ebca77) ^ ((words[HASH] as number) >>> 13)
  }

  /** Sleeps on a word until it is notified. */
  sleep(place: number): void {
    this.#words[SLEEPS_ON + this.#thread] = place
    this.#words[STATE + this.#thread] = ASLEEP
    this.#pass()
    this.#await()
  }

  /** Makes sleepers of a word ready; returns how many. */
  wake(place: number, count: number): number {
    let woken = 0
    for (let thread = 0; thread < this.#threads && woken < count; thread++) {
      if (this.#words[STATE + thread] !== ASLEEP || this.#words[SLEEPS_ON + thread] !== place) continue
      this.#words[STATE + thread] = READY
      woken++
    }
    return woken
  }

  /** This thread is done. */
  finish(): void {
    this.#words[STATE + this.#thread] = FINISHED
    this.#pass()
  }

  /** Something is wrong: the run ends here. */
  fail(): void {
    this.#end('failed')
  }

  #pass(): void {
    const words = this.#words
    const ready: number[] = []
    let asleep = 0
    for (let thread = 0; thread < this.#threads; thread++) {
      if (words[STATE + thread] === READY) ready.push(thread)
      else if (words[STATE + thread] === ASLEEP) asleep++
    }
    if (ready.length === 0) {
      this.#end(asleep === 0 ? 'finished' : 'lost wake-up')
      return
    }
    words[DRAW] = (Math.imul(words[DRAW] as number, 1664525) + 1013904223) | 0
    const next = ready[((words[DRAW] as number) >>> 8) % ready.length] as number
    if (next === this.#thread) return
    Atomics.store(words, HOLDER, next)
    Atomics.notify(words, HOLDER)
  }

  #end(outcome: Outcome): void {
    Atomics.store(this.#words, END, OUTCOMES.indexOf(outcome))
    Atomics.store(this.#words, HOLDER, OVER)
    Atomics.notify(this.#words, HOLDER)
  }

  #await(): void {
    for (;;) {
      const holder = Atomics.load(this.#words, HOLDER)
      if (holder === this.#thread) return
      if (holder === OVER) throw new BatonOver()
      Atomics.wait(this.#words, HOLDER, holder)
    }
  }
}

/** Real cells over shared memory, each operation of which waits for the baton. `base` tells one memory from another. */
export class BatonCells implements Cells {
  readonly #words: Int32Array
  readonly #baton: Baton
  readonly #base: number

  constructor(words: Int32Array, baton: Baton, base: number) {
    this.#words = words
    this.#baton = baton
    this.#base = base
  }

  load(index: number): number {
    this.#baton.step(0, this.#base + index)
    return Atomics.load(this.#words, index)
  }

  store(index: number, value: number): void {
    this.#baton.step(1, this.#base + index)
    Atomics.store(this.#words, index, value)
  }

  exchange(index: number, value: number): number {
    this.#baton.step(2, this.#base + index)
    return Atomics.exchange(this.#words, index, value)
  }

  wait(index: number, value: number): WaitOutcome {
    this.#baton.step(3, this.#base + index)
    if (Atomics.load(this.#words, index) !== value) return 'not-equal'
    this.#baton.sleep(this.#base + index)
    return 'ok'
  }

  notify(index: number, count: number): number {
    this.#baton.step(4, this.#base + index)
    return this.#baton.wake(this.#base + index, count)
  }
}
