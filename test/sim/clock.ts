import { must } from './violation.js'

interface Event {
  readonly atUs: number
  readonly order: number
  readonly run: () => void
}

/**
 * Virtual time and everything that will happen in it: one binary heap, by time, then by the order of scheduling. Nothing
 * in a simulation happens outside `run`, so the order of events is a function of the plan alone.
 */
export class Clock {
  nowUs = 0
  readonly #heap: Event[] = []
  #order = 0

  get pending(): number {
    return this.#heap.length
  }

  /** `run` happens `delayUs` from now, after everything that was scheduled for that moment before. */
  after(delayUs: number, run: () => void): void {
    const event = { atUs: this.nowUs + delayUs, order: this.#order++, run }
    const heap = this.#heap
    let at = heap.length
    heap.push(event)
    while (at > 0) {
      const up = (at - 1) >> 1
      if (!before(event, heap[up] as Event)) break
      heap[at] = heap[up] as Event
      at = up
    }
    heap[at] = event
  }

  /** Runs the next event unless it is later than `untilUs`; false when there is none. */
  step(untilUs: number): boolean {
    const next = this.#heap[0]
    if (next === undefined || next.atUs > untilUs) return false
    this.#takeFirst()
    must(next.atUs >= this.nowUs, 'time', () => `an event of ${next.atUs} runs at ${this.nowUs}`)
    this.nowUs = next.atUs
    next.run()
    return true
  }

  #takeFirst(): void {
    const heap = this.#heap
    const last = heap.pop() as Event
    if (heap.length === 0) return
    let at = 0
    for (;;) {
      let least = at * 2 + 1
      if (least >= heap.length) break
      if (least + 1 < heap.length && before(heap[least + 1] as Event, heap[least] as Event)) least++
      if (!before(heap[least] as Event, last)) break
      heap[at] = heap[least] as Event
      at = least
    }
    heap[at] = last
  }
}

function before(a: Event, b: Event): boolean {
  return a.atUs < b.atUs || (a.atUs === b.atUs && a.order < b.order)
}
