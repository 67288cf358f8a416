import { utf8Bytes, utf8Write } from './utf8.js'

/** One thing that makes cached bytes meaningful: model, weights revision, dtype, hash seed, salt, adapter. */
export interface NamespaceInput {
  readonly tag: string
  readonly value: Uint8Array
}

/**
 * The bytes whose SHA-256 is REGISTER's `claimedDigest`. Every part is preceded by its length, so that no two lists of
 * inputs share their bytes ('ab' + 'c' is not 'a' + 'bc'); inputs keep the order of the message.
 *
 *   "orbitkv-claim-1" | u32 count | count * (u32 n, n bytes tag UTF-8, u32 m, m bytes value)      little endian
 */
export function claimBytes(inputs: readonly NamespaceInput[]): Uint8Array {
  const prefix = 'orbitkv-claim-1'
  const size = inputs.reduce(
    (sum, { tag, value }) => sum + 8 + Math.max(0, utf8Bytes(tag)) + value.length,
    prefix.length + 4,
  )
  const target = new Uint8Array(size)
  const view = new DataView(target.buffer)
  let at = utf8Write(prefix, target, 0)
  view.setUint32(at, inputs.length, true)
  at += 4
  for (const { tag, value } of inputs) {
    const tagBytes = utf8Bytes(tag)
    if (tagBytes < 0) throw new RangeError('Cannot claim a namespace input: its tag holds an unpaired surrogate')
    view.setUint32(at, tagBytes, true)
    at = utf8Write(tag, target, at + 4)
    view.setUint32(at, value.length, true)
    target.set(value, at + 4)
    at += 4 + value.length
  }
  return target
}
