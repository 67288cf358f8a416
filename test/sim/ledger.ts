import { Violation } from './violation.js'

/** A stretch of one memory: the pool, a shard, or a mapping of an engine. */
export interface Range {
  readonly space: string
  readonly start: number
  readonly end: number
  readonly writes: boolean
  readonly what: string
}

/**
 * What the devices are doing right now, to the byte: every read, write and copy between its submission and its
 * completion. Two of them may only share bytes when both read.
 */
export class Flights {
  readonly #open = new Map<string, Range[]>()
  #count = 0

  get count(): number {
    return this.#count
  }

  take(space: string, start: number, end: number, writes: boolean, what: string): Range {
    const range = { space, start, end, writes, what }
    const open = this.#open.get(space)
    this.#count++
    if (open === undefined) {
      this.#open.set(space, [range])
      return range
    }
    for (const other of open) {
      if (other.end <= start || end <= other.start || !(other.writes || writes)) continue
      throw new Violation('O2', `${text(range)} starts while ${text(other)} is in flight`)
    }
    open.push(range)
    return range
  }

  land(range: Range): void {
    const open = this.#open.get(range.space) ?? []
    const at = open.indexOf(range)
    if (at < 0) throw new Violation('O5', `${text(range)} ends twice`)
    this.#count--
    const last = open.pop() as Range
    if (at < open.length) open[at] = last
  }

  /** Throws when anything in flight touches the bytes. */
  mustBeClear(space: string, start: number, end: number, why: string): void {
    for (const other of this.#open.get(space) ?? []) {
      if (other.end > start && other.start < end) {
        throw new Violation('O2', `${why} [${start}, ${end}) of ${space} while ${text(other)} is in flight`)
      }
    }
  }
}

function text({ space, start, end, what }: Range): string {
  return `${what} [${start}, ${end}) of ${space}`
}

/**
 * What lanes were given and have not answered, by units of one memory: readers and writers of each unit. Wider than
 * Flights: a request that still waits in a ring engages its memory too.
 */
export class Engagements {
  readonly name: string
  readonly unitBytes: number
  readonly #readers: Int32Array
  readonly #writers: Int32Array
  #total = 0

  constructor(name: string, bytes: number, unitBytes: number) {
    this.name = name
    this.unitBytes = unitBytes
    this.#readers = new Int32Array(Math.ceil(bytes / unitBytes))
    this.#writers = new Int32Array(Math.ceil(bytes / unitBytes))
  }

  get total(): number {
    return this.#total
  }

  engage(offsetBytes: number, bytes: number, writes: boolean, delta: 1 | -1): void {
    const mine = writes ? this.#writers : this.#readers
    const others = writes ? this.#readers : this.#writers
    const end = Math.ceil((offsetBytes + bytes) / this.unitBytes)
    for (let unit = Math.floor(offsetBytes / this.unitBytes); unit < end; unit++) {
      mine[unit] = (mine[unit] as number) + delta
      if ((mine[unit] as number) < 0 || (delta > 0 && (others[unit] as number) > 0)) {
        throw new Violation('O2', `unit ${unit} of ${this.name} is read and written at once, or ended twice`)
      }
    }
    this.#total += delta
  }

  /** Throws unless somebody has work of this kind on every unit. */
  mustBeHeld(offsetBytes: number, bytes: number, writes: boolean, rule: string, why: string): void {
    const mine = writes ? this.#writers : this.#readers
    const end = Math.ceil((offsetBytes + bytes) / this.unitBytes)
    for (let unit = Math.floor(offsetBytes / this.unitBytes); unit < end; unit++) {
      if ((mine[unit] as number) === 0) throw new Violation(rule, `${why} unit ${unit} of ${this.name}, held by no job`)
    }
  }

  mustBeClear(offsetBytes: number, bytes: number, why: string): void {
    const end = Math.ceil((offsetBytes + bytes) / this.unitBytes)
    for (let unit = Math.floor(offsetBytes / this.unitBytes); unit < end; unit++) {
      if ((this.#readers[unit] as number) + (this.#writers[unit] as number) > 0) {
        throw new Violation('O2', `${why} unit ${unit} of ${this.name} while a lane has work on it`)
      }
    }
  }
}
