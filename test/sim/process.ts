import { createHash } from 'node:crypto'
import { ERROR_CODES, type ErrorCode } from '../../src/shared/base/errors.js'
import { plainDigest } from '../../src/shared/layout/namespace.js'
import type { MessageOf, WireReply } from '../../src/shared/layout/wire/messages.js'
import type { Opened } from './descriptors.js'
import type { Engine } from './engine.js'
import type { Model } from './model.js'
import { Operation } from './operation.js'
import { type PageRef, RankPages } from './pages.js'
import type { Command } from './plan.js'
import { prepare, warm } from './preparing.js'
import { publish } from './publishing.js'
import { probe as probeFlow, query } from './querying.js'
import { ClientSession, expectReply, type SessionOwner } from './session.js'
import { trespass } from './trespassing.js'
import { must } from './violation.js'
import { OUR_UID, type World } from './world.js'

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

/** What the world asks when slots are made: see World.#managerPorts. */
const plainInputs = (model: Model) =>
  new Map([['model', Uint8Array.of(model.number, model.plan.layers, model.plan.pages & 1)]])

/**
 * One engine process from its start to its death: registers every rank, runs commands, looks after its slots and pages.
 * It plays by the rules of the protocol, except where a command says otherwise.
 */
export class EngineProcess implements SessionOwner {
  readonly engine: Engine
  readonly world: World
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
  #registered = 0
  #polling = false
  #unregistering = 0

  constructor(engine: Engine, model: Model, incarnation: number) {
    this.engine = engine
    this.world = engine.world
    this.model = model
    this.pid = 100 + engine.number * 1000 + incarnation
    this.instanceId = new Uint8Array(16).fill(engine.number * 32 + (incarnation % 32) + 1)
    this.nextVersion = this.pid * 4096
  }

  get alive(): boolean {
    return this.state !== 'dead'
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

  /** Connects and registers every rank; a scheduler attaches as soon as a rank is in. */
  start(): void {
    const strike = this.world.control.strike()
    for (let rank = 0; rank < this.model.plan.ranks; rank++) {
      const foreign = strike?.kind === 'uid-foreign' && rank === 0
      const session = new ClientSession(this.world, this, foreign ? OUR_UID + 1 : OUR_UID)
      session.model = this.model
      session.slotsExhausted = strike?.kind === 'slots-exhausted' && rank === 0
      const pages = new RankPages(`memory ${this.pid}/${rank}`, this.model, rank)
      this.ranks.push({ number: rank, session, pages, slots: 0, generations: [], taken: [], operations: [] })
      this.#greet(session, 'worker', () => this.#register(this.ranks[rank] as Rank, strike?.kind ?? null))
    }
  }

  /** The process is killed: its connections end, its memory stays where the Manager has it mapped. */
  die(): void {
    if (this.state === 'dead') return
    this.state = 'dead'
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
    if (this.state !== 'dead') this.die()
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
    this.world.slots.submit(rank.slots, slot, generation, fence === 0 ? 0 : fence - 1)
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
        const end = this.world.slots.poll(rank.slots, operation.slot, operation.generation)
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
    if (operation !== undefined) this.cancel(operation)
  }

  cancel(operation: Operation): void {
    const { rank, slot, generation } = operation
    operation.cancelAsked = true
    rank.session.request({ kind: 'cancel', slot, generation }, (reply) =>
      expectReply('cancel', reply, ['ack'], MEANWHILE),
    )
  }

  #greet(session: ClientSession, role: 'worker' | 'scheduler', then: () => void): void {
    const hello = {
      kind: 'hello',
      protoMin: 1,
      protoMax: 1,
      role,
      pid: this.pid,
      bootNonce: this.pid,
      engine: 'sim',
      engineVersion: '1',
      adapterVersion: '1',
    } as const
    session.request(hello, (reply) => {
      expectReply('hello', reply, ['welcome'], codes('draining', 'capacity_sessions', 'peer_uid_refused'))
      if (reply.kind === 'welcome') then()
    })
  }

  #register(rank: Rank, fault: string | null): void {
    const { model } = this
    const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest()
    const inputs = plainInputs(model)
    const region = model.regions[0] as Model['regions'][number]
    const last = region.offsetBytes + (region.pageCount - 1) * region.pageStrideBytes
    const canary = (offset: number) => {
      const bytes = new Uint8Array(64)
      bytes.set(rank.pages.memory.bytes.subarray(offset, offset + Math.min(64, region.segmentBytes)))
      return bytes
    }
    const firstPage = canary(region.offsetBytes)
    const wrong = fault === 'canary-wrong' && rank.number === 0
    if (wrong) firstPage[3] = (firstPage[3] as number) ^ 1
    const sealed = !(fault === 'memory-unsealed' && rank.number === 0)
    const message: MessageOf<'register'> = {
      kind: 'register',
      instanceId: this.instanceId,
      namespaceInputs: [...inputs].map(([tag, value]) => ({ tag, value })),
      claimedDigest: plainDigest(sha256, inputs),
      tpRank: rank.number,
      tpSize: model.plan.ranks,
      ppRank: 0,
      ppSize: 1,
      worldSize: model.plan.ranks,
      pageFirst: model.plan.layout === 'page-first',
      device: { kind: 'host', uuid: new Uint8Array(16) },
      allocations: [{ kind: 'host_fd', bytes: model.bytes }],
      groups: Array.from({ length: model.groups }, (_, id) => {
        const { kind, blockTokens, windowTokens } = model.spec(id)
        return { id, kind, blockTokens, window: windowTokens }
      }),
      regions: model.regions.map((each) => ({ ...each, kvRole: each.kvRole as 'packed' | 'k' })),
      canaries: [{ region: 0, firstPage, lastPage: canary(last) }],
      slotCount: this.world.plan.sizes.slots,
    }
    const refusals = codes(
      'draining',
      'session_closed',
      'instance_conflict',
      'capacity_sessions',
      'rank_taken',
      ...(fault === 'canary-wrong' ? (['canary_mismatch'] as const) : []),
      ...(fault === 'memory-unsealed' ? (['memory_not_sealed'] as const) : []),
      ...(fault === 'slots-exhausted' ? (['capacity_slots'] as const) : []),
    )
    const registered = (reply: WireReply, opened: readonly Opened[]) => {
      expectReply('register', reply, ['registered'], refusals)
      must(reply.kind !== 'registered' || (sealed && !wrong), 'X3', () => `${fault} was let in`)
      if (reply.kind !== 'registered') return this.die()
      this.#enter(rank, reply, opened)
    }
    rank.session.request(message, registered, [{ kind: 'memory', memory: rank.pages.memory, sealed }])
  }

  #enter(rank: Rank, reply: MessageOf<'registered'>, opened: readonly Opened[]): void {
    must(opened.length === 3, 'X2', () => `registered brings ${opened.length} descriptors`)
    const table = opened[0]
    must(table?.kind === 'slots', 'X2', () => 'the first descriptor of registered is not a slot table')
    if (table?.kind !== 'slots') return
    rank.slots = table.slots
    for (let slot = 0; slot < reply.slots; slot++) {
      rank.generations.push(0)
      rank.taken.push(0)
      rank.operations.push(null)
    }
    this.world.slots.onFinished(rank.slots, (slot, generation, end) =>
      this.#finished(rank, slot, generation, end.state),
    )
    this.#registered++
    if (this.#registered < this.ranks.length) return
    if (!this.engine.plan.scheduler) {
      this.state = 'up'
      return
    }
    this.scheduler = new ClientSession(this.world, this, OUR_UID)
    const { scheduler } = this
    this.#greet(scheduler, 'scheduler', () => {
      scheduler.request({ kind: 'attach', instanceId: this.instanceId }, (attached) => {
        expectReply('attach', attached, ['attached'], MEANWHILE)
        if (attached.kind !== 'attached') return this.die()
        must(attached.sealed, 'X1', () => 'all ranks have registered and the instance is not sealed')
        this.state = 'up'
      })
    })
  }

  /** A slot became terminal this very moment: nothing may touch its pages from here on. The engine learns of it later. */
  #finished(rank: Rank, slot: number, generation: number, state: number): void {
    const operation = rank.operations[slot]
    if (operation?.generation === generation) {
      for (const page of operation.pages) rank.pages.mustBeStill(page, operation.layers, this.world.flights)
      operation.mayEndIn(state, this.state !== 'up' || this.world.draining || rank.session.cut)
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
