import { COMPLETION_WORDS } from '../../src/binding/completions.js'
import type { Port, PortReport } from '../../src/binding/port.js'
import { SUBMISSION_DOUBLES, SUBMIT_READ, SUBMIT_WRITE } from '../../src/binding/submissions.js'
import type { Native } from '../../src/binding/surface.js'
import type { DeviceName } from '../../src/shared/base/device-name.js'
import { ActorControl, createControl } from '../../src/shared/rings/control.js'

/** What one sample does. */
export interface Load {
  readonly bytes: number
  readonly depth: number
  readonly rw: 'read' | 'write'
}

/** Where it does it. */
export interface Target {
  readonly file: number
  readonly fileBytes: number
}

const DEPTH_MAX = 128

/** Random whole units of a file; xorshift32, so that choosing costs nothing beside the I/O. */
export class RandomOffsets {
  #state = 0x9e3779b9
  readonly #bytes: number
  readonly #units: number

  constructor(bytes: number, fileBytes: number) {
    this.#bytes = bytes
    this.#units = Math.floor(fileBytes / bytes)
  }

  next(): number {
    let state = this.#state
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    this.#state = state
    return ((state >>> 0) % this.#units) * this.#bytes
  }
}

/**
 * Keeps a port busy as the lanes do: the port's own submissions, completions and pump, opened with the options of a
 * host-reader lane, and nothing between them but a free list.
 */
export class IoLoop {
  readonly #port: Port
  readonly #submissions = new Float64Array(new SharedArrayBuffer(8 * SUBMISSION_DOUBLES * DEPTH_MAX))
  readonly #completions = new Int32Array(new SharedArrayBuffer(4 * COMPLETION_WORDS * 2 * DEPTH_MAX))
  /** Calls of pump. */
  pumps = 0

  constructor(native: Native, pool: number) {
    this.#port = native.openPort({
      depth: DEPTH_MAX,
      submissions: this.#submissions,
      completions: this.#completions,
      results: new Uint32Array(new SharedArrayBuffer(4)),
      parkWord: new ActorControl(createControl()).parkWord,
      pool,
      io: 'uring',
      register: true,
    })
  }

  /** Registers the pool with a device's driver; it stays so until the loop is closed. */
  pageLock(device: DeviceName): void {
    this.#port.openStream(device)
  }

  report(): PortReport {
    return this.#port.report()
  }

  /** Random I/O at one depth for at least `ms`; operations a second. Tag and pool place of an operation are one. */
  run({ bytes, depth, rw }: Load, { file, fileBytes }: Target, ms: number): number {
    const offsets = new RandomOffsets(bytes, fileBytes)
    const submissions = this.#submissions
    const completions = this.#completions
    const op = rw === 'read' ? SUBMIT_READ : SUBMIT_WRITE
    const submit = (at: number, tag: number) => {
      submissions[at] = op
      submissions[at + 1] = tag
      submissions[at + 2] = file
      submissions[at + 3] = offsets.next()
      submissions[at + 4] = tag * bytes
      submissions[at + 5] = bytes
    }
    const startMs = performance.now()
    for (let tag = 0; tag < depth; tag++) submit(tag * SUBMISSION_DOUBLES, tag)
    let pending = depth
    let flying = depth
    let ended = 0
    let open = true
    while (flying > 0) {
      const count = this.#port.pump(pending, 1, 100_000)
      if (count < 0) throw new Error(`pump failed with errno ${-count}`)
      this.pumps += 1
      if (open && performance.now() - startMs >= ms) open = false
      pending = 0
      for (let at = 0; at < count * COMPLETION_WORDS; at += COMPLETION_WORDS) {
        if (completions[at + 1] !== bytes) throw new Error(`a ${rw} of ${bytes} bytes ended as ${completions[at + 1]}`)
        if (open) submit(pending++ * SUBMISSION_DOUBLES, completions[at] as number)
      }
      ended += count
      flying += pending - count
    }
    return (ended / (performance.now() - startMs)) * 1000
  }

  /**
   * Writes a file from byte `from` to its end out of the pool, `bytes` at a time, in order: `fill` makes the pool bytes of
   * one write first.
   */
  fill(target: Target, bytes: number, fill: (poolOffset: number, fileOffset: number) => void, from = 0): void {
    for (let fileOffset = from; fileOffset < target.fileBytes; ) {
      let count = 0
      for (; count < 8 && fileOffset < target.fileBytes; count++, fileOffset += bytes) {
        fill(count * bytes, fileOffset)
        this.#submissions.set(
          [SUBMIT_WRITE, count, target.file, fileOffset, count * bytes, bytes],
          count * SUBMISSION_DOUBLES,
        )
      }
      for (let left = count, pending = count; left > 0; pending = 0) {
        const ended = this.#port.pump(pending, left, 100_000)
        if (ended < 0) throw new Error(`pump failed with errno ${-ended}`)
        for (let at = 0; at < ended; at++) {
          const result = this.#completions[at * COMPLETION_WORDS + 1]
          if (result !== bytes) throw new Error(`a write of ${bytes} bytes ended as ${result}`)
        }
        left -= ended
      }
    }
  }

  close(): void {
    this.#port.close()
  }
}
