import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { isTerminal, slotGeneration, slotStateOf, slotWord } from '../../src/shared/layout/wire/slots.js'
import type { Descriptors } from './descriptors.js'
import { must } from './violation.js'

/** What a finisher wrote beside the word. */
export interface SlotEnd {
  readonly state: number
  readonly errorCode: number
  readonly firstFailed: number
  readonly bytes: number
}

interface Line {
  clientWord: number
  fence: number
  managerWord: number
  end: SlotEnd | null
}

interface Table {
  readonly lines: Line[]
  /** Told at once when a slot of the table becomes terminal, before anything else happens. */
  finished: (slot: number, generation: number, end: SlotEnd) => void
}

/**
 * The completion slots of all sessions as both processes see them, with the rules of their words (C5 of reliability:
 * one terminal state a generation, RUNNING before it, generations rise).
 */
export class SlotTables {
  readonly #tables = new Map<number, Table>()
  readonly #fds: Descriptors
  #next = 1
  terminals = 0

  constructor(fds: Descriptors) {
    this.#fds = fds
  }

  get count(): number {
    return this.#tables.size
  }

  create(count: number) {
    const slots = this.#next++
    const lines = Array.from({ length: count }, () => ({ clientWord: 0, fence: 0, managerWord: 0, end: null }))
    this.#tables.set(slots, { lines, finished: () => {} })
    const [clientFd, managerFd, eventFd] = ([0, 1, 2] as const).map((part) =>
      this.#fds.open({ kind: 'slots', slots, part }),
    ) as [number, number, number]
    return { slots, clientFd, managerFd, eventFd }
  }

  release(slots: number): void {
    must(this.#tables.delete(slots), 'O5', () => `slot table ${slots} is released twice`)
  }

  onFinished(slots: number, finished: Table['finished']): void {
    const table = this.#tables.get(slots)
    if (table !== undefined) table.finished = finished
  }

  /** The client's half. */
  submit(slots: number, slot: number, generation: number, fence: number): void {
    // The client's files are its own: it may write to them after the Manager has let go.
    if (!this.#tables.has(slots)) return
    const line = this.#line(slots, slot)
    line.clientWord = slotWord(generation, SLOT_STATE.submitted)
    line.fence = fence
  }

  raiseFence(slots: number, slot: number, fence: number): void {
    if (this.#tables.has(slots)) this.#line(slots, slot).fence = fence
  }

  /** The terminal end of a generation, or null while it has none. */
  poll(slots: number, slot: number, generation: number): SlotEnd | null {
    if (!this.#tables.has(slots)) return null
    const line = this.#line(slots, slot)
    return slotGeneration(line.managerWord) === generation && isTerminal(slotStateOf(line.managerWord))
      ? line.end
      : null
  }

  /** The Manager's half, as the addon has it. */
  fence(slots: number, slot: number): number {
    return this.#line(slots, slot).fence
  }

  managerWord(slots: number, slot: number): number {
    return this.#line(slots, slot).managerWord
  }

  state(slots: number, slot: number, generation: number, state: number): void {
    const line = this.#line(slots, slot)
    must(state === SLOT_STATE.running, 'C5', () => `slot ${slot} is moved to ${state} without an end`)
    must(generation > slotGeneration(line.managerWord), 'G4', () => `slot ${slot} runs generation ${generation} again`)
    line.managerWord = slotWord(generation, state)
    line.end = null
  }

  finish(slots: number, slot: number, generation: number, end: SlotEnd): void {
    const table = this.#table(slots)
    const line = this.#line(slots, slot)
    const before = line.managerWord
    must(isTerminal(end.state), 'C5', () => `slot ${slot} ends in state ${end.state}`)
    must(
      before === slotWord(generation, SLOT_STATE.running),
      'O5',
      () => `slot ${slot} generation ${generation} ends in ${end.state}, its word says ${before}`,
    )
    line.managerWord = slotWord(generation, end.state)
    line.end = end
    this.terminals++
    table.finished(slot, generation, end)
  }

  #table(slots: number): Table {
    const table = this.#tables.get(slots)
    must(table !== undefined, 'O2', () => `slot table ${slots} is used after its release`)
    return table as Table
  }

  #line(slots: number, slot: number): Line {
    const line = this.#table(slots).lines[slot]
    must(line !== undefined, 'X1', () => `slot ${slot} of table ${slots} does not exist`)
    return line as Line
  }
}
