import type { Tick } from '../../../src/actors/runtime/turn.js'
import { SSD_WORKER_COUNT as COUNT } from '../../../src/actors/ssd-worker/counters.js'
import type { SsdWorkerEffect, SsdWorkerInput } from '../../../src/actors/ssd-worker/machine.js'
import type { SsdWorkerReply, SsdWorkerRequest } from '../../../src/actors/ssd-worker/messages.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { alignUp, PAGE_BYTES } from '../../../src/shared/base/units.js'
import { CHECKSUM, COPY, TARGET } from '../../../src/shared/layout/descriptors.js'
import { listAt } from '../../../src/shared/layout/records.js'
import type { ManagerProcess } from '../manager-process.js'
import type { SimTally } from '../tally.js'
import type { LaneMachine } from '../twin.js'
import { must } from '../violation.js'
import { Extents } from './extents.js'

/** The bounds of the requirement, written here once more. */
const SLOTS = 2
const WRITES_IN_FLIGHT_MAX = 1
const WRITE_JOBS_MAX = 8
const READS_BEFORE_A_WRITE = 4

/** Gauges of what the lane owns. */
const OWNED = ['batchesInFlight', 'writesInFlight', 'copiesInFlight', 'jobsActive', 'jobsFenced', 'arenasHeld'] as const

/** What a device says that cannot hold codings. */
const NOT_HELD: readonly number[] = [-7, -95]

type Request<K> = Extract<SsdWorkerRequest, { readonly kind: K }>
type Effect<K> = Extract<SsdWorkerEffect, { readonly kind: K }>

interface Worker {
  open: boolean
  readonly slots: ('free' | 'reading' | 'read' | 'scattering' | 'scattered' | 'writing')[]
  /** Copies and decodings on the stream of each slot. */
  readonly scatters: number[]
  parts: number
  /** Reads that went while a write could have gone. */
  passed: number
  /** Whose codings are made or held. */
  arena: Job | null
  /** The slot table of the rank that it is for. */
  table: number
}

/** A block of a write job: where it goes. */
interface Target {
  readonly file: number
  readonly fileOffsetBytes: number
  endBytes: number
}

interface Job {
  readonly kind: 'restore' | 'write' | 'encode'
  readonly worker: number
  whole: boolean
  fenced: boolean
  /** It failed or was cancelled: nothing of it may start. */
  stopped: boolean
  /** By object. */
  readonly targets: Target[]
  /** Where its copies in DRAM are. */
  readonly memory: Set<number>
  /** Bytes of its extents that no chunk has begun to write. */
  unwritten: number
}

/** What the device is at, by tag. */
interface Flight {
  readonly effect: Effect<'read' | 'scatter' | 'decode' | 'write' | 'copy' | 'encode'>
  /** Of a write, or of a copy or coding to DRAM. */
  readonly job: Job | null
}

/**
 * The lane's machine under watch, from outside: what it heard, what it decided, and what the device owes it. Written
 * without a look at how the machine keeps its own books: bounds (O8), turns (D4), slots and what they work on (O2, O7,
 * O9), extents (V1, V2) and gauges (N5).
 */
export class StagingCheck implements LaneMachine<SsdWorkerInput, SsdWorkerEffect> {
  readonly extents = new Extents()
  /** Reads that have passed one waiting write, at most. */
  passedMost = 0
  readonly #process: ManagerProcess
  readonly #machine: LaneMachine<SsdWorkerInput, SsdWorkerEffect>
  readonly #tally: SimTally
  readonly #workers = new Map<number, Worker>()
  readonly #jobs = new Map<number, Job>()
  readonly #flights = new Map<number, Flight>()

  constructor(process: ManagerProcess, machine: LaneMachine<SsdWorkerInput, SsdWorkerEffect>, tally: SimTally) {
    this.#process = process
    this.#machine = machine
    this.#tally = tally
  }

  get idle(): boolean {
    return this.#machine.idle
  }

  get stopped(): boolean {
    return this.#machine.stopped
  }

  /** Slots at work; of one rank when its slot table is given. */
  busy(table?: number): number {
    let busy = 0
    for (const worker of this.#workers.values()) {
      if (table === undefined || worker.table === table) busy += busyOf(worker)
    }
    return busy
  }

  step(input: SsdWorkerInput | Tick, out: SsdWorkerEffect[]): void {
    const from = out.length
    if (input.kind !== 'tick') this.#heard(input)
    this.#machine.step(input, out)
    const effects = out.slice(from)
    this.#unwanted(effects)
    for (const effect of effects) this.#decided(effect)
    if (input.kind !== 'tick') this.#gauges()
  }

  /**
   * What was read whole and is not scattered at once is damaged, or nobody wants it any more: its slot is free. So is one
   * whose copies and decodings have all ended, when no more of them follow at once.
   */
  #unwanted(effects: readonly SsdWorkerEffect[]): void {
    for (const [number, { slots }] of this.#workers) {
      for (const [slot, state] of slots.entries()) {
        if (state !== 'read' && state !== 'scattered') continue
        const scattered = effects.some(
          (effect) =>
            (effect.kind === 'scatter' || effect.kind === 'decode') && effect.worker === number && effect.slot === slot,
        )
        if (!scattered) slots[slot] = 'free'
      }
    }
  }

  /** Everything that the device is at belongs to a job that has not been answered (O7, O9). */
  mustBeHeld(): void {
    for (const { effect } of this.#flights.values()) this.#held(effect)
  }

  /** No job is open, and the device owes nothing. */
  get atRest(): boolean {
    return this.#jobs.size === 0 && this.#flights.size === 0
  }

  /** Nothing is at work, and every gauge says so (D1). `slots`: how many exist, when that is known. */
  mustBeIdle(when: string, slots?: number): void {
    for (const name of OWNED) {
      must(this.#tally.at(COUNT[name]) === 0, 'D1', () => `${name} is ${this.#tally.at(COUNT[name])} ${when}`)
    }
    must(this.atRest, 'D1', () => `${this.#jobs.size} jobs and ${this.#flights.size} operations are open ${when}`)
    const open = this.#tally.at(COUNT.slotsOpen)
    const bytes = this.#tally.at(COUNT.stagingBytes)
    must(slots === undefined || open === slots, 'D1', () => `${open} staging slots exist ${when}`)
    must((bytes === 0) === (open === 0), 'D1', () => `${open} slots have ${bytes} bytes ${when}`)
  }

  // What it heard

  #heard(input: SsdWorkerInput): void {
    switch (input.kind) {
      case 'request':
        return this.#asked(input.request)
      case 'worker-opened':
        this.#worker(input.worker).open = input.code >= 0
        return
      case 'fence-read': {
        const job = this.#jobs.get(input.job)
        if (job !== undefined && input.value > 0) job.fenced = true
        return
      }
      case 'completed': {
        const flight = this.#flights.get(input.tag)
        this.#flights.delete(input.tag)
        if (flight !== undefined) this.#ended(flight, input.result)
        return
      }
    }
  }

  #asked(request: SsdWorkerRequest): void {
    switch (request.kind) {
      case 'open-worker':
        this.#workers.set(request.worker, {
          open: false,
          slots: ['free', 'free'],
          scatters: [0, 0],
          parts: 0,
          passed: 0,
          arena: null,
          table: 0,
        })
        return
      case 'restore':
      case 'write':
      case 'encode':
        return this.#appended(request)
      case 'write-codes': {
        const job = this.#jobs.get(request.job)
        must(job?.kind === 'encode', 'O5', () => `job ${request.job} has nothing to write of`)
        if (job !== undefined) this.#targets(job, request.list)
        return
      }
      case 'cancel': {
        const job = this.#jobs.get(request.job)
        if (job === undefined) return
        job.stopped = true
        if (this.#worker(job.worker).arena === job) this.#process.world.faults.fired('cancel-while-held')
        if (busyOf(this.#worker(job.worker)) === SLOTS) this.#process.world.faults.fired('cancel-with-both-slots')
        return
      }
      case 'stop':
        for (const job of this.#jobs.values()) job.stopped = true
        return
      case 'close-worker':
        return
    }
  }

  #appended(request: Request<'restore' | 'write' | 'encode'>): void {
    const { job: number, worker, kind, fence, list, slots } = request
    this.#worker(worker).table = slots
    const job = this.#jobs.get(number) ?? {
      kind,
      worker,
      whole: false,
      fenced: fence === 0,
      stopped: false,
      targets: [],
      memory: new Set(),
      unwritten: 0,
    }
    this.#jobs.set(number, job)
    job.whole = request.more === 0
    const writes = [...this.#jobs.values()].filter((each) => each.kind !== 'restore' && each.worker === worker).length
    must(writes <= WRITE_JOBS_MAX, 'O8', () => `worker ${worker} has ${writes} write jobs`)
    if (kind === 'encode') {
      for (let at = 0; at < list.length; at += COPY.doubles) job.memory.add(listAt(list, at + COPY.poolOffsetBytes))
    }
    if (kind === 'write') this.#targets(job, list)
  }

  #targets(job: Job, list: Request<'write'>['list']): void {
    for (let at = 0; at < list.length; at += TARGET.doubles) {
      const field = (name: number) => listAt(list, at + name)
      const end = field(TARGET.fileOffsetBytes) + field(TARGET.bytes)
      if (job.kind === 'write') job.memory.add(field(TARGET.poolOffsetBytes))
      const known = job.targets[field(TARGET.object)]
      if (known !== undefined) known.endBytes = end
      else
        job.targets.push({
          file: field(TARGET.file),
          fileOffsetBytes: field(TARGET.fileOffsetBytes),
          endBytes: end,
        })
    }
    if (!job.whole) return
    for (const { file, fileOffsetBytes, endBytes } of job.targets) {
      const bytes = alignUp(endBytes, PAGE_BYTES) - fileOffsetBytes
      job.unwritten += bytes
      this.extents.reserved(file, fileOffsetBytes, bytes)
    }
  }

  #ended({ effect, job }: Flight, result: number): void {
    const worker = this.#worker(effect.worker)
    switch (effect.kind) {
      case 'read':
        worker.slots[effect.slot] = result === effect.bytes ? 'read' : 'free'
        return
      case 'decode':
        if (effect.slot === SLOTS) {
          worker.parts -= 1
          return
        }
        return this.#scattered(worker, effect.slot)
      case 'scatter':
        return this.#scattered(worker, effect.slot)
      case 'write':
        worker.slots[effect.slot] = 'free'
        if (effect.codeCount > 0) this.#process.world.faults.fired('held-codes-written')
        if (result === effect.bytes) this.extents.written(effect.file, effect.fileOffsetBytes, effect.bytes)
        else if (job !== null) job.stopped = true
        return
      case 'encode':
        if (NOT_HELD.includes(result)) this.#process.world.faults.fired('hold-refused')
        if (result < 0 && !NOT_HELD.includes(result) && job !== null) job.stopped = true
        if (result < 0 || !effect.held) worker.arena = null
        return
      case 'copy':
        worker.parts -= 1
        if (result < 0 && job !== null) job.stopped = true
        return
    }
  }

  #scattered(worker: Worker, slot: number): void {
    const left = (worker.scatters[slot] as number) - 1
    worker.scatters[slot] = left
    if (left === 0) worker.slots[slot] = 'scattered'
  }

  // What it decided

  #decided(effect: SsdWorkerEffect): void {
    switch (effect.kind) {
      case 'read':
        this.#occupied(effect, 'reading')
        this.#fly(effect, null)
        return this.#passes(this.#worker(effect.worker), effect.worker)
      case 'decode':
        // Those of the last place are on the stream beside the slots, from DRAM.
        if (effect.slot === SLOTS) this.#worker(effect.worker).parts += 1
        else this.#scatters(effect)
        return this.#fly(effect, null)
      case 'scatter':
        this.#scatters(effect)
        return this.#fly(effect, null)
      case 'write': {
        const job = this.#writerOf(effect)
        must(job !== null && !job.stopped, 'C1', () => `a write at ${effect.fileOffsetBytes} that nobody asked for`)
        const held = effect.codeCount === 0 || this.#worker(effect.worker).arena === job
        must(held, 'O2', () => `a write at ${effect.fileOffsetBytes} takes codings that are not its job's`)
        this.extents.begun(effect.file, effect.fileOffsetBytes, effect.bytes)
        if (job !== null) job.unwritten -= effect.bytes
        this.#worker(effect.worker).passed = 0
        this.#occupied(effect, 'writing')
        return this.#fly(effect, job)
      }
      case 'encode': {
        const worker = this.#worker(effect.worker)
        must(worker.arena === null, 'O2', () => `worker ${effect.worker} codes where codings are held`)
        const job = this.#saverOf(effect)
        must(job?.kind === 'encode' && !job.stopped, 'C1', () => 'something is coded that nobody asked for')
        worker.arena = job
        return this.#fly(effect, job)
      }
      case 'release-codes':
        return this.#released(this.#worker(effect.worker), effect.worker)
      case 'copy':
        this.#worker(effect.worker).parts += 1
        return this.#fly(effect, effect.toPages ? null : this.#saverOf(effect))
      case 'close-worker': {
        const { slots, parts, arena } = this.#worker(effect.worker)
        const still = slots.every((state) => state === 'free') && parts === 0 && arena === null
        must(still, 'O10', () => `worker ${effect.worker} is closed with ${slots.join()} and ${parts} copies`)
        this.#worker(effect.worker).open = false
        return
      }
      case 'reply':
        return this.#replied(effect.reply)
      default:
    }
  }

  /** What is held is let go when nothing of it is left to write, and nothing that reads it is in flight. */
  #released(worker: Worker, number: number): void {
    const { arena: job } = worker
    must(job !== null, 'O5', () => `worker ${number} lets go of codings that it does not hold`)
    const read = [...this.#flights.values()].some(({ effect, job: of }) => of === job && effect.kind !== 'copy')
    must(!read, 'O2', () => `worker ${number} lets go of codings that are made or read`)
    const wanted = job !== null && !job.stopped && job.unwritten > 0
    must(!wanted, 'O2', () => `worker ${number} lets go of codings of which ${job?.unwritten} bytes are to be written`)
    worker.arena = null
  }

  /** Only what was read whole leaves a slot, and in one go: nothing is put into it before all of that has ended. */
  #scatters({ worker: number, slot, kind }: Effect<'scatter' | 'decode'>): void {
    const { slots, scatters } = this.#worker(number)
    const state = slots[slot]
    const may = state === 'read' || (kind === 'decode' && (state === 'scattering' || state === 'scattered'))
    must(may, 'S3', () => `slot ${slot} of worker ${number} is scattered while it is ${state}`)
    slots[slot] = 'scattering'
    scatters[slot] = (scatters[slot] as number) + 1
  }

  /** The bounds of one worker, and one owner a slot. */
  #occupied({ worker: number, slot }: Effect<'read' | 'write'>, state: 'reading' | 'writing'): void {
    const { slots, open } = this.#worker(number)
    const where = () => `slot ${slot} of worker ${number}`
    must(open && slot < SLOTS, 'O8', () => `${where()} does not exist`)
    must(slots[slot] === 'free', 'O2', () => `${where()} is given away while it is ${slots[slot]}`)
    slots[slot] = state
    const writes = slots.filter((each) => each === 'writing').length
    must(writes <= WRITES_IN_FLIGHT_MAX, 'O8', () => `worker ${number} has ${writes} writes in flight`)
  }

  #fly(effect: Flight['effect'], job: Job | null): void {
    must(!this.#flights.has(effect.tag), 'O4', () => `tag ${effect.tag} is in use`)
    this.#flights.set(effect.tag, { effect, job })
    this.#held(effect)
  }

  /** The bytes that an operation touches are those of a job that the Manager waits for. */
  #held(effect: Flight['effect']): void {
    const { engaged } = this.#process
    switch (effect.kind) {
      case 'read': {
        const file = engaged.file(effect.file)
        for (let at = 0; at < effect.checkCount * CHECKSUM.doubles; at += CHECKSUM.doubles) {
          const start = effect.fileOffsetBytes + (effect.checks[at + CHECKSUM.poolOffsetBytes] as number)
          file.mustBeHeld(start, effect.checks[at + CHECKSUM.bytes] as number, false, 'O7', 'cuFile reads')
        }
        return
      }
      case 'write':
        engaged.file(effect.file).mustBeHeld(effect.fileOffsetBytes, effect.bytes, true, 'O9', 'cuFile writes')
        return
      case 'decode':
        if (effect.slot === SLOTS) this.#memoryHeld(effect, true)
        return
      case 'encode':
        return this.#memoryHeld({ ...effect, offset: 0 }, false)
      case 'copy':
        return this.#memoryHeld(effect, effect.toPages)
      case 'scatter':
        return
    }
  }

  #memoryHeld({ copies, offset, count }: Pick<Effect<'copy'>, 'copies' | 'offset' | 'count'>, toPages: boolean): void {
    const { pool } = this.#process.engaged
    for (let each = 0; each < count; each++) {
      const at = copies[offset + each * COPY.doubles + COPY.poolOffsetBytes] as number
      pool.mustBeHeld(at, 1, !toPages, toPages ? 'O7' : 'O9', 'a copy touches')
    }
  }

  /** D4: a write that could go is passed by so many reads and no more. */
  #passes(worker: Worker, number: number): void {
    const waits = !worker.slots.includes('writing') && this.#writeWaits(number)
    worker.passed = waits ? worker.passed + 1 : 0
    this.passedMost = Math.max(this.passedMost, worker.passed)
    must(worker.passed <= READS_BEFORE_A_WRITE, 'D4', () => `worker ${number}: ${worker.passed} reads pass a write`)
  }

  #writeWaits(worker: number): boolean {
    for (const job of this.#jobs.values()) {
      if (job.worker === worker && job.whole && job.fenced && !job.stopped && job.unwritten > 0) return true
    }
    return false
  }

  #replied(reply: SsdWorkerReply): void {
    switch (reply.kind) {
      case 'restore-done':
        this.#jobs.delete(reply.job)
        return
      case 'copied':
      case 'encoded': {
        const job = this.#jobs.get(reply.job)
        for (const { effect, job: of } of this.#flights.values()) {
          const copies = (effect.kind === 'copy' || effect.kind === 'encode') && of === job
          must(!copies, 'O9', () => `write ${reply.job} says ${reply.kind} while a copy of it is in flight`)
        }
        // What it was given of the pool is others' to give away again.
        job?.memory.clear()
        return
      }
      case 'write-done': {
        const job = this.#jobs.get(reply.job)
        must(job !== undefined, 'O5', () => `write ${reply.job} ends twice`)
        this.#jobs.delete(reply.job)
        for (const [object, { file, fileOffsetBytes, endBytes }] of (job?.targets ?? []).entries()) {
          const status = object < reply.list.length ? listAt(reply.list, object) : reply.status
          const bytes = alignUp(endBytes, PAGE_BYTES) - fileOffsetBytes
          if (status === ERROR_CODES.ok) this.extents.mustBeWhole(file, fileOffsetBytes, bytes, 'is called written')
        }
        for (const { arena } of this.#workers.values()) {
          must(arena !== job, 'O9', () => `write ${reply.job} ends while its codings are held`)
        }
        for (const { effect, job: of } of this.#flights.values()) {
          must(of !== job, 'O9', () => `write ${reply.job} ends while a ${effect.kind} of it is in flight`)
        }
        return
      }
      case 'worker-closed':
        this.#workers.delete(reply.worker)
        return
      case 'stopped':
        must(this.#jobs.size === 0 && this.#flights.size === 0, 'D1', () => `it stops with ${this.#jobs.size} jobs`)
        this.#workers.clear()
        return
      case 'route-failed':
        return
    }
  }

  #writerOf({ file, fileOffsetBytes, worker }: Effect<'write'>): Job | null {
    for (const job of this.#jobs.values()) {
      if (job.worker !== worker || !job.whole) continue
      const has = job.targets.some(
        (target) =>
          target.file === file && target.fileOffsetBytes <= fileOffsetBytes && fileOffsetBytes < target.endBytes,
      )
      if (has) return job
    }
    return null
  }

  #saverOf({ copies, offset = 0 }: { readonly copies: Float64Array; readonly offset?: number }): Job | null {
    const at = copies[offset + COPY.poolOffsetBytes] as number
    for (const job of this.#jobs.values()) if (job.memory.has(at)) return job
    return null
  }

  #gauges(): void {
    let batches = 0
    let writes = 0
    let parts = 0
    for (const worker of this.#workers.values()) {
      batches += busyOf(worker)
      writes += worker.slots.filter((state) => state === 'writing').length
      parts += worker.parts
    }
    const shown = [COUNT.batchesInFlight, COUNT.writesInFlight, COUNT.copiesInFlight].map((at) => this.#tally.at(at))
    must(
      shown.join() === [batches, writes, parts].join(),
      'N5',
      () => `gauges say ${shown} batches, writes and copies in flight, there are ${[batches, writes, parts]}`,
    )
  }

  #worker(number: number): Worker {
    const worker = this.#workers.get(number)
    must(worker !== undefined, 'X1', () => `worker ${number} was never opened`)
    return worker as Worker
  }
}

function busyOf({ slots }: Worker): number {
  return slots.filter((state) => state !== 'free').length
}
