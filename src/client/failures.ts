import { errorOf } from '../shared/base/error-of.js'
import { CancelledError, errorCodeName, type OrbitError, ProtocolError } from '../shared/base/errors.js'
import type { MessageOf } from '../shared/layout/wire/messages.js'

export { errorOf }

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
