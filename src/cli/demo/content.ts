import { createHash } from 'node:crypto'
import type { CodecName } from '../../shared/codec/setting.js'

/** Values of one head's vector in the demo's model. */
export const HEAD_DIM = 128

/** One block of the demo's engines: `layers` layers, K and V apart, segments of one size. */
export interface BlockShape {
  readonly layers: number
  readonly segmentBytes: number
}

/** Layers of the demo's model; a block is cut into 2 * LAYERS segments. */
export const LAYERS = 4
/** The same for TurboQuant, which leaves the first and last two as they are. */
const TURBOQUANT_LAYERS = 8

/** What a segment is a multiple of: a sector; with a codec also a token's vectors, 8 heads of 128 16-bit values. */
const SECTOR_BYTES = 512
const TOKEN_BYTES = 8 * HEAD_DIM * 2

/** The shape of a block of `blockBytes`; null when it cannot be cut into segments of whole sectors, or of whole tokens. */
export function shapeOf(blockBytes: number, codec: CodecName = 'none'): BlockShape | null {
  const layers = codec.startsWith('turboquant') ? TURBOQUANT_LAYERS : LAYERS
  const unit = codec === 'none' ? SECTOR_BYTES : TOKEN_BYTES
  const segmentBytes = blockBytes / (2 * layers)
  return segmentBytes > 0 && segmentBytes % unit === 0 ? { layers, segmentBytes } : null
}

/** The 32-byte key of the block with a name: engines hash tokens, the demo hashes names. */
export function keyOf(name: string): Buffer {
  return createHash('sha256').update(`orbitkv demo block ${name}`).digest()
}

/**
 * What the segment (layer, part) of a block holds: SHAKE-128 over key, layer and part, so that a byte that comes from
 * another block, layer, part or offset is never the right one. The Python engine computes the same.
 */
export function segmentContent(key: Uint8Array, layer: number, part: 0 | 1, bytes: number): Buffer {
  return createHash('shake128', { outputLength: bytes }).update(key).update(Uint8Array.of(layer, part)).digest()
}
