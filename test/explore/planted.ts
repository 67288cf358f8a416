import {
  type RawRecord,
  RECORD_FIELD_DOUBLE,
  RECORD_KIND_WORD,
  RECORD_LIST_LENGTH_WORD,
  RECORD_LIST_OFFSET_WORD,
  RECORD_TAG_WORD,
} from '../../src/shared/layout/records.js'
import type { Cells } from '../../src/shared/rings/cells.js'
import { PARKED_JS, PeerWaker, RUN } from '../../src/shared/rings/park.js'
import { HEAD_WORD, RingConsumer, RingProducer, SPACE_WANTED_WORD, TAIL_WORD } from '../../src/shared/rings/ring.js'
import { PRODUCTION, type Protocol } from './scenario.js'

/**
 * Broken twins of the production code, each wrong in the one step its name says. The explorer must catch every one;
 * a twin that survives means that the exploration proves nothing about that step.
 */

/** The private parts of a producer that twins need. */
interface ProducerParts {
  cells: Cells
  consumer: PeerWaker
  published: number
  claimed: number
  freed: number
  mask: number
  capacity: number
  arenaUsed: number
  arenaDoubles: number
  arenaNext: number
  taken: Int32Array
}

interface ConsumerParts {
  cells: Cells
  seen: number
  taken: number
  released: number
}

function parts(ring: RingProducer): ProducerParts {
  return ring as unknown as ProducerParts
}

function consumerParts(ring: RingConsumer): ConsumerParts {
  return ring as unknown as ConsumerParts
}

class PublishesBeforeWriting extends RingProducer {
  override push(record: RawRecord): boolean {
    const word = this.claim(record.list.length)
    if (word < 0) return false
    this.publish()
    const { list } = record
    for (let i = 0; i < list.length; i++) this.arena[this.listOffset + i] = list.doubles[i] as number
    this.words[word + RECORD_KIND_WORD] = record.kind
    this.words[word + RECORD_TAG_WORD] = record.tag
    for (const [i, value] of record.fields.entries()) this.doubles[(word >> 1) + RECORD_FIELD_DOUBLE + i] = value
    this.words[word + RECORD_LIST_OFFSET_WORD] = this.listOffset
    this.words[word + RECORD_LIST_LENGTH_WORD] = list.length
    return true
  }
}

/** A waker that can be asked in two steps. */
class TwoStepWaker extends PeerWaker {
  looksParked(): boolean {
    const { cells, index } = this as unknown as { cells: Cells; index: number }
    return cells.load(index) !== RUN
  }
}

class TestsWordBeforePublishing extends RingProducer {
  override publish(): void {
    const self = parts(this)
    if (self.published === self.claimed) return
    const parked = (self.consumer as TwoStepWaker).looksParked()
    self.published = self.claimed
    self.cells.store(TAIL_WORD, self.published)
    if (parked) self.consumer.wakeIfParked()
  }
}

class FullTestOffByOne extends RingProducer {}
Object.defineProperty(FullTestOffByOne.prototype, 'fits', {
  value(this: RingProducer, listDoubles: number): boolean {
    const self = parts(this)
    if (((self.claimed - self.freed) | 0) > self.capacity) return false
    const toEnd = self.arenaDoubles - self.arenaNext
    return self.arenaUsed + (listDoubles <= toEnd ? listDoubles : toEnd + listDoubles) <= self.arenaDoubles
  },
})

class FreesArenaEarly extends RingProducer {
  override claim(listDoubles: number): number {
    const word = super.claim(listDoubles)
    const self = parts(this)
    if (word >= 0 || ((self.claimed - self.freed) | 0) >= self.capacity) return word
    const oldest = self.freed & self.mask
    self.arenaUsed -= self.taken[oldest] as number
    self.taken[oldest] = 0
    return super.claim(listDoubles)
  }
}

class SleepsForRoomWithoutLooking extends RingProducer {
  override stalled(): boolean {
    parts(this).cells.store(SPACE_WANTED_WORD, 1)
    return true
  }
}

class LooksBeforeAskingForRoom extends RingProducer {
  override stalled(): boolean {
    const self = parts(this)
    const unchanged = self.cells.load(HEAD_WORD) === self.freed
    self.cells.store(SPACE_WANTED_WORD, 1)
    return unchanged
  }
}

class ReleasesBeforeReading extends RingConsumer {
  override take(record: RawRecord): boolean {
    const self = consumerParts(this)
    if (this.peek() < 0) return false
    self.cells.store(HEAD_WORD, (self.taken + 1) | 0)
    return super.take(record)
  }
}

class ComparesCountersByOrder extends RingConsumer {
  override empty(): boolean {
    const self = consumerParts(this)
    self.seen = self.cells.load(TAIL_WORD)
    return self.seen <= self.taken
  }
}

/** A twin and what is wrong with it. */
export interface Planted {
  readonly name: string
  readonly protocol: Protocol
}

export const PLANTED: readonly Planted[] = [
  { name: 'publish before write', protocol: { ...PRODUCTION, Producer: PublishesBeforeWriting } },
  {
    name: 'no re-check after setting the park word',
    protocol: {
      ...PRODUCTION,
      parkInJs: (cells, index) => {
        cells.store(index, PARKED_JS)
        cells.wait(index, PARKED_JS, Number.POSITIVE_INFINITY)
        cells.store(index, RUN)
      },
    },
  },
  {
    name: 'look for work, then set the park word',
    protocol: {
      ...PRODUCTION,
      parkInJs: (cells, index, idle) => {
        if (!idle()) return
        cells.store(index, PARKED_JS)
        cells.wait(index, PARKED_JS, Number.POSITIVE_INFINITY)
        cells.store(index, RUN)
      },
    },
  },
  {
    name: 'sleep without compare',
    protocol: {
      ...PRODUCTION,
      parkInJs: (cells, index, idle, _, world, place) => {
        cells.store(index, PARKED_JS)
        if (idle()) world.sleepAnyhow(place)
        cells.store(index, RUN)
      },
    },
  },
  {
    name: 'test the park word before publishing',
    protocol: { ...PRODUCTION, Producer: TestsWordBeforePublishing, Waker: TwoStepWaker },
  },
  { name: 'full test off by one', protocol: { ...PRODUCTION, Producer: FullTestOffByOne } },
  { name: 'arena freed one record early', protocol: { ...PRODUCTION, Producer: FreesArenaEarly } },
  { name: 'sleep for room without looking again', protocol: { ...PRODUCTION, Producer: SleepsForRoomWithoutLooking } },
  { name: 'look for room before asking for it', protocol: { ...PRODUCTION, Producer: LooksBeforeAskingForRoom } },
  { name: 'release before reading', protocol: { ...PRODUCTION, Consumer: ReleasesBeforeReading } },
  { name: 'counters compared by order', protocol: { ...PRODUCTION, Consumer: ComparesCountersByOrder } },
]
