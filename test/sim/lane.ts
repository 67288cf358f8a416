import { LaneTurn } from '../../src/actors/runtime/turn.js'
import { Actor } from './actor.js'
import type { ManagerProcess } from './manager-process.js'
import type { SimTally } from './tally.js'
import type { LaneMachine } from './twin.js'

/** What every lane of a simulation shows to the world around it. */
export interface LaneState {
  readonly name: string
  readonly actor: Actor
  readonly tally: SimTally
  readonly idle: boolean
  readonly stopped: boolean
  /** Completions that the world has delivered, and those of them that it made up. */
  readonly completions: number
  readonly duplicates: number
  /** Phase two: what its devices held up for ever goes on. */
  unstall(): void
}

/** The parts that all lanes have: a real machine, or its twin, on a thread of its own. */
export abstract class Lane<Input extends { readonly kind: string }, Effect> {
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

  /** Performs what the turn decided. */
  protected abstract perform(): void
}
