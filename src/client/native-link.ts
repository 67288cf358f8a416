import { COMPLETION, COMPLETION_WORDS } from '../binding/completions.js'
import type { Port } from '../binding/port.js'
import { SUBMISSION_DOUBLES } from '../binding/submissions.js'
import type { Native } from '../binding/surface.js'
import { ProtocolError } from '../shared/base/errors.js'
import { FRAME_BYTES_MAX } from '../shared/layout/wire/limits.js'
import type { Link, LinkEvent, SlotLines } from './link.js'

/**
 * A Link over the addon. The port does no file I/O, so it uses the posix variant: nothing here needs io_uring, which
 * many engine sandboxes forbid. Owned by the thread that opened it.
 */

/** Entries of the unused submission list; the least that a port takes. */
const DEPTH = 8
/** Completions taken by one poll; more wait in the port for the next. */
const COMPLETIONS = 64

export class NativeLink implements Link {
  readonly #native: Native
  readonly #port: Port
  readonly #connection: number
  readonly #completions: Int32Array
  readonly #frame = new Uint8Array(FRAME_BYTES_MAX)
  #open = true

  /**
   * Connects by `join`, with its port, and checks who is there: another user's process could squat a path.
   * @throws what `join` throws (ENOENT, ECONNREFUSED, EACCES); ProtocolError peer_uid_refused.
   */
  constructor(native: Native, join: (port: Port) => number, uidsAllowed: readonly number[]) {
    this.#native = native
    this.#completions = new Int32Array(new SharedArrayBuffer(COMPLETIONS * COMPLETION_WORDS * 4))
    this.#port = native.openPort({
      depth: DEPTH,
      submissions: new Float64Array(new SharedArrayBuffer(DEPTH * SUBMISSION_DOUBLES * 8)),
      completions: this.#completions,
      results: new Uint32Array(new SharedArrayBuffer(4)),
      parkWord: new Int32Array(new SharedArrayBuffer(4)),
      pool: -1,
      io: 'posix',
      register: false,
    })
    try {
      this.#connection = join(this.#port)
      const { uid } = this.#port.peer(this.#connection)
      if (!uidsAllowed.includes(uid)) {
        throw new ProtocolError('peer_uid_refused', `Cannot trust the Manager: it runs as user ${uid}`, { uid })
      }
    } catch (error) {
      this.#port.close()
      throw error
    }
  }

  send(frame: Uint8Array, bytes: number, fds: readonly number[]): number {
    return this.#port.send(this.#connection, frame, bytes, fds)
  }

  poll(each: (event: LinkEvent) => void): void {
    const count = this.#port.pump(0, 0, 0)
    // What came may be lost with it: no request would ever know whether its answer was among that.
    if (count < 0) return each({ kind: 'closed' })
    for (let i = 0; i < count && this.#open; i++) {
      const kind = this.#completions[i * COMPLETION_WORDS + 3]
      if (kind === COMPLETION.frame) this.#takeFrame(each)
      else if (kind === COMPLETION.closed) each({ kind: 'closed' })
      else if (kind === COMPLETION.peerExited) each({ kind: 'peer-exited' })
    }
  }

  #takeFrame(each: (event: LinkEvent) => void): void {
    const bytes = this.#port.takeFrame(this.#connection, this.#frame)
    const fds = this.#port.takeFds(this.#connection)
    if (bytes < 0) each({ kind: 'closed' })
    else each({ kind: 'frame', frame: this.#frame.subarray(0, bytes), fds })
  }

  openSlots(fds: readonly number[], count: number): SlotLines {
    const [client = -1, manager = -1] = fds
    try {
      return new NativeSlotLines(this.#native, this.#native.openSlots(client, manager, count))
    } finally {
      for (const fd of fds) this.#native.closeFd(fd)
    }
  }

  close(): void {
    if (!this.#open) return
    this.#open = false
    this.#port.closeConnection(this.#connection)
    this.#port.close()
  }
}

class NativeSlotLines implements SlotLines {
  readonly #native: Native
  readonly #slots: number

  constructor(native: Native, slots: number) {
    this.#native = native
    this.#slots = slots
  }

  submit(index: number, generation: number, opId: number, fence: number): void {
    this.#native.slotSubmit(this.#slots, index, generation, opId, fence)
  }
  raiseFence(index: number, fence: number): void {
    this.#native.slotRaiseFence(this.#slots, index, fence)
  }
  free(index: number, generation: number): void {
    this.#native.slotFree(this.#slots, index, generation)
  }
  poll(index: number, result: Float64Array): number {
    return this.#native.slotPoll(this.#slots, index, result)
  }
  close(): void {
    this.#native.closeSlots(this.#slots)
  }
}
