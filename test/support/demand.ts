/** States what a machine under test promised; thrown errors are what fast-check shrinks. */
export function demand(holds: boolean, mustBeTrue: string): asserts holds {
  if (!holds) throw new Error(`violated: ${mustBeTrue}`)
}
