import {
  CancelledError,
  CapabilityError,
  CapacityError,
  ClosedError,
  ConfigError,
  CorruptionError,
  ERROR_CODES,
  type ErrorCode,
  type ErrorValues,
  InvariantError,
  IoError,
  type OrbitError,
  ProtocolError,
} from './errors.js'

type ErrorClass = new (code: ErrorCode, message: string, values?: ErrorValues, cause?: unknown) => OrbitError

/** Classes by the tens of a code's number, as errors.ts groups them. */
const CLASSES: readonly (readonly [below: number, of: ErrorClass])[] = [
  [20, ConfigError],
  [30, CapabilityError],
  [40, CapacityError],
  [50, IoError],
  [60, CorruptionError],
  [110, ProtocolError],
]

/** Codes whose class does not follow from their number. */
const ENDINGS: Partial<Record<ErrorCode, ErrorClass>> = {
  cancelled: CancelledError,
  timed_out: CancelledError,
  already_running: ConfigError,
  path_refused: ConfigError,
}

/** The typed error of a code: what the caller does next is its class. */
export function errorOf(code: ErrorCode, message: string, values: ErrorValues = {}): OrbitError {
  if (code === 'invariant') return new InvariantError(message, values)
  const number = ERROR_CODES[code]
  const byNumber = CLASSES.find(([below]) => number < below)?.[1] ?? ClosedError
  return new (ENDINGS[code] ?? byNumber)(code, message, values)
}
