import type { Storage } from '../../src/manager/storage/storage.js'
import { PARK_US_MAX } from './actor.js'
import { mustRest } from './checks/rest.js'
import { Clock } from './clock.js'
import { Deeds, type Outcome } from './deeds.js'
import { Engine } from './engine.js'
import {
  CONTROL_FAULTS,
  type FaultDraw,
  type FaultKind,
  FaultSite,
  type FaultTally,
  HINT_FAULTS,
  type PROCESS_FAULTS,
  PROCESS_FAULTS as PROCESS_KINDS,
  RING_FAULTS,
  Stream,
  type Strike,
  WAKE_FAULTS,
} from './faults.js'
import { limitsOf } from './limits.js'
import { ManagerProcess } from './manager-process.js'
import { Model, type ModelPlan } from './model.js'
import type { CodecPlan, Plan } from './plan.js'
import { type Shard, ShardPath } from './shard.js'
import { Trace } from './trace.js'
import { NO_TWIN, type Twin } from './twin.js'
import { must } from './violation.js'

export { OUR_UID } from './limits.js'
export { NO_TWIN, type Twin } from './twin.js'

const EPOCH_FIRST = 77
/** After faults stop, everything that was admitted ends within this much virtual time on top of the plan's own times. */
const SETTLE_US = 1_000_000
const SCRIPT_US_MAX = 20_000_000
/** From a report of drained to the exit: what was lost on the way to a parked lane has been found by then. */
const EXIT_AFTER_US = PARK_US_MAX + 5_000
/** From an exit to the next start. */
const RESTART_US = 300

/** One seed: processes of the Manager, one after another, a file system, a device and some engines, in one thread. */
export class World {
  readonly plan: Plan
  readonly twin: Twin
  readonly clock = new Clock()
  readonly path = new ShardPath()
  readonly models: readonly Model[]
  readonly wakeUs: Stream
  readonly engineUs: Stream
  readonly ringUs: Stream
  readonly diskUs: Stream
  readonly copyUs: Stream
  readonly wireUs: Stream
  readonly hints: FaultSite<(typeof HINT_FAULTS)[number]>
  readonly control: FaultSite<(typeof CONTROL_FAULTS)[number]>
  readonly sends: FaultSite<'peer-stuck'>
  readonly wakes: FaultSite<(typeof WAKE_FAULTS)[number]>
  readonly rings: FaultSite<(typeof RING_FAULTS)[number]>
  /** Credits keep room in a ring of replies: its receiver may be late with them, and not with giving them back. */
  readonly replyRings: FaultSite<(typeof RING_FAULTS)[number]>
  readonly processes: FaultSite<(typeof PROCESS_FAULTS)[number]>
  readonly faults: FaultTally
  readonly engines: readonly Engine[]
  /** The process that engines meet when they connect now. */
  manager: ManagerProcess
  /** A lease of a process that is gone. */
  oldLease = 0
  restoresVerified = 0
  blocksVerified = 0
  publishesDone = 0
  readonly #off: ReadonlySet<FaultKind>
  readonly #sites = new Map<string, FaultSite>()
  readonly #calmed: (() => void)[] = []
  /** The workload is being drained for good. */
  #ending = false
  #calm = false
  #starts = 0
  readonly #trace = new Trace()
  readonly #deeds: Deeds

  constructor(plan: Plan, faults: FaultTally, twin: Twin = NO_TWIN) {
    this.plan = plan
    this.twin = twin
    this.faults = faults
    this.#deeds = new Deeds(faults)
    this.#off = new Set([...plan.off, ...plan.gpu.off, ...plan.codec.off])
    this.wakeUs = new Stream(plan.wakeUs)
    this.engineUs = new Stream(plan.engineUs)
    this.ringUs = new Stream(plan.ringUs)
    this.diskUs = new Stream(plan.diskUs)
    this.copyUs = new Stream(plan.copyUs)
    this.wireUs = new Stream(plan.wireUs)
    this.hints = this.site('hints', plan.hints, HINT_FAULTS)
    this.control = this.site('control', plan.control, CONTROL_FAULTS)
    this.sends = this.site('sends', plan.sends, ['peer-stuck'])
    this.wakes = this.site('wakes', plan.wakes, WAKE_FAULTS)
    this.rings = this.site('rings', plan.rings, RING_FAULTS)
    this.replyRings = this.site('rings of replies', plan.rings, ['record-delayed'])
    this.processes = this.site('processes', plan.processes, PROCESS_KINDS)
    this.models = plan.models.map((model, number) => new Model(number, scaled(model, plan.codec)))
    this.manager = this.#start()
    this.engines = plan.engines.map((engine, number) => new Engine(this, number, engine))
  }

  get storage(): Storage {
    return this.manager.storage
  }

  /** The workload has been interrupted for good: nothing new is let in any more. */
  get ending(): boolean {
    return this.#ending
  }

  /** Runs the whole life of the seed. Throws a Violation, or whatever the code under test throws. */
  run(): Outcome {
    const { plan, clock } = this
    for (const engine of this.engines) engine.start()
    if (plan.drainAtUs !== null) {
      clock.after(plan.drainAtUs, () => {
        if (plan.drainLimitUs < SETTLE_US) this.faults.fired('drain-cut-short')
        this.#end(plan.drainLimitUs)
      })
    }
    this.#until(SCRIPT_US_MAX, () => this.engines.every(({ done }) => done))
    this.#calmDown()
    this.#settle('after the faults stopped')
    if (!this.#ending) {
      for (const engine of this.engines) engine.probe()
      this.#settle('in phase two')
      for (const engine of this.engines) engine.mustHaveProbed()
    }
    this.#stagingMustEnd()
    for (const engine of this.engines) engine.finish()
    this.#end(SETTLE_US)
    const endUs = clock.nowUs + 2 * SETTLE_US
    this.#until(endUs, () => this.manager.drained !== null && clock.pending === 0)
    for (const engine of this.engines) engine.mustBeAnswered()
    mustRest(this.manager)
    this.#retire(this.manager)
    return {
      operations: this.operations,
      hash: this.hash,
      restoresVerified: this.restoresVerified,
      blocksVerified: this.blocksVerified,
      publishesDone: this.publishesDone,
      ...this.#deeds.counts,
      starts: this.#starts,
      virtualUs: clock.nowUs,
    }
  }

  /** Machine steps with an input, ticks that were due, and completions, so far. */
  get operations(): number {
    return this.#trace.steps + this.#deeds.completions
  }

  /** Of every event so far. */
  get hash(): number {
    return this.#trace.hash
  }

  /** Whether plans of this seed may use the fault now; counts it when they do. */
  fault(kind: FaultKind): boolean {
    if (this.#calm || this.#off.has(kind)) return false
    this.faults.fired(kind)
    return true
  }

  /** `run` happens when faults stop. */
  whenCalm(run: () => void): void {
    this.#calmed.push(run)
  }

  noteStep(actor: string, input: { readonly kind: string }): void {
    this.#trace.step(actor, input, this.clock.nowUs)
  }

  mixHash(value: number): void {
    this.#trace.mix(value)
  }

  /** The faults of one place, the same ones for every process that has it. */
  site<K extends FaultKind>(name: string, draws: readonly FaultDraw[], kinds: readonly K[]): FaultSite<K> {
    const known = this.#sites.get(name)
    if (known !== undefined) return known as unknown as FaultSite<K>
    const on = kinds.filter((kind) => !this.#off.has(kind))
    const site = new FaultSite<K>(draws, on, this.faults)
    this.#sites.set(name, site as unknown as FaultSite)
    return site
  }

  /** A fault of the whole process; says which of its threads goes no further: all, one by its name, or none. */
  strikeProcess(process: ManagerProcess, { kind, amount }: Strike<(typeof PROCESS_FAULTS)[number]>): string | null {
    switch (kind) {
      case 'manager-killed':
        process.kill(amount)
        return 'all'
      case 'lane-died': {
        const name = process.loseLane(amount >> 2)
        this.#doom(process, 200 + amount * 100)
        return name
      }
      case 'manager-restarted':
        if (process.draining) return null
        process.doomed = true
        process.drain(amount % 3 === 0 ? 0 : 100_000)
        return null
      case 'manager-stopped':
        process.stopFor(2_000 + amount * 2_000)
        return null
      case 'manager-contended':
        this.#contend(process)
        return null
      case 'clock-leapt':
        process.time.leap(1_000 + amount * 200)
        return null
      case 'clock-held':
        process.time.hold(1_000 + amount * 100)
        return null
    }
  }

  /** The device has failed for good; the process ends for its supervisor to start it again. */
  deviceFailed(process: ManagerProcess): void {
    this.#doom(process, 3_000)
  }

  drained(process: ManagerProcess): void {
    if (this.#ending) return
    const exit = () => {
      if (!process.alive || this.#ending) return
      if (process.stoppedForUs > 0) return this.clock.after(process.stoppedForUs + EXIT_AFTER_US, exit)
      mustRest(process)
      process.exit()
    }
    this.clock.after(EXIT_AFTER_US, exit)
  }

  /** Supervision: after an exit comes a start, on the same path and with nothing of before. */
  exited(process: ManagerProcess): void {
    this.path.exited(process.owner)
    this.#retire(process)
    this.clock.after(RESTART_US, () => {
      this.manager = this.#start()
      if (this.#ending) this.manager.drain(SETTLE_US)
    })
  }

  #start(): ManagerProcess {
    const epoch = EPOCH_FIRST + this.#starts++
    const owner = { epoch }
    const { files } = limitsOf(this.plan, this.models, epoch)
    const reuses = this.twin.start === 'reuses-inode'
    const shards = reuses ? this.path.reopen(owner, files) : this.path.open(owner, files)
    must(shards !== null, 'K3', () => `start ${this.#starts} finds the path still taken`)
    return new ManagerProcess(this, epoch, owner, shards as readonly Shard[])
  }

  /** A second Manager comes to the path of one that lives: it is refused, and nothing of the first has changed (K7). */
  #contend(process: ManagerProcess): void {
    const before = JSON.stringify(process.machine.ownership())
    const { files } = limitsOf(this.plan, this.models, 0)
    must(this.path.open({}, files) === null, 'K7', () => 'two Managers have one path')
    must(process.linked, 'K7', () => 'a refused Manager took the files away')
    must(JSON.stringify(process.machine.ownership()) === before, 'K7', () => 'a refused Manager changed the first')
  }

  #doom(process: ManagerProcess, us: number): void {
    process.doomed = true
    this.clock.after(us, () => process.kill(us))
  }

  #end(limitUs: number): void {
    this.#ending = true
    this.processes.on = false
    if (this.manager.alive) this.manager.drain(limitUs)
  }

  #until(limitUs: number, done: () => boolean): void {
    while (!done() && this.clock.step(limitUs));
  }

  /** Faults stop, what was stalled goes on, and a process that is on its way out is followed by another. */
  #calmDown(): void {
    this.#calm = true
    for (const site of this.#sites.values()) site.on = false
    this.manager.calm()
    for (const engine of this.engines) engine.calm()
    for (const run of this.#calmed.splice(0)) run()
    const stable = () => this.#ending || (this.manager.serving && !this.manager.doomed)
    this.#until(this.clock.nowUs + 2 * SETTLE_US, stable)
    must(stable(), 'D4', () => 'no Manager serves after the faults stopped')
  }

  /** Every batch and copy ends once faults have stopped, also those of engines that are gone. */
  #stagingMustEnd(): void {
    const { staging } = this.manager
    if (staging === null) return
    this.#until(this.clock.nowUs + SETTLE_US, () => staging.atRest || !this.manager.alive)
    if (this.manager.alive) staging.mustBeIdle('in phase two')
  }

  #settle(when: string): void {
    const { leaseUs, queryUs, publishWaitUs } = this.plan.sizes
    const limitUs = this.clock.nowUs + SETTLE_US + leaseUs + queryUs + publishWaitUs
    this.#until(limitUs, () => this.engines.every(({ quiet }) => quiet))
    for (const engine of this.engines) {
      must(engine.quiet, 'D4', () => `engine ${engine.number} still waits ${when}: ${engine.waitsFor()}`)
    }
  }

  #retire(process: ManagerProcess): void {
    this.#deeds.retire(process)
    for (const lease of process.leases.keys()) this.oldLease = lease
  }
}

/** Layers at both ends of a model that TurboQuant leaves alone, and one between them. */
const TURBOQUANT_LAYERS_MIN = 5
/** Words of a segment that every format can code; twice as many need a page of the pool more when they are not. */
const CODABLE_WORDS = 1024

/** A model as a seed with a codec has it: with longer segments, of which some can be coded. */
function scaled(model: ModelPlan, { name, wordsFactor }: CodecPlan): ModelPlan {
  if (name === 'none') return model
  const words = CODABLE_WORDS * wordsFactor
  const turboquant = name.startsWith('turboquant')
  return {
    ...model,
    layers: Math.max(turboquant ? TURBOQUANT_LAYERS_MIN : 2, model.layers),
    // Layers of checkpoints do not count among those that have ends.
    groups: turboquant && model.second === 'checkpoint' ? 1 : model.groups,
    // Items that are kept as they are lie beside those that are coded, and do not move these off what nvCOMP can read.
    wordsEven: turboquant ? words : (model.wordsEven * wordsFactor) & ~1,
    wordsOdd: words,
  }
}
