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
  errorCodeName,
  InvariantError,
  IoError,
  type OrbitError,
  ProtocolError,
} from '../shared/base/errors.js'
import type { MessageOf } from '../shared/layout/wire/messages.js'

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

/** The typed error of an ERROR frame. */
export function errorOfReply(reply: MessageOf<'error'>): OrbitError {
  const values = Object.fromEntries(reply.values.map(({ name, value }) => [name, value]))
  return errorOf(errorCodeName(reply.code), reply.message, values)
}

/** The error of an `AbortSignal`: the caller's own reason is its cause. */
export function cancelledBy(signal: AbortSignal, what: string): CancelledError {
  return new CancelledError('cancelled', `Cancelled ${what}: the caller's signal ended it`, {}, signal.reason)
}

/** The Manager answered something that its request cannot have. */
export function unexpectedReply(asked: string, got: string): ProtocolError {
  return new ProtocolError('frame_malformed', `Cannot take a ${got} frame as the answer to ${asked}`, { asked, got })
}
