import { COMPLETION_WORDS } from '../../binding/completions.js'
import { opening } from '../../binding/errors.js'
import type { Port } from '../../binding/port.js'
import { SUBMISSION_DOUBLES } from '../../binding/submissions.js'
import type { Native } from '../../binding/surface.js'
import { WRITE, WRITE_SPANS_MAX } from '../../shared/layout/descriptors.js'
import type { Actor } from './wiring.js'

/** What a lane says of the port it wants. */
export interface LanePortOptions {
  /** Reads and writes in flight at most, a power of two. */
  readonly depth: number
  /** Jobs on streams at most: they complete beside the reads and writes. */
  readonly jobs: number
  /** Checksums that the lane can have outstanding. */
  readonly results: number
  /** The lane makes writes of several spans. */
  readonly spans?: boolean
  readonly pool: number
  readonly io: 'uring' | 'posix'
  /** Try to register pool and files with the ring. */
  readonly register: boolean
}

/** A lane's port with the memory it shares with the addon. Made on the lane's thread, once. */
export interface LanePortMemory {
  readonly port: Port
  readonly submissions: Float64Array
  /** PortOptions.spans; empty for a lane that makes no such writes. */
  readonly spans: Float64Array
  readonly completions: Int32Array
  readonly results: Uint32Array
}

/** Opens the port of a lane and publishes it, so that peers can wake the lane when it sleeps there. */
export function openLanePort(native: Native, actor: Actor, options: LanePortOptions): LanePortMemory {
  const { depth, jobs, pool, io, register } = options
  let entries = 2 * depth
  while (entries < 2 * depth + jobs) entries *= 2
  const submissions = new Float64Array(new SharedArrayBuffer(8 * SUBMISSION_DOUBLES * depth))
  const spans = new Float64Array(new SharedArrayBuffer(options.spans ? 8 * WRITE.doubles * WRITE_SPANS_MAX * depth : 0))
  const completions = new Int32Array(new SharedArrayBuffer(4 * COMPLETION_WORDS * entries))
  const results = new Uint32Array(new SharedArrayBuffer(4 * Math.max(1, options.results)))
  const { parkWord } = actor.control
  const port = opening('port', () =>
    native.openPort({
      depth,
      submissions,
      ...(options.spans ? { spans } : {}),
      completions,
      results,
      parkWord,
      pool,
      io,
      register,
    }),
  )
  actor.control.publishPort(port.id)
  return { port, submissions, spans, completions, results }
}
