import { LaneTurn } from '../../src/actors/runtime/turn.js'
import { Actor } from './actor.js'
import type { ManagerProcess } from './manager-process.js'
import type { SimTally } from './tally.js'
import type { LaneMachine } from './twin.js'

/** What a lane's work is on: a stream, or a port to the disk. */
export interface LaneDevice {
  /** Completions that the world has delivered, and those of them that it made up. */
  readonly completions: number
  readonly duplicates: number
  /** Phase two: what it held up for ever goes on. */
  unstall(): void
}

/** What every lane of a simulation shows to the world around it. */
export interface LaneState {
  readonly name: string
  readonly actor: Actor
  readonly tally: SimTally
  readonly idle: boolean
  readonly stopped: boolean
  readonly device: LaneDevice
}

/** The parts that all lanes have: a real machine, or its twin, on a thread of its own. */
export abstract class Lane<Input extends { readonly kind: string }, Effect> implements LaneState {
  abstract readonly device: LaneDevice
  readonly name: string
  readonly actor: Actor
  readonly machine: LaneMachine<Input, Effect>
  readonly tally: SimTally
  protected readonly turn: LaneTurn<Input, Effect>
  protected readonly manager: ManagerProcess

  constructor(
    manager: ManagerProcess,
    name: string,
    tally: SimTally,
    machine: LaneMachine<Input, Effect>,
    nextTickUs: () => number,
  ) {
    this.manager = manager
    this.name = name
    this.tally = tally
    this.machine = machine
    this.turn = new LaneTurn(machine, () => manager.nowUs)
    this.actor = new Actor(name, manager, {
      tick: (nowUs) => this.turn.tick(nowUs),
      nextTickUs,
      perform: () => this.perform(),
    })
  }

  step(input: Input): void {
    this.manager.noteStep(this.name, input)
    this.turn.step(input)
  }

  get idle(): boolean {
    return this.machine.idle
  }

  get stopped(): boolean {
    return this.machine.stopped
  }

  /** Performs one effect. */
  protected abstract act(effect: Effect): void

  /** Performs what the turn decided. */
  protected perform(): void {
    this.turn.perform(this.#each)
  }

  readonly #each = (effect: Effect): void => this.act(effect)
}
