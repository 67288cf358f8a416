import { readFileSync } from 'node:fs'
import { encodeFrameWithLength } from '../../src/shared/layout/wire/frame.js'
import { FRAME_BYTES_MAX } from '../../src/shared/layout/wire/limits.js'
import type { WireMessage } from '../../src/shared/layout/wire/messages.js'
import { SAMPLES } from './wire-samples.js'

/** One golden vector: a whole frame as hex, length word included, and its message as JSON. */
export interface GoldenVector {
  readonly name: string
  readonly request: number
  readonly frame: string
  readonly message: unknown
}

/** A message as plain JSON: bytes as { hex }, lists of u32 as arrays. */
export function plainMessage(value: unknown): unknown {
  if (value instanceof Uint8Array) return { hex: Buffer.from(value).toString('hex') }
  if (value instanceof Uint32Array) return [...value]
  if (Array.isArray(value)) return value.map(plainMessage)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plainMessage(each)]))
}

/** A whole frame of its own memory. */
export function frameOf(request: number, message: WireMessage): Uint8Array {
  const target = new Uint8Array(FRAME_BYTES_MAX)
  return target.slice(0, encodeFrameWithLength(target, request, message))
}

/** The vectors that the samples give today. */
export function makeGolden(): GoldenVector[] {
  return SAMPLES.map(({ name, request, message }) => ({
    name,
    request,
    frame: Buffer.from(frameOf(request, message)).toString('hex'),
    message: plainMessage(message),
  }))
}

/** Where the committed vectors are, from compiled tests. */
export const GOLDEN_FILE = new URL('../../../test/golden/wire.json', import.meta.url)

/** The committed vectors. */
export function readGolden(): GoldenVector[] {
  return JSON.parse(readFileSync(GOLDEN_FILE, 'utf8')) as GoldenVector[]
}
