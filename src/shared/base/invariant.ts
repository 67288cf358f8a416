import { type ErrorValues, InvariantError } from './errors.js'

/**
 * States what only a bug could break; on in production. What a disk, a peer or a user can cause is an error instead.
 * @throws InvariantError, which stops the process.
 */
export function invariant(holds: boolean, mustBeTrue: string, values: ErrorValues = {}): asserts holds {
  if (!holds) throw new InvariantError(`Broken invariant: ${mustBeTrue} ${JSON.stringify(values)}`, values)
}

/** Closes an exhaustive switch: reaching it means that a union grew and a switch did not. */
export function unreachable(value: never): never {
  throw new InvariantError(`Unreachable case ${JSON.stringify(value)}`)
}
