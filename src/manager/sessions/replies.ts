import { ERROR_CODES, type ErrorCode, type ErrorValues } from '../../shared/base/errors.js'
import type { Refusal } from '../../shared/base/refusal.js'
import { encodeFrame } from '../../shared/layout/wire/frame.js'
import { FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX } from '../../shared/layout/wire/limits.js'
import type { WireReply } from '../../shared/layout/wire/messages.js'
import { clipText } from '../../shared/layout/wire/utf8.js'
import type { Context } from '../context.js'
import type { Session } from './session.js'

const scratch = new Uint8Array(FRAME_BYTES_MAX)

/** Queues the one reply to a request; a session whose connection ended gets none. `fds` are given away either way. */
export function reply(
  context: Context,
  session: Session,
  request: number,
  message: WireReply,
  fds: readonly number[] = [],
): void {
  if (!session.connected) {
    for (const fd of fds) context.ports.closeFd(fd)
    return
  }
  const bytes = encodeFrame(scratch, request, message)
  context.out.push({ kind: 'send', connection: session.connection, frame: scratch.slice(0, bytes), fds })
}

/** Answers a request with an error; values travel as text. */
export function replyError(
  context: Context,
  session: Session,
  request: number,
  code: ErrorCode,
  message: string,
  values: ErrorValues = {},
): void {
  context.tally.refused()
  reply(context, session, request, {
    kind: 'error',
    code: ERROR_CODES[code],
    message: clipText(message, MESSAGE_BYTES_MAX),
    values: Object.entries(values).map(([name, value]) => ({ name, value: clipText(String(value), NAME_BYTES_MAX) })),
  })
}

/** Answers a request with a refusal that some decision returned. */
export function replyRefusal(context: Context, session: Session, request: number, refusal: Refusal): void {
  replyError(context, session, request, refusal.error, refusal.message, refusal.values)
}
