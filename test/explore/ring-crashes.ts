import { InvariantError } from '../../src/shared/base/errors.js'
import {
  RECORD_DOUBLES,
  RECORD_LIST_LENGTH_WORD,
  RECORD_LIST_OFFSET_WORD,
  RECORD_WORDS,
} from '../../src/shared/layout/records.js'
import type { Waker } from '../../src/shared/rings/park.js'
import { HEAD_WORD, LIFE_WORD, type RingProducer, type RingViews } from '../../src/shared/rings/ring.js'
import { type Protocol, recordOf, type Scenario } from './scenario.js'
import { AWAKE, type Endings, type Party, type World } from './world.js'

/**
 * What must hold once an end of a ring has died:
 *
 *   - what was published arrives, what was not never does, and then the consumer parks;
 *   - a producer goes on until the ring is full, and then parks;
 *   - no record or list between head and tail is written again: the addon may still read them for the dead consumer;
 *   - nobody else gets the seat of the dead.
 *
 * A death between a store and its wake-up loses that wake-up, so the sleeper may need the bound of one sleep.
 */
const EXPIRIES_MAX = 1
/** Control words of the world stand side by side; see viewsAt in scenario.ts. */
const HEAD_PLACE = 1
const PRODUCER_WORD = LIFE_WORD + HEAD_WORD
const CONSUMER_WORD = PRODUCER_WORD + HEAD_WORD

/** What a producer party remembers. */
export interface Sending {
  readonly sent: number
  readonly unpublished: number
}

/** A ring and where it lies in the world. */
export interface RingUnderTest {
  /** Place of tail; head follows. */
  readonly base: number
  readonly wordsPlace: number
  readonly doublesPlace: number
  readonly views: RingViews
  readonly producer: RingProducer
  readonly sending: Sending
}

/** What may die in a scenario, and what must hold then. */
export function crashesOf(
  scenario: Scenario,
  world: World,
  rings: readonly RingUnderTest[],
  received: Int32Array,
  pidfd: number,
): Endings {
  const consumer = rings.length
  const { firstCount, records } = scenario
  const count = (place: number): number => (world.peek(place) - firstCount) | 0
  const mortal = (index: number): boolean => {
    if (scenario.deaths === 'anybody') return index <= consumer
    return scenario.deaths === 'producer, with an heir' ? index === 0 : index === consumer
  }
  const undoneOf = ({ base, sending, producer }: RingUnderTest, index: number, dead: readonly boolean[]) => {
    const tail = count(base)
    if (dead[consumer] !== true && (received[index] as number) < tail) {
      return `${tail - (received[index] as number)} published records of ring ${index} wait`
    }
    if (dead[index] === true || (sending.sent === records && sending.unpublished === 0)) return null
    if (dead[consumer] !== true) return `producer ${index} waits for a consumer that lives`
    const { freed } = producer as unknown as { readonly freed: number }
    return freed === world.peek(base + HEAD_PLACE) ? null : `producer ${index} waits although there is room`
  }
  return {
    processes: Array.from({ length: consumer + 1 }, (_, index) => index)
      .filter(mortal)
      .map((index) => ({
        name: index === consumer ? 'consumer' : `producer ${index}`,
        parties: [index],
        pidfd: scenario.deaths === 'anybody' ? AWAKE : pidfd,
      })),
    deathsMax: 1,
    expiriesMax: EXPIRIES_MAX,
    hintsOnly: false,
    undone: (dead) => rings.map((ring, index) => undoneOf(ring, index, dead)).find((why) => why !== null) ?? null,
    trespass: (party, place, dead) => {
      const ring = rings[party]
      if (ring === undefined || dead[consumer] !== true) return null
      return ownedByConsumer(world, ring, place) ? 'a descriptor of the dead consumer is recycled' : null
    },
  }
}

/** True when `place` belongs to a record, or the list of a record, that is published and not released. */
function ownedByConsumer(
  world: World,
  { base, wordsPlace, doublesPlace, views }: RingUnderTest,
  place: number,
): boolean {
  const { capacity } = views
  const arenaPlace = doublesPlace + capacity * RECORD_DOUBLES
  for (let at = world.peek(base + HEAD_PLACE); at !== world.peek(base); at = (at + 1) | 0) {
    const slot = at & (capacity - 1)
    const words = wordsPlace + slot * RECORD_WORDS
    const doubles = doublesPlace + slot * RECORD_DOUBLES
    const list = arenaPlace + world.peek(words + RECORD_LIST_OFFSET_WORD)
    const inside = (start: number, length: number): boolean => place >= start && place < start + length
    if (inside(words, RECORD_WORDS) || inside(doubles, RECORD_DOUBLES)) return true
    if (inside(list, world.peek(words + RECORD_LIST_LENGTH_WORD))) return true
  }
  return false
}

/** Waits until the first producer, or the consumer, has died, then tries to take its seat. Nobody may let it. */
export function heir(
  scenario: Scenario,
  protocol: Protocol,
  world: World,
  { views }: RingUnderTest,
  wakers: { readonly ofConsumer: Waker; readonly ofProducer: Waker },
  pidfd: number,
): Party {
  const ofProducer = scenario.deaths === 'producer, with an heir'
  const turn = (): boolean => {
    world.awaitSignal(pidfd, { bounded: false })
    protocol.bury(views.cells, ofProducer ? PRODUCER_WORD : CONSUMER_WORD)
    try {
      if (ofProducer) {
        const ring = new protocol.Producer(views, wakers.ofConsumer)
        ring.push(recordOf(0, 0))
        ring.publish()
      } else {
        new protocol.Consumer(views, wakers.ofProducer)
        throw new Error('records that the dead consumer may have acted upon are taken again')
      }
    } catch (refused) {
      if (!(refused instanceof InvariantError)) throw refused
    }
    return false
  }
  return { name: 'heir', memory: [], mourns: true, turn }
}
