import { SUBMISSION_DOUBLES, SUBMIT_FLAG_VERIFY, SUBMIT_READ } from '../../binding/submissions.js'
import { unreachable } from '../../shared/base/invariant.js'
import type { Outbox } from '../runtime/outbox.js'
import type { HostReaderEffect } from './machine.js'
import type { HostReaderReply } from './messages.js'

/** Where the effects of a host-reader go. `submitted` counts the entries written since the last pump. */
export interface HostReaderSinks {
  readonly submissions: Float64Array
  readonly clients: readonly Outbox<HostReaderReply>[]
  submitted: number
}

export function perform(sinks: HostReaderSinks, effect: HostReaderEffect): void {
  switch (effect.kind) {
    case 'submit-read':
      return submitRead(sinks, effect)
    case 'reply':
      sinks.clients[effect.client]?.send(effect.reply)
      return
    default:
      return unreachable(effect)
  }
}

function submitRead(sinks: HostReaderSinks, read: HostReaderEffect & { kind: 'submit-read' }): void {
  const { submissions } = sinks
  const at = sinks.submitted * SUBMISSION_DOUBLES
  submissions[at] = SUBMIT_READ + 256 * (read.verify ? SUBMIT_FLAG_VERIFY : 0)
  submissions[at + 1] = read.tag
  submissions[at + 2] = read.file
  submissions[at + 3] = read.fileOffsetBytes
  submissions[at + 4] = read.poolOffsetBytes
  submissions[at + 5] = read.bytes
  submissions[at + 6] = read.segmentBytes
  submissions[at + 7] = read.segmentStrideBytes
  submissions[at + 8] = read.crc32
  sinks.submitted += 1
}
