import { createHash } from 'node:crypto'
import { type EngineShape, SHAPE } from '../../support/engine.js'

/**
 * What engines of a campaign publish: bytes are a function of (key, version, layer, segment), and every segment begins
 * with its version, so that whoever restores a block knows which publication it claims to be and can check every byte
 * of the claim. python/tests/campaign_engine.py holds the same functions.
 */

/** Blocks of 64 KiB: two layers of K and V. */
export const CAMPAIGN_SHAPE: EngineShape = {
  ...SHAPE,
  layers: 2,
  segmentBytes: 16_384,
  pages: 32,
  salt: 'campaign',
}

/** Prefixes that engines share, and blocks of each: 12 MiB in all, what the pool of a campaign's Manager just holds. */
export const NAMES = 24
export const NAMES_WANTED = 3
export const BLOCKS_MAX = 8

const VERSION_BYTES = 4

/** The bytes of one segment. Versions are below 2^32. */
export function versionedSegment(key: Uint8Array, version: number, layer: number, segment: number): Buffer {
  const { segmentBytes } = CAMPAIGN_SHAPE
  const head = Buffer.alloc(VERSION_BYTES)
  head.writeUInt32LE(version)
  const rest = createHash('shake128', { outputLength: segmentBytes - VERSION_BYTES })
    .update(key)
    .update(head)
    .update(Uint8Array.of(layer, segment))
    .digest()
  return Buffer.concat([head, rest])
}

/** The version that a segment claims. */
export function versionOf(segment: Uint8Array): number {
  return Buffer.from(segment.buffer, segment.byteOffset, VERSION_BYTES).readUInt32LE()
}
