import type { CodecMethods } from './codecs.js'
import type { StagingMethods } from './cufile.js'
import type { SocketMethods } from './sockets.js'
import type { StreamMethods } from './streams.js'

export interface PortOptions {
  /** Submission entries in `submissions`; also the ring's depth. A power of two. */
  readonly depth: number
  /** SUBMISSION_DOUBLES float64 per entry, over a SharedArrayBuffer. */
  readonly submissions: Float64Array
  /** For SUBMIT_WRITE_SPANS, WRITE_SPANS_MAX descriptors for each entry, over a SharedArrayBuffer. Without: -EINVAL. */
  readonly spans?: Float64Array
  /** COMPLETION_WORDS int32 per entry, over a SharedArrayBuffer; a power of two of entries, at least 2 * depth. */
  readonly completions: Int32Array
  /** Where checksum jobs write their results, one uint32 a granule. */
  readonly results: Uint32Array
  /** This actor's park word (RUN 0, PARKED_JS 1, PARKED_NATIVE 2): int32 view whose element 0 is the word. */
  readonly parkWord: Int32Array
  /** The pool that offsets refer to, or -1. */
  readonly pool: number
  /** `uring`, or `posix` for hosts that forbid io_uring (threads with pread and pwrite, epoll to sleep). */
  readonly io: 'uring' | 'posix'
  /** Try to register the pool and files with the ring. What was got is in `Port.report()`. */
  readonly register: boolean
}

export interface PortReport {
  readonly io: 'uring' | 'posix'
  readonly setupFlags: number
  readonly registeredBuffers: boolean
  readonly registeredFiles: boolean
}

/** An actor's place to submit, reap and sleep. Owned by the thread that opened it; only that thread calls it. */
export interface Port extends StreamMethods, CodecMethods, StagingMethods, SocketMethods {
  /** Process-wide number of this port, for wake(). */
  readonly id: number
  report(): PortReport
  /**
   * Submits `count` entries from the start of `submissions`, reaps what is complete and writes completions from the
   * start of `completions`. Waits for `minComplete` completions at most `timeoutUs` microseconds (0: do not wait).
   * Returns the number of completions written, or -errno. At most `depth` reads and writes may be in flight: more
   * complete with -EBUSY. Waits are capped as in park().
   */
  pump(count: number, minComplete: number, timeoutUs: number): number
  /**
   * Sleeps until something native completes, the eventfd is written or `timeoutUs` passes (capped at 100,000), but
   * only while the park word is PARKED_NATIVE; then reaps as pump(0, 0, 0) does. Returns completions or -errno.
   * A loop over park() must call some JavaScript function each turn: V8 looks for terminate() at function entry, and in
   * a bare loop over native calls only after dozens of turns.
   */
  park(timeoutUs: number): number
  /** Reads and writes submitted and not reaped. */
  inFlight(): number
  /** Waits at most `maxMs` for what is in flight; what remains is quarantined. Returns what is still in flight. */
  drain(maxMs: number): number
  /** Drains, then closes the ring. Idempotent. */
  close(): void
}

/** Ports, at the addon. */
export interface PortFunctions {
  openPort(options: PortOptions): Port
  /** Wakes a port that is parked natively, from any thread. */
  wake(port: number): void
  /** Wakes every open port: for the exit handler of the main thread. */
  wakeAll(): void
  /** Drains and closes everything of this process at most `maxMs`: for the exit handler of the main thread. */
  shutdown(maxMs: number): void
}
