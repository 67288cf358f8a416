import { alignUp, SECTOR_BYTES } from '../../src/shared/base/units.js'
import { crcOf } from './codings.js'
import type { CodedMove, CopyMemory, Device } from './device.js'
import type { DECODE_FAULTS, ENCODE_FAULTS, Strike } from './faults.js'
import { POISON } from './oracle.js'
import { decodeToy, encodeToy } from './toy-coding.js'
import { must } from './violation.js'

type EncodeFault = (typeof ENCODE_FAULTS)[number]
type DecodeFault = (typeof DECODE_FAULTS)[number]

const EIO = -5
const ENOMEM = -12
/** How many of the items are coded, and what the job says. */
function reach(
  strike: Strike | null,
  items: number,
  sticky: boolean,
): { readonly end: number; readonly result: number } {
  if (sticky) return { end: 0, result: EIO }
  if (strike?.kind.endsWith('-failed')) return { end: 0, result: EIO }
  if (strike?.kind.endsWith('-partial')) return { end: strike.amount % items, result: EIO }
  if (strike?.kind.endsWith('-without-room')) return { end: strike.amount % items, result: ENOMEM }
  return { end: items, result: 0 }
}

/** Encodes items from pages into their rooms, two results each; the result of the job. Results of others stay as they were. */
export function encodeItems(
  device: Device,
  memory: CopyMemory,
  moves: readonly CodedMove[],
  strike: Strike<EncodeFault> | null,
  results: Uint32Array,
  base: number,
): number {
  const { end, result } = reach(strike, moves.length, device.sticky)
  const struck = (strike?.amount ?? 0) % moves.length
  for (const [index, move] of moves.slice(0, end).entries()) {
    const { mapping, pageAt, memoryAt, bytes, paddedBytes: room, coding } = move
    const item = mapping.memory.words.slice(pageAt / 4, (pageAt + bytes) / 4)
    const unfit = device.unfit(item) || (strike?.kind === 'item-unfit' && index === struck)
    const codes = unfit ? null : encodeToy(coding, item)
    const fits = codes !== null && codes.length <= room
    const stored = fits ? codes : bytes <= room ? new Uint8Array(item.buffer) : null
    memory.codings?.forget(memoryAt)
    if (stored === null) {
      new Uint32Array(memory.bytes.buffer, memoryAt, room / 4).fill(POISON)
      results[base + 2 * index] = 0
      results[base + 2 * index + 1] = 0
      continue
    }
    memory.bytes.set(stored, memoryAt)
    memory.bytes.fill(0, memoryAt + stored.length, memoryAt + alignUp(stored.length, SECTOR_BYTES))
    const flipped = strike?.kind === 'coding-crc-flipped' && index === struck
    const crc = (crcOf(stored) ^ (flipped ? 1 : 0)) >>> 0
    if (fits) device.encoded++
    memory.codings?.wrote(memoryAt, { storedBytes: stored.length, crc })
    results[base + 2 * index] = stored.length
    results[base + 2 * index + 1] = crc
  }
  return result
}

/** Decodes items to pages, one result each; the result of the job. */
export function decodeItems(
  device: Device,
  memory: CopyMemory,
  moves: readonly CodedMove[],
  strike: Strike<DecodeFault> | null,
  results: Uint32Array,
  base: number,
): number {
  const { end, result } = reach(strike, moves.length, device.sticky)
  const struck = (strike?.amount ?? 0) % moves.length
  for (const [index, move] of moves.slice(0, end).entries()) {
    const { mapping, pageAt, memoryAt, bytes, paddedBytes: storedBytes, coding } = move
    const codes = memory.bytes.subarray(memoryAt, memoryAt + storedBytes)
    const damaged = index === struck && (strike?.kind === 'decode-damaged' || strike?.kind === 'coding-rotten')
    if (damaged && strike.kind === 'coding-rotten') {
      const at = (strike.amount * 37) % storedBytes
      codes[at] = (codes[at] as number) ^ (1 << (strike.amount & 7))
      memory.codings?.spoil(memoryAt)
    }
    const item = damaged ? null : decodeToy(coding, codes, bytes)
    must(
      item !== null || damaged || memory.codings?.spoiled(memoryAt) === true,
      'V5',
      () => `${storedBytes} bytes at ${memoryAt} of ${memory.space} are decoded that nobody spoiled, and are no coding`,
    )
    const page = mapping.memory.words.subarray(pageAt / 4, (pageAt + bytes) / 4)
    if (item === null) page.fill(POISON)
    else page.set(item)
    if (item !== null) device.decoded++
    results[base + index] = item === null ? 1 : 0
  }
  return result
}
