import fc from 'fast-check'

/** One step of a model run, made from a label and two closures: may it run now, and what both sides do. */
export function step<Model extends object, Real>(
  label: string,
  run: (model: Model, real: Real) => void,
  check: (model: Model) => boolean = () => true,
): fc.Command<Model, Real> {
  return { check, run, toString: () => label }
}

/**
 * The property that a real thing and its naive model stay equal through any commands: the commands compare what they
 * get, `compare` compares everything else after each of them.
 */
export function modelProperty<Model extends object, Real>(
  steps: fc.Arbitrary<fc.Command<Model, Real>>[],
  setup: () => { model: Model; real: Real },
  compare: (model: Model, real: Real) => void,
  maxCommands = 60,
): fc.IProperty<[Iterable<fc.Command<Model, Real>>]> {
  const compared = steps.map((arbitrary) =>
    arbitrary.map((command) =>
      step<Model, Real>(
        String(command),
        (model, real) => {
          command.run(model, real)
          compare(model, real)
        },
        (model) => command.check(model) as boolean,
      ),
    ),
  )
  return fc.property(fc.commands(compared, { maxCommands, size: 'max' }), (commands) => fc.modelRun(setup, commands))
}

/** Both sides agree, or an error that says what differs. */
export function expectEqual(what: string, is: unknown, shouldBe: unknown): void {
  if (JSON.stringify(is) !== JSON.stringify(shouldBe)) {
    throw new Error(`${what} is ${JSON.stringify(is)}, the model has ${JSON.stringify(shouldBe)}`)
  }
}

/** The property holds; a failure names its seed, the shortest counterexample and what differed. */
export function holds<T>(property: fc.IProperty<T>, numRuns: number): true {
  fc.assert(property, { numRuns, includeErrorInReport: true })
  return true
}

/** Did the property fail? A fixed seed, so that a planted bug is caught in every run or in none. */
export function catches<T>(property: fc.IProperty<T>, numRuns = 500): boolean {
  return fc.check(property, { seed: 20, numRuns, endOnFailure: true }).failed
}
