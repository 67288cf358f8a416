import { invariant } from '../shared/base/invariant.js'
import { RAW_REASONS } from '../shared/codec/coding.js'
import { fieldOf, type MessageCodec, unknownKind } from '../shared/rings/codec.js'
import type { ControlReply, ControlRequest } from './messages.js'

const DRAIN = 1
const ADOPT = 2

const SERVING = 1
const DRAINED = 2
const DRAIN_ASKED = 3
const SSD_FALLBACK = 4
const RANK_BY_URING = 5
const CODEC_CHOSEN = 6

const KINDS = {
  serving: SERVING,
  drained: DRAINED,
  'drain-asked': DRAIN_ASKED,
  'ssd-fallback': SSD_FALLBACK,
  'rank-by-uring': RANK_BY_URING,
  'codec-chosen': CODEC_CHOSEN,
} as const

/** Control requests: field 0 is the limit in microseconds, or the descriptor. */
export const controlRequestCodec: MessageCodec<ControlRequest> = {
  encode(message, record) {
    record.kind = message.kind === 'drain' ? DRAIN : ADOPT
    record.fields[0] = message.kind === 'drain' ? message.limitUs : message.fd
  },
  decode(record) {
    if (record.kind === DRAIN) return { kind: 'drain', limitUs: fieldOf(record, 0) }
    if (record.kind === ADOPT) return { kind: 'adopt', fd: fieldOf(record, 0) }
    return unknownKind('control requests', record.kind)
  },
}

/** Control replies: field 0 is the number of unfinished operations or of coded layers, or what a device said. */
export const controlReplyCodec: MessageCodec<ControlReply> = {
  encode(message, record) {
    record.kind = KINDS[message.kind]
    if (message.kind === 'drained') record.fields[0] = message.unfinished
    if (message.kind === 'ssd-fallback') record.fields[0] = message.code
    if (message.kind === 'codec-chosen') {
      record.fields[0] = message.coded
      record.list = message.list
    }
  },
  decode(record) {
    if (record.kind === SERVING) return { kind: 'serving' }
    if (record.kind === DRAIN_ASKED) return { kind: 'drain-asked' }
    if (record.kind === RANK_BY_URING) return { kind: 'rank-by-uring' }
    if (record.kind === SSD_FALLBACK) return { kind: 'ssd-fallback', code: fieldOf(record, 0) }
    if (record.kind === CODEC_CHOSEN) {
      invariant(record.list.length === RAW_REASONS.length, 'there is a count for each reason', {
        counts: record.list.length,
      })
      return { kind: 'codec-chosen', coded: fieldOf(record, 0), list: record.list }
    }
    if (record.kind !== DRAINED) unknownKind('control replies', record.kind)
    return { kind: 'drained', unfinished: fieldOf(record, 0) }
  },
}
