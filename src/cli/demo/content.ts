import { createHash } from 'node:crypto'

/** One block of the demo's engines: `layers` layers, K and V apart, segments of one size. */
export interface BlockShape {
  readonly layers: number
  readonly segmentBytes: number
}

/** Layers of the demo's model; a block is cut into 2 * LAYERS segments. */
export const LAYERS = 4

/** The shape of a block of `blockBytes`; null when it cannot be cut into segments of whole sectors. */
export function shapeOf(blockBytes: number): BlockShape | null {
  const segmentBytes = blockBytes / (2 * LAYERS)
  return Number.isInteger(segmentBytes) && segmentBytes >= 512 && segmentBytes % 512 === 0
    ? { layers: LAYERS, segmentBytes }
    : null
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
