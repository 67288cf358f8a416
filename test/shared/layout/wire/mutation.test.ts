import test from 'ava'
import { ProtocolError } from '../../../../src/shared/base/errors.js'
import { WireReader } from '../../../../src/shared/layout/wire/cursor.js'
import { bool, type Field, numbers, record } from '../../../../src/shared/layout/wire/fields.js'
import { decodeFrame, encodeFrame, type Framed } from '../../../../src/shared/layout/wire/frame.js'
import { FRAME_BYTES_MAX, LENGTH_WORD_BYTES } from '../../../../src/shared/layout/wire/limits.js'
import { MESSAGES, type MessageKind, type WireMessage } from '../../../../src/shared/layout/wire/messages.js'
import { readGolden } from '../../../support/golden-wire.js'

/**
 * The decoder under every single-byte mutation, every truncation and small extensions of every golden frame. The rule:
 * it gives a ProtocolError, or a message whose encoding is the frame again (every byte had a meaning); it throws
 * nothing else and never asks for more memory than the frame has.
 */

// Most frames are refused; their stacks are of no interest and most of the time.
Error.stackTraceLimit = 0

type Decoder = (frame: Uint8Array) => Framed<WireMessage>

const scratch = new Uint8Array(FRAME_BYTES_MAX)

/** Runs `body` while counting the bytes that it asks typed arrays for. */
function bytesAsked(body: () => void): number {
  const genuine = globalThis.Uint32Array
  let asked = 0
  globalThis.Uint32Array = new Proxy(genuine, {
    construct(made, args: [number]) {
      if (typeof args[0] === 'number') asked += 4 * args[0]
      if (asked > FRAME_BYTES_MAX) throw new ProtocolError('frame_malformed', 'test: stopped a huge allocation')
      return Reflect.construct(made, args)
    },
  })
  try {
    body()
  } finally {
    globalThis.Uint32Array = genuine
  }
  return asked
}

/** Why the rule is broken for one frame, or null. */
function breach(decode: Decoder, frame: Uint8Array): string | null {
  let decoded: Framed<WireMessage> | null = null
  let thrown: unknown = null
  let asked = 0
  asked = bytesAsked(() => {
    try {
      decoded = decode(frame)
    } catch (error) {
      thrown = error
    }
  })
  if (asked > frame.length) return `asked for ${asked} bytes for a frame of ${frame.length}`
  if (decoded === null) return thrown instanceof ProtocolError ? null : `threw ${String(thrown)}`
  const { request, message } = decoded as Framed<WireMessage>
  const bytes = encodeFrame(scratch, request, message)
  return Buffer.compare(scratch.subarray(0, bytes), frame) === 0
    ? null
    : 'a frame decodes that its message does not encode to'
}

function* mutations(frame: Uint8Array): Generator<Uint8Array> {
  for (let end = 0; end < frame.length; end++) yield frame.slice(0, end)
  for (const extra of [0, 1, 255]) yield Uint8Array.of(...frame, extra)
  const changed = frame.slice()
  for (let at = 0; at < frame.length; at++) {
    const original = frame[at] as number
    // Every value where structure is dense; beyond that the bits and the ends.
    const values =
      at < 120 ? Array.from({ length: 256 }, (_, i) => i) : [0, 1, 0x7f, 0x80, 0xff, original ^ 1, original ^ 0x10]
    for (const value of values) {
      if (value === original) continue
      changed[at] = value
      yield changed
    }
    changed[at] = original
  }
}

/** The first breach over all mutations of all golden frames, and how many frames were tried. */
function search(decode: Decoder): { tried: number; decoded: number; breach: string | null } {
  let tried = 0
  let decoded = 0
  const counting: Decoder = (frame) => {
    const framed = decode(frame)
    decoded++
    return framed
  }
  for (const vector of readGolden()) {
    const frame = Uint8Array.from(Buffer.from(vector.frame, 'hex')).subarray(LENGTH_WORD_BYTES)
    for (const mutated of mutations(frame)) {
      tried++
      const found = breach(counting, mutated)
      if (found !== null) return { tried, decoded, breach: `${vector.name}: ${found}` }
    }
  }
  return { tried, decoded, breach: null }
}

/** A twin of decodeFrame with some bodies, or its end, exchanged for broken ones. */
function twin(bodies: Partial<Record<MessageKind, Field<unknown>>>, checksEnd = true): Decoder {
  return (frame) => {
    const reader = new WireReader(frame)
    const kind = (Object.keys(MESSAGES) as MessageKind[]).find(
      (each) => frame.length >= 2 && MESSAGES[each].type === (frame[0] as number) + 256 * (frame[1] as number),
    )
    if (kind === undefined || (bodies[kind] === undefined && checksEnd)) return decodeFrame(frame)
    reader.advance(4)
    const request = reader.u64()
    const body: Field<unknown> = bodies[kind] ?? MESSAGES[kind].body
    const message = { kind, ...(body.read(reader) as object) } as WireMessage
    if (checksEnd && reader.remainingBytes !== 0) reader.refuse('bytes left over')
    return { request, message }
  }
}

test('wire: no mutation, truncation or extension of a golden frame breaks the decoder', (t) => {
  const { tried, decoded, breach: found } = search(decodeFrame)
  t.is(found, null)
  t.true(tried > 200_000, `${tried} frames tried`)
  t.true(decoded > 1_000 && decoded < tried, `${decoded} of ${tried} still mean something`)
})

test('wire: the mutations catch a twin that trusts a count', (t) => {
  const trusting: Field<Uint32Array> = {
    ...numbers,
    read: (reader) => {
      const values = new Uint32Array(reader.u32())
      for (let i = 0; i < values.length; i++) values[i] = reader.u32()
      return values
    },
  }
  const body = record({ ...MESSAGES.ready.body.shape, boundaries: trusting })
  t.regex(search(twin({ ready: body })).breach ?? '', /asked for \d+ bytes/)
})

test('wire: the mutations catch a twin that ignores what is left over', (t) => {
  t.regex(search(twin({}, false)).breach ?? '', /does not encode/)
})

test('wire: the mutations catch a twin that takes any byte for true', (t) => {
  const lenient: Field<boolean> = { ...bool, read: (reader) => reader.u8() !== 0 }
  t.regex(search(twin({ sync: record({ ssd: lenient }) })).breach ?? '', /does not encode/)
})

test('wire: the mutations catch a twin that lets a RangeError out', (t) => {
  const naive: Field<string> = {
    ...MESSAGES.inspect.body.shape.what,
    read: (reader) => new TextDecoder('utf-8', { fatal: true }).decode(reader.span(reader.u16())),
  }
  t.regex(search(twin({ inspect: record({ what: naive }) })).breach ?? '', /threw TypeError/)
})
