import { Operations } from '../../src/client/operations.js'
import type { Context } from '../../src/manager/context.js'
import { newSession, type Operation, type Session } from '../../src/manager/sessions/session.js'
import { checkSlot, occupySlot, releaseSlot } from '../../src/manager/sessions/slots.js'
import { ClosedError } from '../../src/shared/base/errors.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { isTerminal, slotGeneration, slotStateOf, slotWord } from '../../src/shared/layout/wire/slots.js'
import type { Cells } from '../../src/shared/rings/cells.js'
import { type Finisher, finishInAddon, LINE, linesOver, pollInAddon, type Read, type Reader } from './slot-lines.js'
import { AWAKE, type Endings, type Party, World } from './world.js'

/**
 * The slot table of one session, walked: a client, the Manager's own thread and a lane, over the two slot files, a
 * socket, two rings (here one word a message: what rings do is walked elsewhere), eventfds and pidfds. What runs is
 * production's `Operations` of the client and production's verbs of a slot in the Manager; the addon's and Python's
 * lines are modelled in slot-lines.ts. Of the rest of the Manager a job is: copy into the page, finish, report.
 *
 * Checked at every step: a payload is believed only with the word of its generation; a line is used again only after
 * its operation has ended; a lane touches a page only while its operation owns it and it is mapped; nothing that the
 * client may rely on is refused; who outlives the other settles everything.
 */

/** The code under exploration, or a piece of it replaced by a broken twin. */
export interface SlotProtocol {
  readonly read: Reader
  readonly finish: Finisher
  readonly Operations: typeof Operations
  readonly checkSlot: typeof checkSlot
  /** The client sleeps on its eventfd and on the Manager's pidfd. */
  readonly watchesManager: boolean
  /** The Manager keeps a dead client's memory until the last lane has ended. */
  readonly drains: boolean
}

export const SHIPPED: SlotProtocol = {
  read: pollInAddon,
  finish: finishInAddon,
  Operations,
  checkSlot,
  watchesManager: true,
  drains: true,
}

/** What is walked. */
export interface SlotScenario {
  readonly name: string
  readonly slots: number
  readonly operations: number
  /** Client or Manager may die before any of its operations. */
  readonly deaths: boolean
  /** The eventfd is written at each end, or never: it is only a hint. */
  readonly hints: 'sent' | 'dropped'
}

const TURN_SUBMIT = 0
const TURN_LOOK = 1
const TURN_SLEEP = 2
const TURN_ABANDON = 3
const GONE = new ClosedError('manager_gone', 'planted: the Manager has ended')
const MESSAGE_SLOTS = 64

const bytesOf = (slot: number, generation: number): number => generation * 16 + slot + 1

/** Where everything lies. */
class Places {
  readonly client = 0
  readonly manager: number
  readonly socket: number
  readonly jobs: number
  readonly reports: number
  readonly pages: number
  readonly clientEvent: number
  readonly managerEvent: number
  readonly laneEvent: number
  readonly clientPidfd: number
  readonly managerPidfd: number
  /** For checks alone: whether the client's memory is mapped, and which generation owns each slot's page. */
  readonly mapped: number
  readonly owners: number
  readonly count: number

  constructor({ slots, operations }: SlotScenario) {
    this.manager = slots * LINE
    this.socket = 2 * slots * LINE
    this.jobs = this.socket + operations
    this.reports = this.jobs + operations
    this.pages = this.reports + operations
    this.clientEvent = this.pages + slots
    this.managerEvent = this.clientEvent + 1
    this.laneEvent = this.clientEvent + 2
    this.clientPidfd = this.clientEvent + 3
    this.managerPidfd = this.clientEvent + 4
    this.mapped = this.clientEvent + 5
    this.owners = this.clientEvent + 6
    this.count = this.owners + slots
  }
}

/** What the parties share. */
interface Stage {
  readonly scenario: SlotScenario
  readonly protocol: SlotProtocol
  readonly world: World
  readonly at: Places
  cells(base: number): Cells
}

/** Builds the memory and the parties of a scenario. */
export function buildSlots(scenario: SlotScenario, protocol: SlotProtocol) {
  const at = new Places(scenario)
  const world = new World(at.count, 'access')
  world.poke(at.mapped, 1)
  const stage: Stage = { scenario, protocol, world, at, cells: (base) => world.cells((index) => base + index) }
  const client = clientOf(stage)
  const manager = managerOf(stage)
  return { world, parties: [client, manager, laneOf(stage)], endings: endingsOf(stage, client.own, manager.own) }
}

function endingsOf({ scenario, at }: Stage, client: { over: number }, manager: { over: number }): Endings {
  return {
    processes: scenario.deaths
      ? [
          { name: 'the client', parties: [0], pidfd: at.clientPidfd },
          { name: 'the Manager', parties: [1, 2], pidfd: at.managerPidfd },
        ]
      : [],
    deathsMax: 1,
    expiriesMax: scenario.hints === 'dropped' ? scenario.operations + 1 : 0,
    hintsOnly: scenario.hints === 'dropped',
    undone: (dead) => {
      if (dead[0] === true) return manager.over === 0 ? 'memory of a dead client stays mapped' : null
      return client.over === 1 ? null : 'operations of the client wait'
    },
    trespass: () => null,
  }
}

function clientOf({ scenario, protocol, world, at, cells }: Stage): Party & { own: { over: number } } {
  const { slots, operations } = scenario
  const socket = cells(at.socket)
  const pidfd = cells(at.managerPidfd)
  const managerLines = cells(at.manager)
  const own = {
    turn: TURN_SUBMIT,
    sent: 0,
    ended: 0,
    over: 0,
    opIds: new Int32Array(slots),
    generations: new Int32Array(slots),
    /** 1 for a submission, 2 + slot for an end: enough to build Operations again, which keeps its fields to itself. */
    history: new Int32Array(2 * operations),
  }
  const note = (event: number): void => {
    own.history[own.history.indexOf(0)] = event
  }
  const build = (): Operations => {
    let muted = true
    let last: { slot: number; read: Read } | null = null
    const real = linesOver(
      cells(at.client),
      (slot) => {
        const expected = { generation: own.generations[slot] as number, opId: own.opIds[slot] as number }
        const read = protocol.read(managerLines, slot, expected, (count) => world.choose(count))
        last = read === null ? null : { slot, read }
        return read
      },
      (slot, generation) => freed(slot, generation, last),
    )
    const operating = new protocol.Operations(
      {
        submit: (slot, generation, opId, fence) => {
          if (muted) return
          world.aside(() => used(slot, generation))
          own.opIds[slot] = opId
          own.generations[slot] = generation
          real.submit(slot, generation, opId, fence)
        },
        raiseFence: real.raiseFence,
        free: (slot, generation) => {
          if (!muted) real.free(slot, generation)
        },
        poll: real.poll,
        close: real.close,
      },
      slots,
    )
    const running = new Map<number, ReturnType<Operations['submit']>>()
    for (const event of own.history) {
      if (event === 0) break
      if (event === 1) {
        const operation = operating.submit(0)
        running.set(operation.slot, operation)
      } else operating.refuse(running.get(event - 2) as ReturnType<Operations['submit']>, GONE)
    }
    muted = false
    return operating
  }
  /** A line is about to be used again. */
  const used = (slot: number, generation: number): void => {
    const before = world.peek(at.manager + slot * LINE)
    const ended = generation === 1 || (slotGeneration(before) === generation - 1 && isTerminal(slotStateOf(before)))
    if (!ended) throw new Error(`line ${slot} is used again before its operation of generation ${generation - 1} ended`)
    world.poke(at.owners + slot, generation)
  }
  /** A line was given back, because of the last read or without one. */
  const freed = (slot: number, generation: number, last: { slot: number; read: Read } | null): void => {
    note(2 + slot)
    own.ended++
    const told = last?.slot === slot && slotGeneration(last.read.word) === generation
    if (told && isTerminal(slotStateOf(last.read.word))) {
      const { opId, bytes } = last.read
      if (opId === own.opIds[slot] && bytes === bytesOf(slot, generation)) return
      throw new Error(`a torn payload was believed: generation ${generation}, op id ${opId}, ${bytes} bytes`)
    }
    world.aside(() => {
      const word = world.peek(at.manager + slot * LINE)
      if (world.peek(at.managerPidfd) === 0) throw new Error(`line ${slot} is given back before its operation ended`)
      const ended = slotGeneration(word) === generation && isTerminal(slotStateOf(word))
      if (ended) throw new Error('an operation that had ended is told as failed with the Manager')
    })
  }
  const turn = (): boolean => {
    const operating = build()
    const room = own.sent < operations && operating.outstanding < slots
    if (own.turn === TURN_SUBMIT && room) {
      const { slot, generation } = operating.submit(own.sent + 1)
      note(1)
      socket.store(own.sent, slot * MESSAGE_SLOTS + generation)
      world.signal(at.managerEvent)
      own.sent++
      own.turn = own.sent < operations && operating.outstanding < slots ? TURN_SUBMIT : TURN_LOOK
    } else if (own.turn === TURN_LOOK) {
      const came = operating.poll()
      const again = own.sent < operations && operating.outstanding < slots
      own.turn = again ? TURN_SUBMIT : came ? TURN_LOOK : TURN_SLEEP
    } else if (own.turn === TURN_ABANDON) {
      operating.abandon(GONE)
      own.over = 1
    } else {
      world.awaitSignal(at.clientEvent, protocol.watchesManager ? { pidfd: at.managerPidfd } : {})
      own.turn = protocol.watchesManager && pidfd.load(0) === 1 ? TURN_ABANDON : TURN_LOOK
    }
    if (own.ended === operations) own.over = 1
    return own.over === 0
  }
  return { name: 'client', memory: [own], turn, own }
}

function managerOf({ scenario, protocol, world, at, cells }: Stage): Party & { own: { over: number } } {
  const { slots, operations } = scenario
  const lines = cells(at.manager)
  const own = {
    turn: TURN_SUBMIT,
    taken: 0,
    leaving: 0,
    over: 0,
    /** By operation: slot and generation, and whether its reply is still out. */
    slotOf: new Int32Array(operations),
    generationOf: new Int32Array(operations),
    open: new Int32Array(operations),
    /** By slot: the generation used last, and 1 + the operation that has it. */
    used: new Int32Array(slots),
    holder: new Int32Array(slots),
  }
  const context = {
    out: [],
    ports: { slotWord: (_: number, slot: number) => lines.load(slot * LINE) },
    // `settle` has nothing to do: releasing the memory is this party's turn.
    sessions: { has: () => false },
  } as unknown as Context
  /** The session as production keeps it, built from what the party remembers. */
  const build = (): { session: Session; known: Operation[] } => {
    const session = newSession(1, 1, 1)
    session.hold = { slotTable: { slots: 1 } } as unknown as Session['hold']
    session.phase = own.leaving === 1 ? 'leaving' : 'bound'
    const known = Array.from(own.open, (_, index): Operation => {
      const slotGeneration = own.generationOf[index] as number
      return { session, slot: own.slotOf[index] as number, slotGeneration, cancel: () => {} }
    })
    for (const [index, operation] of known.entries()) if (own.open[index] === 1) session.operations.add(operation)
    for (let slot = 0; slot < slots; slot++) {
      const operation = known[(own.holder[slot] as number) - 1] ?? null
      session.slots.push({ generation: own.used[slot] as number, operation })
    }
    return { session, known }
  }
  const save = (session: Session, known: readonly Operation[]): void => {
    for (const [index, operation] of known.entries()) own.open[index] = session.operations.has(operation) ? 1 : 0
    for (const [slot, { generation, operation }] of session.slots.entries()) {
      own.used[slot] = generation
      own.holder[slot] = operation === null ? 0 : known.indexOf(operation) + 1
    }
  }
  const admit = (message: number): void => {
    const slot = Math.floor(message / MESSAGE_SLOTS)
    const generation = message % MESSAGE_SLOTS
    const index = own.taken
    own.slotOf[index] = slot
    own.generationOf[index] = generation
    const { session, known } = build()
    const refusal = protocol.checkSlot(context, session, slot, generation)
    if (refusal !== null) throw new Error(`a request within its rights is refused: ${refusal.message}`)
    occupySlot(context, known[index] as Operation)
    for (const effect of context.out.splice(0)) {
      if (effect.kind !== 'slot-state') throw new Error(`unexpected ${effect.kind}`)
      lines.store(effect.slot * LINE, slotWord(effect.generation, effect.state))
    }
    save(session, known)
    cells(at.jobs).store(index, message)
    world.signal(at.laneEvent)
    own.taken++
  }
  const collect = (): boolean => {
    const index = own.open.indexOf(1)
    if (index < 0 || cells(at.reports).load(index) === 0) return false
    const { session, known } = build()
    releaseSlot(context, known[index] as Operation)
    save(session, known)
    return true
  }
  const turn = (): boolean => {
    if (own.turn === TURN_SUBMIT) {
      const message = own.leaving === 0 && own.taken < operations ? cells(at.socket).load(own.taken) : 0
      if (message !== 0) admit(message)
      else own.turn = TURN_LOOK
    } else if (own.turn === TURN_LOOK) {
      if (!collect()) own.turn = TURN_SLEEP
    } else {
      world.awaitSignal(at.managerEvent, own.leaving === 1 ? {} : { pidfd: at.clientPidfd })
      if (cells(at.clientPidfd).load(0) === 1) own.leaving = 1
      own.turn = TURN_SUBMIT
    }
    const idle = !own.open.includes(1)
    if (own.leaving === 1 && (idle || !protocol.drains)) {
      // Releasing the rank unmaps its memory.
      cells(at.mapped).store(0, 0)
      own.over = 1
    } else if (idle && own.taken === operations && own.turn === TURN_LOOK) own.over = 1
    return own.over === 0
  }
  return { name: 'manager', memory: [own], turn, own }
}

function laneOf({ scenario, protocol, world, at, cells }: Stage): Party {
  const own = { turn: TURN_SUBMIT, done: 0, job: 0 }
  const turn = (): boolean => {
    const slot = Math.floor(own.job / MESSAGE_SLOTS)
    const generation = own.job % MESSAGE_SLOTS
    if (own.turn === TURN_SUBMIT) {
      own.job = cells(at.jobs).load(own.done)
      own.turn = own.job === 0 ? TURN_SLEEP : TURN_LOOK
    } else if (own.turn === TURN_SLEEP) {
      world.awaitSignal(at.laneEvent)
      own.turn = TURN_SUBMIT
    } else if (own.turn === TURN_LOOK) {
      world.aside(() => {
        if (world.peek(at.mapped) === 0) throw new Error('a page is touched that is not mapped any more')
        const owner = world.peek(at.owners + slot)
        if (owner !== generation) throw new Error(`a page of generation ${owner} is touched for ${generation}`)
      })
      cells(at.pages).store(slot, generation)
      own.turn = TURN_ABANDON
    } else {
      const hint = (): void => {
        if (scenario.hints === 'sent') world.signal(at.clientEvent)
      }
      const word = slotWord(generation, SLOT_STATE.done)
      protocol.finish(cells(at.client), cells(at.manager), slot, word, bytesOf(slot, generation), hint)
      cells(at.reports).store(own.done, 1)
      world.signal(at.managerEvent)
      own.done++
      own.job = 0
      own.turn = TURN_SUBMIT
    }
    return own.done < scenario.operations
  }
  return { name: 'lane', memory: [own], turn }
}

/**
 * A line alone: its writer finishes one generation after the other without waiting for anybody, while a reader polls.
 * No client of ours reads like that; that it would be safe is what slot_table.h says.
 */
export function buildLine(generations: number, looks: number, { read, finish }: SlotProtocol) {
  const world = new World(2 * LINE, 'access')
  const client = world.cells((index) => index)
  const manager = world.cells((index) => LINE + index)
  const writing = { generation: 1 }
  const writer: Party = {
    name: 'writer',
    memory: [writing],
    turn: () => {
      const { generation } = writing
      client.store(1, generation)
      manager.store(0, slotWord(generation, SLOT_STATE.running))
      finish(client, manager, 0, slotWord(generation, SLOT_STATE.done), bytesOf(0, generation), () => {})
      writing.generation++
      return writing.generation <= generations
    },
  }
  const reading = { looks: 0 }
  const reader: Party = {
    name: 'reader',
    memory: [reading],
    turn: () => {
      const generation = world.choose(generations) + 1
      const seen = read(manager, 0, { generation, opId: generation }, (count) => world.choose(count))
      if (seen !== null && isTerminal(slotStateOf(seen.word))) believe(seen)
      reading.looks++
      return reading.looks < looks
    },
  }
  const endings: Endings = {
    processes: [{ name: 'the writer', parties: [0], pidfd: AWAKE }],
    deathsMax: 1,
    expiriesMax: 0,
    hintsOnly: false,
    undone: () => null,
    trespass: () => null,
  }
  return { world, parties: [writer, reader], endings }
}

/** Here op ids are generations. */
function believe({ word, opId, bytes }: Read): void {
  const generation = slotGeneration(word)
  if (opId === generation && bytes === bytesOf(0, generation)) return
  throw new Error(`a torn payload was believed: generation ${generation}, op id ${opId}, ${bytes} bytes`)
}
