import type { LaneMachine } from '../sim/twin.js'

type Step<Input, Effect> = (input: Input, real: LaneMachine<Input, Effect>, out: Effect[]) => void

/** A twin of a lane: the real machine, whose inputs and effects pass through a step that `make` makes for each lane. */
export function around<Input, Effect>(
  make: () => Step<Input, Effect>,
): (real: LaneMachine<Input, Effect>) => LaneMachine<Input, Effect> {
  return (real) => {
    const step = make()
    return {
      get idle() {
        return real.idle
      },
      get stopped() {
        return real.stopped
      },
      step: (input, out) => step(input as Input, real, out),
    }
  }
}

/** The effects of the real machine for one input. */
export function effectsOf<Input, Effect>(real: LaneMachine<Input, Effect>, input: Input): Effect[] {
  const effects: Effect[] = []
  real.step(input, effects)
  return effects
}
