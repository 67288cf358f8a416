import type { LaneMachine } from './twin.js'

/** Around a real machine: the same inputs, other effects. */
export abstract class Around<Input extends { kind: string }, Effect> implements LaneMachine<Input, Effect> {
  protected readonly real: LaneMachine<Input, Effect>

  constructor(real: LaneMachine<Input, Effect>) {
    this.real = real
  }

  get idle(): boolean {
    return this.real.idle
  }

  get stopped(): boolean {
    return this.real.stopped
  }

  step(input: Parameters<LaneMachine<Input, Effect>['step']>[0], out: Effect[]): void {
    const own: Effect[] = []
    this.real.step(this.hear(input as Input), own)
    this.pass(input as Input, own, out)
  }

  settle(out: Effect[]): void {
    this.real.settle?.(out)
  }

  /** What the real machine hears of an input. */
  protected hear(input: Input): Input {
    return input
  }

  protected abstract pass(input: Input, effects: Effect[], out: Effect[]): void
}
