/**
 * Between the demo and its engine processes: JSON lines, commands on standard input, events on standard output. Both
 * engines, TypeScript and Python, speak it.
 */

import type { CodecName } from '../../shared/codec/setting.js'

/** What an engine is started with, as one JSON argument. */
export interface EngineParams {
  readonly socketPath: string
  readonly name: string
  /** Hexadecimal, 16 bytes: one an engine start. */
  readonly instanceId: string
  readonly layers: number
  readonly segmentBytes: number
  /** Pages of engine memory: the most blocks that one request has. */
  readonly pages: number
  /** What the Manager stores pages in: what an engine may expect back. */
  readonly codec: CodecName
  /** UUID of the CUDA device that pages lie on; empty: host memory. */
  readonly device: string
}

export type EngineCommand =
  /** Restore what is cached, check it, publish the rest. `blocks`: hexadecimal keys in order. */
  | { readonly op: 'request'; readonly id: number; readonly blocks: readonly string[] }
  /** The same, but say `restoring` when the restore was admitted, and never look again: to be killed. */
  | { readonly op: 'hang'; readonly id: number; readonly blocks: readonly string[] }
  /** Wait until everything published is on the SSD. */
  | { readonly op: 'sync' }
  | { readonly op: 'stop' }

export type EngineEvent =
  | { readonly event: 'ready' }
  | { readonly event: 'restoring'; readonly id: number }
  | { readonly event: 'synced' }
  | ({ readonly event: 'done' } & RequestResult)
  | { readonly event: 'failed'; readonly message: string }

/** What one request came to. Bytes are engine bytes. */
export interface RequestResult {
  readonly id: number
  readonly blocks: number
  readonly fromDram: number
  readonly fromSsd: number
  readonly missed: number
  /** Blocks that were restored and differ from what they should hold. */
  readonly mismatches: number
  readonly restoredBytes: number
  /** From the query to the end of the restore; 0 when nothing was restored. */
  readonly restoreUs: number
  /** Blocks that were promised but could not be restored: recomputed, as an engine would. */
  readonly restoreFailures: number
  readonly publishedBlocks: number
  /** Sums of squares over the vectors that TurboQuant restored: K error, K, V error, V. Zeros with other codecs. */
  readonly deviation: readonly [number, number, number, number]
}
