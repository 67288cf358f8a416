import { RECORD_KIND_WORD } from '../../src/shared/layout/records.js'
import type { Cells } from '../../src/shared/rings/cells.js'
import { PARKED_JS, RUN, type Waker } from '../../src/shared/rings/park.js'
import { LIFE_WORD, RECORDS_WORD, RingConsumer, RingProducer, TAIL_WORD } from '../../src/shared/rings/ring.js'
import type { Planted } from './planted.js'
import { PRODUCTION, type Protocol } from './scenario.js'

/**
 * Broken twins that are right as long as nobody dies. Each must be caught by a walk with deaths, and by none without:
 * otherwise it would say nothing about deaths.
 */

interface ProducerParts {
  cells: Cells
  consumer: Waker
  published: number
  claimed: number
  freed: number
}

interface ConsumerParts {
  cells: Cells
  seen: number
  taken: number
  mask: number
}

/** A word of the ring that both ends see; here it is taken for a lock. */
const LOCK_WORD = LIFE_WORD + 32
const UNLOCKED = 1
const LOCKED = 2

class LocksWhilePublishing extends RingProducer {
  override publish(): void {
    const self = this as unknown as ProducerParts
    if (self.published === self.claimed) return
    self.published = self.claimed
    self.cells.store(LOCK_WORD, LOCKED)
    self.cells.store(TAIL_WORD, self.published)
    self.cells.store(LOCK_WORD, UNLOCKED)
    self.consumer.wakeIfParked()
  }
}

class RespectsTheLock extends RingConsumer {
  override empty(): boolean {
    return (this as unknown as ConsumerParts).cells.load(LOCK_WORD) === LOCKED || super.empty()
  }
}

/** Production's park, which also tells how the sleep ended. */
const parkAndTell: Protocol['parkInJs'] = (cells, index, idle, timeoutMs) => {
  cells.store(index, PARKED_JS)
  const outcome = idle() ? cells.wait(index, PARKED_JS, timeoutMs) : 'not-equal'
  cells.store(index, RUN)
  return outcome
}

export const CRASH_PLANTED: readonly Planted[] = [
  {
    name: 'sleep without a bound',
    protocol: {
      ...PRODUCTION,
      parkInJs: (cells, index, idle) => {
        cells.store(index, PARKED_JS)
        if (idle()) cells.wait(index, PARKED_JS, Number.POSITIVE_INFINITY)
        cells.store(index, RUN)
      },
    },
  },
  {
    name: 'a lock word around publishing',
    protocol: { ...PRODUCTION, Producer: LocksWhilePublishing, Consumer: RespectsTheLock },
  },
  {
    name: 'a time-out frees the oldest record',
    protocol: {
      ...PRODUCTION,
      parkInJs: parkAndTell,
      afterTimeout: (ring) => {
        if (ring instanceof RingProducer) (ring as unknown as ProducerParts).freed++
      },
    },
  },
  {
    name: 'a time-out takes what a silent producer wrote',
    protocol: {
      ...PRODUCTION,
      parkInJs: parkAndTell,
      afterTimeout: (ring) => {
        if (ring instanceof RingProducer) return
        const self = ring as unknown as ConsumerParts
        const word = RECORDS_WORD + (self.taken & self.mask) * 16
        if (self.seen === self.taken && ring.words[word + RECORD_KIND_WORD] !== 0) self.seen = (self.seen + 1) | 0
      },
    },
  },
  {
    name: 'the seat of the dead is given away',
    protocol: { ...PRODUCTION, bury: (cells, endWord) => cells.store(endWord, 0) },
  },
]
