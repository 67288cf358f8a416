import type { List } from '../../../../src/shared/layout/records.js'
import { fieldOf, type MessageCodec, unknownKind } from '../../../../src/shared/rings/codec.js'

/** What the test lanes say to each other and to main. */
export type TestMessage =
  /** Record `serial` of a numbered run; its list is `listFor(serial)`. */
  | { readonly kind: 'number'; readonly serial: number; readonly list: List }
  /** To a source: send `count` numbered records to the sink. */
  | { readonly kind: 'go'; readonly count: number }
  /** From a source: all of them came back in order. */
  | { readonly kind: 'done'; readonly count: number }
  | { readonly kind: 'throw' }
  | { readonly kind: 'exit' }
  | { readonly kind: 'spin' }
  | { readonly kind: 'stop' }
  | { readonly kind: 'stopped' }

const KINDS = ['number', 'go', 'done', 'throw', 'exit', 'spin', 'stop', 'stopped'] as const

export const testCodec: MessageCodec<TestMessage> = {
  encode(message, record) {
    record.kind = KINDS.indexOf(message.kind)
    if (message.kind === 'number') {
      record.fields[0] = message.serial
      record.list = message.list
    } else if (message.kind === 'go' || message.kind === 'done') record.fields[0] = message.count
  },
  decode(record) {
    const kind = KINDS[record.kind]
    switch (kind) {
      case 'number':
        return { kind, serial: fieldOf(record, 0), list: record.list }
      case 'go':
      case 'done':
        return { kind, count: fieldOf(record, 0) }
      case undefined:
        return unknownKind('test', record.kind)
      default:
        return { kind }
    }
  },
}

/** The list that record `serial` carries: its length and every element follow from the serial. */
export function listFor(serial: number, scratch: Float64Array): List {
  const length = serial % 5
  for (let i = 0; i < length; i++) scratch[i] = serial * 8 + i
  return { doubles: scratch, offset: 0, length }
}

/** Throws unless a record is the one expected next, list included. */
export function checkNumber(message: TestMessage, expected: number): void {
  if (message.kind !== 'number' || message.serial !== expected) {
    throw new Error(`expected record ${expected}, got ${JSON.stringify(message)}`)
  }
  const { list, serial } = message
  if (list.length !== serial % 5) throw new Error(`record ${serial} has a list of ${list.length}`)
  for (let i = 0; i < list.length; i++) {
    const is = list.doubles[list.offset + i]
    if (is !== serial * 8 + i) throw new Error(`record ${serial} has ${is} in its list at ${i}`)
  }
}

/** A delay of random length now and then, so that both ends park at every point of the protocol. */
export function delays(seed: number): () => void {
  let state = seed | 1
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    if ((state >>> 20) % 64 !== 0) return
    for (let left = state >>> 22; left > 0; left--) state = (state + left) | 0
  }
}
