import { JS_PARK_MS_MAX } from '../../src/actors/runtime/loop.js'
import { type RawRecord, RECORD_DOUBLES, RECORD_FIELDS, RECORD_WORDS } from '../../src/shared/layout/records.js'
import type { Cells } from '../../src/shared/rings/cells.js'
import { rawRecord } from '../../src/shared/rings/codec.js'
import { PARKED_NATIVE, PeerWaker, parkInJs, parkNatively, RUN } from '../../src/shared/rings/park.js'
import {
  HEAD_WORD,
  LIFE_WORD,
  POISONED,
  RECORDS_WORD,
  RingConsumer,
  RingProducer,
  type RingViews,
  TAIL_WORD,
} from '../../src/shared/rings/ring.js'
import { crashesOf, heir, type RingUnderTest, type Sending } from './ring-crashes.js'
import { type Endings, type Grain, type Party, World } from './world.js'

/** The code under exploration: production's, or one piece of it replaced by a broken twin. */
export interface Protocol {
  readonly Producer: typeof RingProducer
  readonly Consumer: typeof RingConsumer
  readonly Waker: typeof PeerWaker
  /** The last two are for a twin that sleeps by other means than cells. */
  readonly parkInJs: (
    cells: Cells,
    index: number,
    idle: () => boolean,
    timeoutMs: number,
    world: World,
    place: number,
  ) => unknown
  readonly parkNatively: typeof parkNatively
  /** What main does to a ring once an end of it has died. */
  readonly bury: (cells: Cells, endWord: number) => void
  /** For a twin that concludes something from a sleep that ran out. */
  readonly afterTimeout?: (ring: RingProducer | RingConsumer) => void
}

export const PRODUCTION: Protocol = {
  Producer: RingProducer,
  Consumer: RingConsumer,
  Waker: PeerWaker,
  parkInJs,
  parkNatively,
  // As poisonRing does, over the views of the exploration.
  bury: (cells) => cells.store(LIFE_WORD, POISONED),
}

/** What is walked: who sends how much through what. */
export interface Scenario {
  readonly name: string
  readonly capacity: number
  readonly arenaDoubles: number
  /** Rings into the one consumer, each with a producer of its own. */
  readonly producers: number
  readonly records: number
  /** List length of record `serial`. */
  readonly listLength: (serial: number) => number
  /** Where head and tail start: near the end of int32 they wrap on the way. */
  readonly firstCount: number
  readonly parks: 'js' | 'native'
  /** Whether both ends may gather several records before they publish or release. */
  readonly batches: boolean
  readonly grain: Grain
  /** Who may die, before any of its operations; in the last two another takes its seat. */
  readonly deaths: 'nobody' | 'anybody' | 'producer, with an heir' | 'consumer, with an heir'
}

const LINE_WORDS = HEAD_WORD
const CONTROL_WORDS = RECORDS_WORD / LINE_WORDS
const TURN_PUSH = 0
const TURN_PUBLISH = 1
const TURN_PARK = 2
const TURN_TAKE = 3
const TURN_RELEASE = 4

/** An actor's park word and its eventfd. */
interface Bed {
  readonly cells: Cells
  readonly place: number
  readonly eventPlace: number
}

/** A scenario ready to be walked. */
export interface Built {
  readonly world: World
  readonly parties: readonly Party[]
  readonly endings: Endings | null
}

/** Builds the memory and the parties of a scenario; walk them with `world.explore(parties, max, endings)`. */
export function build(scenario: Scenario, protocol: Protocol): Built {
  const { capacity, arenaDoubles, producers } = scenario
  const words = CONTROL_WORDS + capacity * RECORD_WORDS
  const ringPlaces = words + capacity * RECORD_DOUBLES + arenaDoubles
  const pidfd = (producers + 1) * 2 + producers * ringPlaces
  const world = new World(pidfd + 1, scenario.grain)
  const bedOf = (actor: number): Bed => ({
    cells: world.cells((index) => actor * 2 + index),
    place: actor * 2,
    eventPlace: actor * 2 + 1,
  })
  const wakerOf = (bed: Bed): PeerWaker => new protocol.Waker(bed.cells, 0, () => world.signal(bed.eventPlace))
  const consumerBed = bedOf(producers)
  const parties: Party[] = []
  const ends: RingConsumer[] = []
  const rings: RingUnderTest[] = []
  for (let index = 0; index < producers; index++) {
    const base = (producers + 1) * 2 + index * ringPlaces
    const views = viewsAt(world, base, words, scenario)
    views.cells.store(TAIL_WORD, scenario.firstCount)
    views.cells.store(HEAD_WORD, scenario.firstCount)
    const bed = bedOf(index)
    const producer = new protocol.Producer(views, wakerOf(consumerBed))
    const { party, own } = sender(`producer ${index}`, scenario, protocol, world, producer, bed)
    parties.push(party)
    ends.push(new protocol.Consumer(views, wakerOf(bed)))
    rings.push({ base, wordsPlace: base + CONTROL_WORDS, doublesPlace: base + words, views, producer, sending: own })
  }
  const published = (index: number): number => {
    const ring = rings[index] as RingUnderTest
    return (world.peek(ring.base) - scenario.firstCount) | 0
  }
  const { party, own } = receiver(scenario, protocol, world, ends, consumerBed, published)
  parties.push(party)
  if (scenario.deaths === 'nobody') return { world, parties, endings: null }
  const endings = crashesOf(scenario, world, rings, own.received, pidfd)
  const first = rings[0] as RingUnderTest
  const wakers = { ofConsumer: wakerOf(consumerBed), ofProducer: wakerOf(bedOf(0)) }
  if (scenario.deaths !== 'anybody') parties.push(heir(scenario, protocol, world, first, wakers, pidfd))
  return { world, parties, endings }
}

/** Control words lie 128 bytes apart in production; here only those that exist get a place. */
function viewsAt(world: World, base: number, words: number, scenario: Scenario): RingViews {
  const wordPlace = (index: number): number =>
    base + (index < RECORDS_WORD ? index / LINE_WORDS : CONTROL_WORDS + index - RECORDS_WORD)
  const doublesBase = base + words
  const firstDouble = RECORDS_WORD / 2
  const arenaBase = doublesBase + scenario.capacity * RECORD_DOUBLES
  return {
    cells: world.cells(wordPlace),
    words: world.view<Int32Array>(wordPlace),
    doubles: world.view<Float64Array>((index) => doublesBase + index - firstDouble),
    arena: world.view<Float64Array>((index) => arenaBase + index),
    capacity: scenario.capacity,
    arenaDoubles: scenario.arenaDoubles,
  }
}

/** Sleeps as a lane does, in JavaScript or in the addon's port; true when a twin says that the sleep ran out. */
function sleep(scenario: Scenario, protocol: Protocol, world: World, bed: Bed, idle: () => boolean): boolean {
  if (scenario.parks === 'js') {
    return protocol.parkInJs(bed.cells, 0, idle, JS_PARK_MS_MAX, world, bed.place) === 'timed-out'
  }
  protocol.parkNatively(bed.cells, 0, idle, () => {
    if (bed.cells.load(0) === PARKED_NATIVE) world.awaitSignal(bed.eventPlace)
    return RUN
  })
  return false
}

function sender(
  name: string,
  scenario: Scenario,
  protocol: Protocol,
  world: World,
  ring: RingProducer,
  bed: Bed,
): { party: Party; own: Sending } {
  const own = { turn: TURN_PUSH, sent: 0, unpublished: 0, full: false }
  const push = (): void => {
    own.full = !ring.push(recordOf(own.sent, scenario.listLength(own.sent)))
    if (own.full) {
      own.turn = own.unpublished > 0 ? TURN_PUBLISH : TURN_PARK
      return
    }
    own.sent++
    own.unpublished++
    const more = scenario.batches && own.sent < scenario.records && world.choose(2) === 1
    own.turn = more ? TURN_PUSH : TURN_PUBLISH
  }
  const turn = (): boolean => {
    if (own.turn === TURN_PUSH) push()
    else if (own.turn === TURN_PUBLISH) {
      ring.publish()
      own.unpublished = 0
      own.turn = own.full ? TURN_PARK : TURN_PUSH
    } else {
      if (sleep(scenario, protocol, world, bed, () => ring.stalled())) protocol.afterTimeout?.(ring)
      own.turn = TURN_PUSH
    }
    return own.sent < scenario.records || own.unpublished > 0
  }
  return { party: { name, memory: [ring, own], turn }, own }
}

function receiver(
  scenario: Scenario,
  protocol: Protocol,
  world: World,
  rings: RingConsumer[],
  bed: Bed,
  published: (ring: number) => number,
): { party: Party; own: { readonly received: Int32Array } } {
  const own = {
    turn: TURN_TAKE,
    ring: 0,
    emptyInARow: 0,
    received: new Int32Array(rings.length),
    held: new Int32Array(rings.length),
    /** Where the list of each held record lies: [ring * capacity + position]. */
    heldOffset: new Int32Array(rings.length * scenario.capacity),
  }
  const ringNow = (): RingConsumer => rings[own.ring] as RingConsumer
  const received = (): number => own.received[own.ring] as number
  const held = (): number => own.held[own.ring] as number

  const take = (): void => {
    const record = rawRecord()
    if (ringNow().take(record)) {
      const serial = received()
      if (serial >= published(own.ring)) throw new Error(`record ${serial} was taken but never published`)
      check(record, serial, scenario.listLength(serial))
      own.heldOffset[own.ring * scenario.capacity + held()] = record.list.offset
      own.received[own.ring] = serial + 1
      own.held[own.ring] = held() + 1
      own.emptyInARow = 0
      const more = scenario.batches && held() < scenario.capacity && world.choose(2) === 1
      own.turn = more ? TURN_TAKE : TURN_RELEASE
      return
    }
    if (held() > 0) {
      own.turn = TURN_RELEASE
      return
    }
    own.emptyInARow++
    own.ring = (own.ring + 1) % rings.length
    own.turn = own.emptyInARow < rings.length ? TURN_TAKE : TURN_PARK
  }
  const release = (): void => {
    for (let position = 0; position < held(); position++) {
      const serial = received() - held() + position
      const offset = own.heldOffset[own.ring * scenario.capacity + position] as number
      checkList(ringNow().arena, offset, serial, scenario.listLength(serial))
    }
    ringNow().release()
    own.held[own.ring] = 0
    own.turn = TURN_TAKE
  }
  const turn = (): boolean => {
    if (own.turn === TURN_TAKE) take()
    else if (own.turn === TURN_RELEASE) release()
    else {
      const ranOut = sleep(scenario, protocol, world, bed, () => rings.every((ring) => ring.empty()))
      if (ranOut) for (const ring of rings) protocol.afterTimeout?.(ring)
      own.emptyInARow = 0
      own.turn = TURN_TAKE
    }
    const complete = own.received.every((count) => count === scenario.records)
    return !complete || own.held.some((count) => count > 0)
  }
  return { party: { name: 'consumer', memory: [...rings, own], turn }, own }
}

export function recordOf(serial: number, listLength: number): RawRecord {
  const record = rawRecord()
  record.kind = serial + 1
  record.tag = -serial - 1
  for (let i = 0; i < RECORD_FIELDS; i++) record.fields[i] = (serial + 1) * 16 + i
  const doubles = Float64Array.from({ length: listLength }, (_, i) => (serial + 1) * 256 + i)
  record.list = { doubles, offset: 0, length: listLength }
  return record
}

function check(record: RawRecord, serial: number, listLength: number): void {
  const expected = recordOf(serial, listLength)
  const same =
    record.kind === expected.kind &&
    record.tag === expected.tag &&
    record.list.length === listLength &&
    record.fields.every((value, i) => value === expected.fields[i])
  if (!same)
    throw new Error(`record ${serial} arrived torn, late or twice: ${JSON.stringify({ ...record, list: null })}`)
}

function checkList(arena: Float64Array, offset: number, serial: number, length: number): void {
  for (let i = 0; i < length; i++) {
    const is = arena[offset + i]
    if (is !== (serial + 1) * 256 + i) throw new Error(`the list of record ${serial} changed before its release: ${is}`)
  }
}
