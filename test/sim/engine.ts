import type { Command, EnginePlan } from './plan.js'
import { EngineProcess } from './process.js'
import { must } from './violation.js'
import { PROBE_CHAIN } from './watched-entries.js'
import type { World } from './world.js'

/** Attempts, each with a pause, that phase two gives a probe before it calls the Manager stuck. */
const PROBE_ATTEMPTS_MAX = 80
const PROBE_PAUSE_US = 3_000

/**
 * One engine slot of the world: runs its script command by command, in one process after another. Commands say what is
 * tried, whatever the state: any part of a script is a script, so that shrinking may drop what it likes.
 */
export class Engine {
  readonly number: number
  readonly world: World
  readonly plan: EnginePlan
  process: EngineProcess | null = null
  #next = 0
  #probe: 'none' | 'running' | 'done' = 'none'
  #pausedUntilUs = 0
  /** Processes started so far. */
  incarnations = 0
  #attempt = 0
  #leaving = new Set<EngineProcess>()

  constructor(world: World, number: number, plan: EnginePlan) {
    this.world = world
    this.number = number
    this.plan = plan
  }

  /** The script has been issued to its end. */
  get done(): boolean {
    return this.#next >= this.plan.commands.length
  }

  /** Nothing that this engine started is open. */
  get quiet(): boolean {
    return this.#probe !== 'running' && (this.process === null || this.process.quiet) && this.#leaving.size === 0
  }

  waitsFor(): string {
    const leaving = [...this.#leaving].map((process) => `leaving: ${process.waitsFor()}`)
    return [`probe ${this.#probe}`, this.process?.waitsFor() ?? 'no process', ...leaving].join('; ')
  }

  start(): void {
    this.#spawn()
    this.#schedule()
  }

  /** Everything that reaches the engine's process waits while it is paused. */
  deliver(run: () => void): void {
    const waitUs = this.#pausedUntilUs - this.world.clock.nowUs
    if (waitUs <= 0) run()
    else this.world.clock.after(waitUs, () => this.deliver(run))
  }

  /** Faults stop: nobody is paused any more. */
  calm(): void {
    this.#pausedUntilUs = Math.min(this.#pausedUntilUs, this.world.clock.nowUs)
  }

  /** Phase two: publish something new and get it back, without faults, within a bound. */
  probe(): void {
    this.#probe = 'running'
    this.#tryProbe()
  }

  mustHaveProbed(): void {
    must(this.#probe === 'done', 'D4', () => `engine ${this.number} got nothing back in phase two`)
  }

  /** The end of the run: some leave in good order, some just go, some stay until the drain closes on them. */
  finish(): void {
    const { process } = this
    if (process === null) return
    const way = (this.plan.commands.length + this.number) % 3
    if (way === 0) process.unregister()
    else if (way === 1) process.die()
  }

  mustBeAnswered(): void {
    this.process?.mustBeAnswered()
    for (const process of this.#leaving) process.mustBeAnswered()
  }

  /** The process has closed its last connection. */
  gone(process: EngineProcess): void {
    this.#leaving.delete(process)
    if (this.process !== process) return
    this.process = null
    // Whatever it still waited for is gone with it.
    if (this.#probe === 'running') this.#probeLater()
  }

  #schedule(): void {
    const command = this.plan.commands[this.#next]
    if (command === undefined) return
    this.world.clock.after(command.delayUs, () => {
      this.deliver(() => {
        this.#next++
        this.#issue(command)
        this.#schedule()
      })
    })
  }

  #issue(command: Command): void {
    const { world } = this
    world.mixHash(command.verb.length * 65_537 + command.a)
    if (this.process === null) {
      if (!world.ending) this.#spawn()
      return
    }
    const process = this.process
    switch (command.verb) {
      case 'wait':
        return
      case 'pause':
        // A stop outlasts every time-out there is (K2).
        if (command.b % 6 === 0 && world.fault('engine-stopped')) this.#pause(200_000 + command.a * 10)
        else if (world.fault('engine-paused')) this.#pause(1_000 + command.a)
        return
      case 'die':
        if (world.fault('engine-killed')) process.die()
        return
      case 'disconnect':
        if (world.fault('rank-disconnected')) process.hangUpOne(command.a)
        return
      case 'unregister':
        this.#leaving.add(process)
        this.process = null
        process.unregister()
        return
      default:
        if (process.dropsBefore(command)) process.command({ ...command, verb: 'drop-dram' })
        process.command(command)
    }
  }

  #pause(us: number): void {
    this.#pausedUntilUs = this.world.clock.nowUs + us
  }

  #spawn(): void {
    const { world } = this
    // Nobody listens: the next command tries again.
    if (!world.manager.alive) return
    const model = world.models[this.plan.model % world.models.length] as World['models'][number]
    this.process = new EngineProcess(this, model, ++this.incarnations)
    this.process.start()
  }

  #probeLater(): void {
    const attempt = ++this.#attempt
    this.world.clock.after(PROBE_PAUSE_US, () => {
      if (attempt === this.#attempt) this.#tryProbe()
    })
  }

  #tryProbe(): void {
    if (this.world.ending) {
      this.#probe = 'done'
      return
    }
    const attempt = ++this.#attempt
    if (attempt > PROBE_ATTEMPTS_MAX) return
    if (this.process === null || !this.process.alive) {
      this.#spawn()
      return this.#probeLater()
    }
    if (!this.process.up) return this.#probeLater()
    // Admission by frequency keeps new blocks out while DRAM is full of popular ones: there somebody makes room.
    if (this.world.plan.sizes.lfuAdmission) {
      this.process.command({ verb: 'drop-dram', delayUs: 0, a: 0, b: 0, c: 0 })
    }
    this.process.probe(PROBE_CHAIN + 1 + this.number * 8 + (attempt % 8), (ok) => {
      if (attempt !== this.#attempt) return
      if (ok) this.#probe = 'done'
      else this.#probeLater()
    })
  }
}
