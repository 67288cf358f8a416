import { invariant } from '../base/invariant.js'
import {
  EMPTY_LIST,
  type List,
  type RawRecord,
  RECORD_BYTES,
  RECORD_FIELD_DOUBLE,
  RECORD_KIND_WORD,
  RECORD_LIST_LENGTH_WORD,
  RECORD_LIST_OFFSET_WORD,
  RECORD_TAG_WORD,
  RECORD_WORDS,
} from '../layout/records.js'
import { type Cells, SharedCells } from './cells.js'
import type { Waker } from './park.js'

/**
 * One single-producer single-consumer ring, for life: a lane that died never gets its ring back and nobody else does.
 *
 *   byte 0     tail: records published, free-running int32, written by the producer
 *   byte 128   head: records released, free-running int32, written by the consumer
 *   byte 256   space wanted: 1 while the producer sleeps for room
 *   byte 384   life: OPEN, or POISONED for ever
 *   byte 512   1 once a producer has attached
 *   byte 640   1 once a consumer has attached
 *   byte 768   records (layout/records.ts), then the descriptor arena of float64
 *
 * Counters are compared by subtraction in 32 bits, so they may wrap. Payload is written plainly and handed over by the
 * one store of `publish`; it is handed back by the one store of `release`. The arena needs no word of its own: the
 * producer remembers what each record took and gets it back when head passes that record, in order.
 */
const LINE_WORDS = 32
export const TAIL_WORD = 0
export const HEAD_WORD = LINE_WORDS
export const SPACE_WANTED_WORD = 2 * LINE_WORDS
export const LIFE_WORD = 3 * LINE_WORDS
const PRODUCER_WORD = 4 * LINE_WORDS
const CONSUMER_WORD = 5 * LINE_WORDS
export const RECORDS_WORD = 6 * LINE_WORDS
const RECORDS_BYTE = RECORDS_WORD * 4

export const OPEN = 0
export const POISONED = 1

/** Records of a ring when nobody says otherwise. */
export const RING_CAPACITY = 256
/** float64 of a ring's descriptor arena when nobody says otherwise: 1 MiB. */
export const ARENA_DOUBLES = 131072
const CAPACITY_MAX = 2 ** 24

/** What a ring is: plain, so that it can be posted to a worker. Main makes it and keeps it for ever. */
export interface RingMemory {
  readonly buffer: SharedArrayBuffer
  readonly capacity: number
  readonly arenaDoubles: number
}

/** The same memory as both ends see it; the explorer passes its own. */
export interface RingViews {
  readonly cells: Cells
  readonly words: Int32Array
  readonly doubles: Float64Array
  readonly arena: Float64Array
  readonly capacity: number
  readonly arenaDoubles: number
}

/** Makes the memory of a ring. @throws InvariantError unless `capacity` is a power of two of at least 2. */
export function createRing({ capacity = RING_CAPACITY, arenaDoubles = ARENA_DOUBLES } = {}): RingMemory {
  checkSizes(capacity, arenaDoubles)
  return {
    buffer: new SharedArrayBuffer(RECORDS_BYTE + capacity * RECORD_BYTES + arenaDoubles * 8),
    capacity,
    arenaDoubles,
  }
}

/** Marks a ring as dead: whoever attaches from now on is refused. */
export function poisonRing(memory: RingMemory): void {
  viewsOf(memory).cells.store(LIFE_WORD, POISONED)
}

/** True when no list or record is on its way: everything published was released. */
export function ringIsEmpty(memory: RingMemory): boolean {
  const { cells } = viewsOf(memory)
  return cells.load(TAIL_WORD) === cells.load(HEAD_WORD)
}

export function viewsOf(memory: RingMemory): RingViews {
  const { buffer, capacity, arenaDoubles } = memory
  checkSizes(capacity, arenaDoubles)
  const arenaByte = RECORDS_BYTE + capacity * RECORD_BYTES
  invariant(buffer.byteLength === arenaByte + arenaDoubles * 8, 'a ring memory has the size its numbers say')
  const words = new Int32Array(buffer, 0, arenaByte / 4)
  return {
    cells: new SharedCells(words),
    words,
    doubles: new Float64Array(buffer, 0, arenaByte / 8),
    arena: new Float64Array(buffer, arenaByte, arenaDoubles),
    capacity,
    arenaDoubles,
  }
}

function checkSizes(capacity: number, arenaDoubles: number): void {
  const power =
    Number.isInteger(capacity) && capacity >= 2 && capacity <= CAPACITY_MAX && (capacity & (capacity - 1)) === 0
  invariant(power, 'a ring capacity is a power of two, 2 to 2^24', { capacity })
  invariant(Number.isInteger(arenaDoubles) && arenaDoubles >= 0 && arenaDoubles < 2 ** 31, 'an arena fits int32', {
    arenaDoubles,
  })
}

function attach(cells: Cells, endWord: number, end: string): void {
  invariant(cells.load(LIFE_WORD) === OPEN, 'a ring whose end died is never used again', { end })
  invariant(cells.exchange(endWord, 1) === 0, 'a ring has one producer and one consumer for life', { end })
}

/** The writing end. Owned by one thread. */
export class RingProducer {
  readonly words: Int32Array
  readonly doubles: Float64Array
  readonly arena: Float64Array
  readonly capacity: number
  readonly arenaDoubles: number
  /** Where the list of the record just claimed goes, in float64 of the arena. */
  listOffset = 0
  private readonly cells: Cells
  private readonly consumer: Waker
  private readonly mask: number
  private published: number
  private claimed: number
  /** Records released, as last seen. */
  private freed: number
  private arenaNext = 0
  private arenaUsed = 0
  /** What each record took of the arena, skipped end included. */
  private readonly taken: Int32Array

  constructor(views: RingViews, consumer: Waker) {
    attach(views.cells, PRODUCER_WORD, 'producer')
    this.words = views.words
    this.doubles = views.doubles
    this.arena = views.arena
    this.capacity = views.capacity
    this.arenaDoubles = views.arenaDoubles
    this.cells = views.cells
    this.consumer = consumer
    this.mask = views.capacity - 1
    this.published = views.cells.load(TAIL_WORD)
    this.claimed = this.published
    this.freed = views.cells.load(HEAD_WORD)
    invariant(this.published === this.freed, 'a producer attaches to an empty ring')
    this.taken = new Int32Array(views.capacity)
  }

  static attach(memory: RingMemory, consumer: Waker): RingProducer {
    return new RingProducer(viewsOf(memory), consumer)
  }

  /**
   * Takes the next free record and room for its list (`listOffset`); returns the record's first word, or -1 when the
   * ring or its arena is full. The caller writes the whole record; nothing is visible before `publish`.
   */
  claim(listDoubles: number): number {
    if (!this.fits(listDoubles)) {
      invariant(listDoubles <= this.arenaDoubles, 'a list fits the arena of its ring', { listDoubles })
      this.reclaim()
      if (!this.fits(listDoubles)) return -1
    }
    const slot = this.claimed & this.mask
    this.taken[slot] = listDoubles === 0 ? 0 : this.takeArena(listDoubles)
    this.claimed = (this.claimed + 1) | 0
    return RECORDS_WORD + slot * RECORD_WORDS
  }

  /** Writes one record with a copy of its list; false when there is no room. Visible after `publish`. */
  push(record: RawRecord): boolean {
    const { list, fields } = record
    const { length } = list
    const word = this.claim(length)
    if (word < 0) return false
    const { words, doubles } = this
    if (length > 0) this.copyList(list)
    words[word + RECORD_KIND_WORD] = record.kind
    words[word + RECORD_TAG_WORD] = record.tag
    const field = (word >> 1) + RECORD_FIELD_DOUBLE
    // Unrolled: a loop of six costs three times as much.
    doubles[field] = fields[0] as number
    doubles[field + 1] = fields[1] as number
    doubles[field + 2] = fields[2] as number
    doubles[field + 3] = fields[3] as number
    doubles[field + 4] = fields[4] as number
    doubles[field + 5] = fields[5] as number
    words[word + RECORD_LIST_OFFSET_WORD] = this.listOffset
    words[word + RECORD_LIST_LENGTH_WORD] = length
    return true
  }

  /** Makes everything claimed visible with one store, then wakes the consumer if it sleeps. */
  publish(): void {
    if (this.published === this.claimed) return
    this.published = this.claimed
    this.cells.store(TAIL_WORD, this.published)
    this.consumer.wakeIfParked()
  }

  /**
   * For a producer that could not claim and is about to sleep, after its park word was set: asks the consumer for a
   * wake-up, then says whether still nothing was released since the claim failed.
   */
  stalled(): boolean {
    this.cells.store(SPACE_WANTED_WORD, 1)
    return this.cells.load(HEAD_WORD) === this.freed
  }

  private fits(listDoubles: number): boolean {
    if (((this.claimed - this.freed) | 0) >= this.capacity) return false
    if (listDoubles === 0) return true
    const toEnd = this.arenaDoubles - this.arenaNext
    const cost = listDoubles <= toEnd ? listDoubles : toEnd + listDoubles
    return this.arenaUsed + cost <= this.arenaDoubles
  }

  private copyList(list: List): void {
    const { arena, listOffset } = this
    const { doubles, offset, length } = list
    for (let i = 0; i < length; i++) arena[listOffset + i] = doubles[offset + i] as number
  }

  /** Lists never wrap: one that does not fit before the end skips to the start and pays for the skipped end. */
  private takeArena(listDoubles: number): number {
    const toEnd = this.arenaDoubles - this.arenaNext
    const skips = listDoubles > toEnd
    const cost = skips ? toEnd + listDoubles : listDoubles
    this.listOffset = skips ? 0 : this.arenaNext
    this.arenaNext = this.listOffset + listDoubles
    this.arenaUsed += cost
    return cost
  }

  private reclaim(): void {
    const head = this.cells.load(HEAD_WORD)
    const released = (head - this.freed) | 0
    invariant(released >= 0 && released <= this.capacity, 'a head stays between its last value and the tail', {
      head,
      freed: this.freed,
    })
    for (let i = 0; i < released; i++) this.arenaUsed -= this.taken[(this.freed + i) & this.mask] as number
    this.freed = head
    if (this.arenaUsed === 0) this.arenaNext = 0
  }
}

/** The reading end. Owned by one thread. */
export class RingConsumer {
  readonly words: Int32Array
  readonly doubles: Float64Array
  readonly arena: Float64Array
  readonly capacity: number
  readonly arenaDoubles: number
  private readonly cells: Cells
  private readonly producer: Waker
  private readonly mask: number
  /** Records published, as last seen. */
  private seen: number
  private taken: number
  private released: number

  constructor(views: RingViews, producer: Waker) {
    attach(views.cells, CONSUMER_WORD, 'consumer')
    this.words = views.words
    this.doubles = views.doubles
    this.arena = views.arena
    this.capacity = views.capacity
    this.arenaDoubles = views.arenaDoubles
    this.cells = views.cells
    this.producer = producer
    this.mask = views.capacity - 1
    this.released = views.cells.load(HEAD_WORD)
    this.taken = this.released
    this.seen = this.released
  }

  static attach(memory: RingMemory, producer: Waker): RingConsumer {
    return new RingConsumer(viewsOf(memory), producer)
  }

  /** First word of the next record that was not taken, or -1. */
  peek(): number {
    if (this.taken === this.seen && this.empty()) return -1
    return RECORDS_WORD + (this.taken & this.mask) * RECORD_WORDS
  }

  /** True when nothing is there to take; looks at shared memory. */
  empty(): boolean {
    this.seen = this.cells.load(TAIL_WORD)
    const waiting = (this.seen - this.taken) | 0
    invariant(waiting >= 0 && waiting <= this.capacity, 'a tail stays within one capacity of the head', { waiting })
    return waiting === 0
  }

  /**
   * Takes the next record into `record`; false when there is none. Its list is a window of the arena: it and the
   * record's words are the reader's until `release`.
   */
  take(record: RawRecord): boolean {
    const word = this.peek()
    if (word < 0) return false
    const { words, doubles } = this
    const { fields } = record
    record.kind = words[word + RECORD_KIND_WORD] as number
    record.tag = words[word + RECORD_TAG_WORD] as number
    const field = (word >> 1) + RECORD_FIELD_DOUBLE
    fields[0] = doubles[field] as number
    fields[1] = doubles[field + 1] as number
    fields[2] = doubles[field + 2] as number
    fields[3] = doubles[field + 3] as number
    fields[4] = doubles[field + 4] as number
    fields[5] = doubles[field + 5] as number
    const length = words[word + RECORD_LIST_LENGTH_WORD] as number
    record.list = length === 0 ? EMPTY_LIST : this.windowAt(words[word + RECORD_LIST_OFFSET_WORD] as number, length)
    this.taken = (this.taken + 1) | 0
    return true
  }

  private windowAt(offset: number, length: number): List {
    const inside = offset >= 0 && length > 0 && offset + length <= this.arenaDoubles
    invariant(inside, 'a list lies inside the arena', { offset, length })
    return { doubles: this.arena, offset, length }
  }

  /** Gives back everything taken, records and lists, with one store; wakes a producer that sleeps for room. */
  release(): void {
    if (this.released === this.taken) return
    this.released = this.taken
    this.cells.store(HEAD_WORD, this.released)
    if (this.cells.load(SPACE_WANTED_WORD) === 1 && this.cells.exchange(SPACE_WANTED_WORD, 0) === 1) {
      this.producer.wakeIfParked()
    }
  }
}
