import * as dramWorker from '../../../src/actors/dram-worker/messages.js'
import * as hostReader from '../../../src/actors/host-reader/messages.js'
import * as hostRestore from '../../../src/actors/host-restore/messages.js'
import * as ssdWorker from '../../../src/actors/ssd-worker/messages.js'
import * as writeback from '../../../src/actors/writeback/messages.js'
import { controlReplyCodec, controlRequestCodec } from '../../../src/manager/codecs.js'
import { InvariantError } from '../../../src/shared/base/errors.js'
import {
  type RawRecord,
  RECORD_BYTES,
  RECORD_FIELD_DOUBLE,
  RECORD_FIELDS,
  RECORD_LIST_LENGTH_WORD,
} from '../../../src/shared/layout/records.js'
import { clearRecord, type MessageCodec, rawRecord } from '../../../src/shared/rings/codec.js'
import { NO_WAKER } from '../../../src/shared/rings/park.js'
import { createRing, RingConsumer, RingProducer } from '../../../src/shared/rings/ring.js'
import { crash, type MakeTarget, type Target } from '../target.js'

const ARENA_DOUBLES = 64
/** Kinds of message that the richest codec has. */
const KINDS = 8

const CODECS: Readonly<Record<string, MessageCodec<object>>> = {
  'host-reader request': hostReader.requestCodec,
  'host-reader reply': hostReader.replyCodec,
  'writeback request': writeback.requestCodec,
  'writeback reply': writeback.replyCodec,
  'dram-worker request': dramWorker.requestCodec,
  'dram-worker reply': dramWorker.replyCodec,
  'host-restore request': hostRestore.requestCodec,
  'host-restore reply': hostRestore.replyCodec,
  'ssd-worker request': ssdWorker.requestCodec,
  'ssd-worker reply': ssdWorker.replyCodec,
  'control request': controlRequestCodec,
  'control reply': controlReplyCodec,
} as Readonly<Record<string, MessageCodec<object>>>

/** Two messages, field by field; lists are windows of the same memory. */
function same(a: object, b: object): boolean {
  const left = Object.entries(a)
  return (
    left.length === Object.keys(b).length &&
    left.every(([name, value]) => name === 'list' || Object.is(value, (b as Record<string, unknown>)[name]))
  )
}

function seedOf(kind: number): Uint8Array {
  const bytes = new Uint8Array(RECORD_BYTES)
  const view = new DataView(bytes.buffer)
  view.setInt32(0, kind, true)
  view.setInt32(4, 6, true)
  for (let field = 0; field < RECORD_FIELDS; field++) {
    view.setFloat64(8 * (RECORD_FIELD_DOUBLE + field), 1000 * kind + field, true)
  }
  view.setInt32(60, 16, true)
  return bytes
}

/**
 * Records of one ring, as any 64 bytes in its memory. Both ends are built from one tree, so a record that no message
 * has is a bug, which must stop the lane: InvariantError and nothing else. A record that is taken for a message
 * gives the same message again after it was encoded and decoded.
 */
function recordsOf(name: string, codec: MessageCodec<object>, weak: boolean): Target {
  const memory = createRing({ capacity: 2, arenaDoubles: ARENA_DOUBLES })
  const producer = RingProducer.attach(memory, NO_WAKER)
  const consumer = RingConsumer.attach(memory, NO_WAKER)
  const bytes = new Uint8Array(producer.words.buffer, producer.words.byteOffset)
  const raw = rawRecord()
  const again = rawRecord()
  const decode = (record: RawRecord): object => {
    // The weakness: a kind that is not known passes for another.
    if (weak && record.kind > 100) record.kind = 1
    return codec.decode(record)
  }
  return {
    name,
    seeds: Array.from({ length: KINDS }, (_, at) => seedOf(at + 1)),
    run(input) {
      const word = producer.claim(0)
      bytes.fill(0, word * 4, word * 4 + RECORD_BYTES)
      bytes.set(input.subarray(0, RECORD_BYTES), word * 4)
      const kind = producer.words[word] as number
      producer.publish()
      let taken = false
      try {
        taken = consumer.take(raw)
        if (!taken) return crash('a published record is not there')
        const { length, offset } = raw.list
        if (offset < 0 || length < 0 || offset + length > ARENA_DOUBLES) return crash('a list outside its arena')
        const message = decode(raw)
        if (kind < 1 || kind > KINDS) return crash(`kind ${kind} is a message`)
        clearRecord(again)
        codec.encode(message, again)
        if (again.kind !== kind) return crash(`kind ${kind} comes back as ${again.kind}`)
        return same(message, codec.decode(again)) ? null : crash('a message changes when it is sent on')
      } catch (error) {
        return error instanceof InvariantError ? null : crash(`threw ${String(error)}`)
      } finally {
        if (!taken) {
          // The consumer refused the list and stands before the record: past it, to the next one.
          producer.words[word + RECORD_LIST_LENGTH_WORD] = 0
          consumer.take(raw)
        }
        consumer.release()
      }
    },
  }
}

export const records: readonly MakeTarget[] = Object.entries(CODECS).map(
  ([name, codec]) =>
    (weak: boolean) =>
      recordsOf(name, codec, weak),
)
