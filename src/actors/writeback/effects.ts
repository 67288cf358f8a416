import { SUBMISSION_DOUBLES, SUBMIT_WRITE } from '../../binding/submissions.js'
import { unreachable } from '../../shared/base/invariant.js'
import type { Outbox } from '../runtime/outbox.js'
import type { WritebackEffect } from './machine.js'
import type { WritebackReply } from './messages.js'

/** Where the effects of a writeback lane go. `submitted` counts the entries written since the last pump. */
export interface WritebackSinks {
  readonly submissions: Float64Array
  readonly client: Outbox<WritebackReply>
  submitted: number
}

export function perform(sinks: WritebackSinks, effect: WritebackEffect): void {
  switch (effect.kind) {
    case 'submit-write':
      return submitWrite(sinks, effect)
    case 'reply':
      return sinks.client.send(effect.reply)
    default:
      return unreachable(effect)
  }
}

function submitWrite(sinks: WritebackSinks, write: WritebackEffect & { kind: 'submit-write' }): void {
  const { submissions } = sinks
  const at = sinks.submitted * SUBMISSION_DOUBLES
  submissions.fill(0, at, at + SUBMISSION_DOUBLES)
  submissions[at] = SUBMIT_WRITE
  submissions[at + 1] = write.tag
  submissions[at + 2] = write.file
  submissions[at + 3] = write.fileOffsetBytes
  submissions[at + 4] = write.poolOffsetBytes
  submissions[at + 5] = write.bytes
  sinks.submitted += 1
}
