import { invariant } from '../base/invariant.js'

/**
 * CRC32 (IEEE 802.3, reflected 0xEDB88320) with eight tables, equal to the addon's for every input: for simulations,
 * tests and small buffers. Real granules are checked natively.
 */
const TABLES = buildTables()

/** CRC32 of `bytes`, continuing from `crc` (0 to start): crc32(b, crc32(a)) is that of a then b. */
export function crc32(bytes: Uint8Array, crc = 0): number {
  return update(~crc, bytes, 0, bytes.length)
}

/**
 * CRC32 of a granule: the first `segmentBytes` of every `segmentStrideBytes`, as one continued checksum. Padding does
 * not count. `bytes` holds whole strides.
 */
export function crc32Strided(bytes: Uint8Array, segmentBytes: number, segmentStrideBytes: number): number {
  const whole = segmentBytes > 0 && segmentBytes <= segmentStrideBytes && bytes.length % segmentStrideBytes === 0
  invariant(whole, 'a granule is whole strides, a segment fits its stride', { segmentBytes, segmentStrideBytes })
  let crc = 0
  for (let at = 0; at < bytes.length; at += segmentStrideBytes) crc = update(~crc, bytes, at, at + segmentBytes)
  return crc
}

function update(inverted: number, bytes: Uint8Array, from: number, end: number): number {
  const [t0, t1, t2, t3, t4, t5, t6, t7] = TABLES as [T, T, T, T, T, T, T, T]
  let crc = inverted
  let at = from
  for (; at + 8 <= end; at += 8) {
    const low =
      crc ^ (byte(bytes, at) | (byte(bytes, at + 1) << 8) | (byte(bytes, at + 2) << 16) | (byte(bytes, at + 3) << 24))
    crc =
      word(t7, low & 255) ^
      word(t6, (low >>> 8) & 255) ^
      word(t5, (low >>> 16) & 255) ^
      word(t4, low >>> 24) ^
      word(t3, byte(bytes, at + 4)) ^
      word(t2, byte(bytes, at + 5)) ^
      word(t1, byte(bytes, at + 6)) ^
      word(t0, byte(bytes, at + 7))
  }
  for (; at < end; at++) crc = word(t0, (crc ^ byte(bytes, at)) & 255) ^ (crc >>> 8)
  return ~crc >>> 0
}

type T = Int32Array

function byte(bytes: Uint8Array, at: number): number {
  return bytes[at] as number
}

function word(table: Int32Array, at: number): number {
  return table[at] as number
}

function buildTables(): Int32Array[] {
  const first = new Int32Array(256)
  for (let value = 0; value < 256; value++) {
    let crc = value
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
    first[value] = crc
  }
  const tables = [first]
  for (let index = 1; index < 8; index++) {
    const before = tables[index - 1] as Int32Array
    tables.push(before.map((crc) => (crc >>> 8) ^ word(first, crc & 255)))
  }
  return tables
}
