import type { ErrorCode, ErrorValues } from './errors.js'

/**
 * What a decision returns when a peer asked for something that may not be: the code and numbers of the typed error
 * that the caller sends or throws. Returned, not thrown, so that a machine's state cannot be left half-changed.
 */
export interface Refusal {
  readonly error: ErrorCode
  /** Action, value, state; no full stop. */
  readonly message: string
  readonly values: ErrorValues
}

/** Builds a refusal. */
export function refuse(error: ErrorCode, message: string, values: ErrorValues = {}): Refusal {
  return { error, message, values }
}

/** Tells a refusal from a result. */
export function isRefusal<T extends object>(result: T | Refusal): result is Refusal {
  return 'error' in result && 'message' in result && 'values' in result
}
