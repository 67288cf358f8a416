import { SUBMISSION_DOUBLES, SUBMIT_WRITE, SUBMIT_WRITE_SPANS } from '../../binding/submissions.js'
import { unreachable } from '../../shared/base/invariant.js'
import { WRITE, WRITE_SPANS_MAX } from '../../shared/layout/descriptors.js'
import type { Outbox } from '../runtime/outbox.js'
import type { WritebackEffect } from './machine.js'
import type { WritebackReply } from './messages.js'

/** Where the effects of a writeback lane go. `submitted` counts the entries written since the last pump. */
export interface WritebackSinks {
  readonly submissions: Float64Array
  /** WRITE_SPANS_MAX descriptors for each entry of `submissions`. */
  readonly spans: Float64Array
  readonly client: Outbox<WritebackReply>
  submitted: number
}

export function perform(sinks: WritebackSinks, effect: WritebackEffect): void {
  switch (effect.kind) {
    case 'submit-write':
      return submitWrite(sinks, effect)
    case 'submit-write-spans':
      return submitWriteSpans(sinks, effect)
    case 'reply':
      return sinks.client.send(effect.reply)
    default:
      return unreachable(effect)
  }
}

function submitWrite(sinks: WritebackSinks, write: WritebackEffect & { kind: 'submit-write' }): void {
  put(sinks, SUBMIT_WRITE, write, write.poolOffsetBytes)
}

function submitWriteSpans(sinks: WritebackSinks, write: WritebackEffect & { kind: 'submit-write-spans' }): void {
  const { list, offset, spans } = write
  const own = list.subarray(offset, offset + spans * WRITE.doubles)
  sinks.spans.set(own, sinks.submitted * WRITE_SPANS_MAX * WRITE.doubles)
  put(sinks, SUBMIT_WRITE_SPANS, write, spans)
}

/** Fills the next entry; `place` is a pool offset, or how many spans there are. */
function put(
  sinks: WritebackSinks,
  op: number,
  write: { readonly tag: number; readonly file: number; readonly fileOffsetBytes: number; readonly bytes: number },
  place: number,
): void {
  const { submissions } = sinks
  const at = sinks.submitted * SUBMISSION_DOUBLES
  submissions.fill(0, at, at + SUBMISSION_DOUBLES)
  submissions[at] = op
  submissions[at + 1] = write.tag
  submissions[at + 2] = write.file
  submissions[at + 3] = write.fileOffsetBytes
  submissions[at + 4] = place
  submissions[at + 5] = write.bytes
  sinks.submitted += 1
}
