import { ERROR_CODES, type ErrorCode } from '../../src/shared/base/errors.js'
import type { MessageOf, WireReply } from '../../src/shared/layout/wire/messages.js'
import type { Engine } from './engine.js'
import type { ManagerProcess } from './manager-process.js'
import type { Model } from './model.js'
import { Operation } from './operation.js'
import type { PageRef, RankPages } from './pages.js'
import type { Command } from './plan.js'
import { prepare, warm } from './preparing.js'
import { publish } from './publishing.js'
import { flood, probe as probeFlow, query } from './querying.js'
import { register } from './registering.js'
import { type ClientSession, expectReply, type SessionOwner } from './session.js'
import { trespass } from './trespassing.js'
import { must } from './violation.js'
import type { World } from './world.js'

/** Errors that an honest engine may meet at any time: others leave, time passes, the Manager drains. */
export const MEANWHILE = codes(
  'draining',
  'session_closed',
  'instance_unknown',
  'instance_not_sealed',
  'lease_unknown',
  'lease_expired',
  'ticket_unknown',
  'capacity_pool',
  'capacity_queue',
  'capacity_sessions',
)

export function codes(...names: ErrorCode[]): ReadonlySet<number> {
  return new Set(names.map((name) => ERROR_CODES[name]))
}

/** How often an engine looks at its slots when no hint comes. */
const POLL_US = 2_500

/** One rank of the process: its connection, memory and slots. */
export interface Rank {
  readonly number: number
  readonly session: ClientSession
  readonly pages: RankPages
  /** Slot table number once registered. */
  slots: number
  readonly generations: number[]
  /** The last generation of each slot that the Manager is known to have taken. */
  readonly taken: number[]
  readonly operations: (Operation | null)[]
}

/**
 * One engine process from its start to its death: registers every rank, runs commands, looks after its slots and pages.
 * It plays by the rules of the protocol, except where a command says otherwise.
 */
export class EngineProcess implements SessionOwner {
  readonly engine: Engine
  readonly world: World
  /** The Manager that it is connected to: its slots are shared with that one, for as long as it lives. */
  readonly manager: ManagerProcess
  readonly model: Model
  readonly pid: number
  readonly instanceId: Uint8Array
  readonly ranks: Rank[] = []
  scheduler: ClientSession | null = null
  state: 'starting' | 'up' | 'leaving' | 'dead' = 'starting'
  nextRequestId = 1
  nextVersion: number
  /** Flows that have not come to an end: queries, publications. */
  flows = 0
  registered = 0
  readonly #incarnation: number
  #polling = false
  #unregistering = 0

  constructor(engine: Engine, model: Model, incarnation: number) {
    this.engine = engine
    this.world = engine.world
    this.manager = engine.world.manager
    this.model = model
    this.pid = 100 + engine.number * 1000 + incarnation
    this.instanceId = new Uint8Array(16)
    this.#incarnation = incarnation
    this.identify(incarnation)
    this.nextVersion = this.pid * 4096
  }

  /** The instance that it says it is. */
  identify(incarnation: number): void {
    this.instanceId.fill(this.engine.number * 32 + (incarnation % 32) + 1)
  }

  get alive(): boolean {
    return this.state !== 'dead'
  }

  /** Its pages are on the CUDA device. */
  get onGpu(): boolean {
    const { backend, engines } = this.world.plan.gpu
    if (backend === 'none') return false
    return engines[this.engine.number] === true || (this.#pinned && this.#incarnation % 4 !== 1)
  }

  /** `--ssd-read-path cufile` does not reach its pages: it is refused, and comes back with pages that are reached. */
  get unreached(): boolean {
    return this.#pinned && !this.onGpu
  }

  get #pinned(): boolean {
    const { staging, routes } = this.manager.machine.context.options
    return staging.length > 0 && routes.readsPinned && routes.readRoute === 'cufile'
  }

  /** Nothing of what a query finds shall be in DRAM, so that its restore reads. */
  dropsBefore({ verb, b }: Command): boolean {
    return verb === 'query' && this.onGpu && this.world.plan.gpu.drops && b % 2 === 0
  }

  get up(): boolean {
    return this.state === 'up'
  }

  get quiet(): boolean {
    if (this.state === 'dead') return true
    return this.state !== 'leaving' && this.flows === 0 && this.#open === 0 && this.#outstanding === 0
  }

  get #open(): number {
    return this.ranks.reduce((sum, { operations }) => sum + operations.filter((each) => each !== null).length, 0)
  }

  get #outstanding(): number {
    return this.#sessions().reduce((sum, session) => sum + session.outstanding, 0)
  }

  waitsFor(): string {
    const asked = this.#sessions().map((session) => session.outstandingKinds())
    const open = this.ranks.flatMap(({ operations }) =>
      operations.flatMap((each) => (each === null ? [] : [each.text()])),
    )
    return `${this.state}, ${this.flows} flows, requests [${asked.join(';')}], operations [${open.join(';')}]`
  }

  deliver(run: () => void): void {
    this.engine.deliver(() => {
      if (this.state !== 'dead') run()
    })
  }

  /** Connects and registers every rank; a scheduler attaches as soon as all ranks are in. */
  start(): void {
    register(this)
  }

  /** The process is killed: its connections end, its memory stays where the Manager has it mapped. */
  die(): void {
    if (this.state === 'dead') return
    this.state = 'dead'
    const { staging } = this.manager
    const atWork = this.ranks.some(({ slots }) => slots > 0 && (staging?.busy(slots) ?? 0) > 0)
    if (atWork) this.world.faults.fired('engine-killed-while-staging')
    const coded = this.ranks.some(({ pages }) => this.manager.device.coding(pages.memory) > 0)
    if (coded) this.world.faults.fired('engine-killed-while-coding')
    for (const session of this.#sessions()) session.hangUp()
    this.engine.gone(this)
  }

  /** One connection breaks; the process notices nothing and goes on with what it has. */
  hangUpOne(choice: number): void {
    const session = this.#sessions()[choice % this.#sessions().length]
    session?.hangUp()
    if (session !== undefined) this.closed(session)
  }

  /** The process leaves in good order: UNREGISTER, then, once everything is answered, it ends. */
  unregister(): void {
    if (this.state !== 'up') {
      this.die()
      return
    }
    this.state = 'leaving'
    for (const { session } of this.ranks) {
      if (!session.open) continue
      this.#unregistering++
      session.request({ kind: 'unregister' }, (reply) => {
        expectReply('unregister', reply, ['ack'], codes('session_closed'))
        // The Manager has let go of the memory: every operation of the rank is over.
        this.pollSlots()
        this.#unregistering--
        if (this.#unregistering === 0) this.die()
      })
    }
    if (this.#unregistering === 0) this.die()
  }

  /** The Manager, or a fault, closed a connection: an engine that lost a rank gives up. */
  closed(_session: ClientSession): void {
    if (this.state === 'dead') return
    // Whatever the Manager had in hand when it went: only pages that it was given may have changed (K3, V4).
    for (const { pages } of this.ranks) pages.check()
    this.die()
  }

  mustBeAnswered(): void {
    if (this.state === 'dead') return
    must(this.#outstanding === 0, 'O5', () => `engine ${this.pid} was never answered: ${this.waitsFor()}`)
  }

  command(command: Command): void {
    if (!this.up) return
    switch (command.verb) {
      case 'publish':
      case 'publish-part':
        return publish(this, command)
      case 'query':
      case 'query-again':
        return query(this, command)
      case 'prepare':
        return prepare(this, command)
      case 'warm':
        return warm(this, command)
      case 'trespass':
        return trespass(this, command)
      case 'sync':
        return this.#ask({ kind: 'sync', ssd: command.a % 2 === 1 }, ['ack'])
      case 'ping':
        return this.#ask({ kind: 'ping', seq: command.a, slotsOutstanding: 0 }, ['pong'])
      case 'inspect':
        return this.#ask({ kind: command.a % 2 === 0 ? 'inspect' : 'stats', what: 'all' } as MessageOf<'inspect'>, [
          'numbers',
        ])
      case 'drop-dram':
        return this.#ask({ kind: 'drop_dram' }, ['numbers'])
      case 'cancel':
        return this.#cancelOne(command.a)
      case 'flood':
        return flood(this, command)
      default:
    }
  }

  probe(chain: number, then: (ok: boolean) => void): void {
    probeFlow(this, chain, then)
  }

  /** Pages of a group that are free on all ranks, at most `count`. */
  freePages(group: number, count: number): number[] {
    const pages: number[] = []
    for (let page = 0; page < this.model.plan.pages && pages.length < count; page++) {
      if (this.ranks.every((rank) => rank.pages.free(group, page))) pages.push(page)
    }
    return pages
  }

  /** A slot without an operation, or -1. */
  freeSlot(rank: Rank): number {
    return rank.operations.indexOf(null)
  }

  /** Starts an operation in a free slot: pages are its from here until its slot is terminal or it is refused. */
  begin(
    rank: Rank,
    slot: number,
    kind: Operation['kind'],
    pages: readonly PageRef[],
    layers: readonly number[] | null,
    fence: number,
    ended: Operation['ended'],
  ): Operation {
    const generation = (rank.generations[slot] as number) + 1 + (slot % 2)
    rank.generations[slot] = generation
    const operation = new Operation(rank, slot, generation, kind, pages, layers, ended)
    rank.operations[slot] = operation
    for (const page of pages) rank.pages.use(page)
    this.manager.slots.submit(rank.slots, slot, generation, fence === 0 ? 0 : fence - 1)
    this.#pollLater()
    return operation
  }

  /** The operation is over: by its slot, or because it was refused (`end` null). */
  end(operation: Operation, end: Parameters<Operation['ended']>[0]): void {
    const { rank, slot } = operation
    if (rank.operations[slot] !== operation) return
    rank.operations[slot] = null
    rank.pages.check()
    operation.ended(end)
    for (const page of operation.pages) rank.pages.leave(page)
  }

  /** The reply to the request of an operation; `admitted` says which kinds mean that the slot will tell. */
  answered(operation: Operation, reply: WireReply, allowed: ReadonlySet<number>): void {
    expectReply(operation.kind, reply, [operation.kind === 'publish' ? 'publishing' : 'ack'], allowed)
    operation.answered = true
    if (reply.kind !== 'error') {
      operation.rank.taken[operation.slot] = operation.generation
      return
    }
    must(!operation.seenTerminal, 'C5', () => `${operation.text()} is refused and ended`)
    this.end(operation, null)
  }

  pollSlots(): void {
    for (const rank of this.ranks) {
      for (const operation of rank.operations) {
        if (operation === null) continue
        const end = this.manager.slots.poll(rank.slots, operation.slot, operation.generation)
        if (end === null) continue
        operation.seenTerminal = true
        this.world.mixHash(end.state * 8191 + operation.generation)
        this.end(operation, end)
      }
    }
  }

  speaker(): ClientSession {
    return this.scheduler?.open ? this.scheduler : (this.ranks[0] as Rank).session
  }

  #sessions(): ClientSession[] {
    const sessions = this.ranks.map(({ session }) => session)
    return this.scheduler === null ? sessions : [...sessions, this.scheduler]
  }

  #ask(message: MessageOf<'sync' | 'ping' | 'inspect' | 'drop_dram'>, kinds: readonly WireReply['kind'][]): void {
    const session = this.speaker()
    session.request(message, (reply) => expectReply(message.kind, reply, kinds, MEANWHILE))
  }

  #cancelOne(choice: number): void {
    const open = this.ranks.flatMap(({ operations }) => operations.flatMap((each) => (each === null ? [] : [each])))
    const operation = open[choice % Math.max(1, open.length)]
    if (operation === undefined) return
    // To cancel again changes nothing (C7).
    const times = choice % 4 === 0 && this.world.fault('cancel-repeated') ? 9 : 1
    for (let each = 0; each < times; each++) this.cancel(operation)
  }

  cancel(operation: Operation): void {
    const { rank, slot, generation } = operation
    operation.cancelAsked = true
    rank.session.request({ kind: 'cancel', slot, generation }, (reply) =>
      expectReply('cancel', reply, ['ack'], MEANWHILE),
    )
  }

  /** Every slot of the rank is watched: see slotEnded. */
  watchSlots(rank: Rank): void {
    this.manager.slots.onFinished(rank.slots, (slot, generation, end) =>
      this.#slotEnded(rank, slot, generation, end.state),
    )
  }

  /** A slot became terminal this very moment: nothing may touch its pages from here on. The engine learns of it later. */
  #slotEnded(rank: Rank, slot: number, generation: number, state: number): void {
    const operation = rank.operations[slot]
    if (operation?.generation === generation) {
      for (const page of operation.pages) rank.pages.mustBeStill(page, operation.layers, this.manager.flights)
      operation.mayEndIn(state, this.state !== 'up' || this.manager.draining || rank.session.cut)
    }
    if (this.state === 'dead' || this.world.hints.strike() !== null) return
    this.world.clock.after(this.world.engineUs.next(), () => this.deliver(() => this.pollSlots()))
  }

  /** Hints may be lost: polling alone finds every end. */
  #pollLater(): void {
    if (this.#polling) return
    this.#polling = true
    this.world.clock.after(POLL_US, () => {
      this.#polling = false
      this.deliver(() => {
        this.pollSlots()
        if (this.#open > 0) this.#pollLater()
      })
    })
  }
}
