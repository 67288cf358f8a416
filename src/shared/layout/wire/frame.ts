import { ProtocolError } from '../../base/errors.js'
import { WireReader, WireWriter } from './cursor.js'
import type { Field } from './fields.js'
import { HEADER_BYTES, LENGTH_WORD_BYTES } from './limits.js'
import {
  isRequestKind,
  MESSAGES,
  type MessageKind,
  type MessageOf,
  type RequestKind,
  type WireMessage,
  type WireReply,
  type WireRequest,
} from './messages.js'

/**
 * Frames to messages and back.
 *
 *   0            4        6        8                  16
 *   +------------+--------+--------+------------------+----------------+
 *   | u32 length | u16    | u16    | u64 request      | body, by type  |
 *   | of the rest| type   | flags 0| number           |                |
 *   +------------+--------+--------+------------------+----------------+
 *
 * A `frame` in this code is what follows the length word: the port of the addon adds it and takes it off. A decoded
 * message holds views of the frame's memory: copy what must outlive it.
 */

/** What stands in front of every body. */
export interface FrameHeader {
  readonly type: number
  readonly request: number
}

/** A frame and who asked. */
export interface Framed<M> {
  readonly request: number
  readonly message: M
}

const KIND_OF_TYPE = new Map<number, MessageKind>()
for (const kind of Object.keys(MESSAGES) as MessageKind[]) KIND_OF_TYPE.set(MESSAGES[kind].type, kind)

/**
 * Writes `message` as a frame without its length word at the start of `target`; returns its bytes.
 * @throws ProtocolError frame_too_large when it does not fit; RangeError for a value that has no place on the wire.
 */
export function encodeFrame(target: Uint8Array, request: number, message: WireMessage): number {
  const { type, body } = MESSAGES[message.kind]
  const writer = new WireWriter(target)
  writer.u16(type)
  writer.u16(0)
  writer.u64(request)
  ;(body as Field<unknown>).write(writer, message)
  return writer.at
}

/** Writes the whole frame, length word first: for sockets without the addon, and for golden vectors. */
export function encodeFrameWithLength(target: Uint8Array, request: number, message: WireMessage): number {
  const bytes = encodeFrame(target.subarray(LENGTH_WORD_BYTES), request, message)
  new WireWriter(target).u32(bytes)
  return LENGTH_WORD_BYTES + bytes
}

function readHeader(reader: WireReader): FrameHeader {
  const type = reader.u16()
  const flags = reader.u16()
  if (flags !== 0) reader.refuse('flags are reserved and must be 0', flags)
  return { type, request: reader.u64() }
}

/**
 * The header alone, to answer a frame whose body is refused.
 * @throws ProtocolError frame_malformed
 */
export function decodeHeader(frame: Uint8Array): FrameHeader {
  return readHeader(new WireReader(frame))
}

/**
 * Reads a frame without its length word. Strict: every byte has a meaning, and there are none left over.
 * @throws ProtocolError frame_malformed or unknown_message, and nothing else.
 */
export function decodeFrame(frame: Uint8Array): Framed<WireMessage> {
  const reader = new WireReader(frame)
  const { type, request } = readHeader(reader)
  const kind = KIND_OF_TYPE.get(type)
  if (kind === undefined) {
    throw new ProtocolError('unknown_message', `Cannot read a frame of type ${type}: no such message`, { type })
  }
  reader.message = kind
  const message = { kind, ...(MESSAGES[kind].body.read(reader) as object) } as MessageOf<MessageKind>
  reader.field = 'end'
  if (reader.remainingBytes !== 0) reader.refuse(`${reader.remainingBytes} bytes left over`, reader.remainingBytes)
  return { request, message }
}

function wrongWay(kind: MessageKind, reader: string): never {
  throw new ProtocolError('unknown_message', `Cannot take ${kind} from this side: the ${reader} never receives it`, {
    kind,
  })
}

/** As decodeFrame, for the Manager: replies are refused with unknown_message. */
export function decodeRequest(frame: Uint8Array): Framed<WireRequest> {
  const { request, message } = decodeFrame(frame)
  if (!isRequestKind(message.kind)) wrongWay(message.kind, 'Manager')
  return { request, message: message as MessageOf<RequestKind> }
}

/** As decodeFrame, for a client: requests are refused with unknown_message. */
export function decodeReply(frame: Uint8Array): Framed<WireReply> {
  const { request, message } = decodeFrame(frame)
  if (isRequestKind(message.kind)) wrongWay(message.kind, 'client')
  return { request, message: message as WireReply }
}

/**
 * The version range of a frame that says it is HELLO, read from the two fields that no version moves; null for any
 * other frame. Lets the Manager refuse a version by name although the rest of its HELLO may be laid out otherwise.
 */
export function helloVersions(frame: Uint8Array): { protoMin: number; protoMax: number } | null {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength)
  if (frame.length < HEADER_BYTES + 4 || view.getUint16(0, true) !== MESSAGES.hello.type) return null
  return { protoMin: view.getUint16(HEADER_BYTES, true), protoMax: view.getUint16(HEADER_BYTES + 2, true) }
}
