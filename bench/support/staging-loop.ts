import { COMPLETION_WORDS } from '../../src/binding/completions.js'
import type { Port } from '../../src/binding/port.js'
import { SUBMISSION_DOUBLES } from '../../src/binding/submissions.js'
import type { Native } from '../../src/binding/surface.js'
import type { DeviceName } from '../../src/shared/base/device-name.js'
import { ActorControl, createControl } from '../../src/shared/rings/control.js'
import { type Load, RandomOffsets, type Target } from './io-loop.js'

/** Slots of one worker. */
const SLOTS = 2
const COMPLETIONS = 64
const NOTHING = new Float64Array(0)

/** Keeps the two staging slots of a worker busy through the port's own calls: no checksum, no gather, no scatter. */
export class StagingLoop {
  readonly #port: Port
  readonly #slots: readonly number[]
  readonly #completions = new Int32Array(new SharedArrayBuffer(4 * COMPLETION_WORDS * COMPLETIONS))

  constructor(native: Native, pool: number, device: DeviceName, slotBytes: number) {
    this.#port = native.openPort({
      depth: 1,
      submissions: new Float64Array(new SharedArrayBuffer(8 * SUBMISSION_DOUBLES)),
      completions: this.#completions,
      results: new Uint32Array(new SharedArrayBuffer(4)),
      parkWord: new ActorControl(createControl()).parkWord,
      pool,
      io: 'uring',
      register: false,
    })
    this.#slots = Array.from({ length: SLOTS }, () => {
      const slot = this.#port.openStaging(device, slotBytes)
      if (slot < 0) throw new Error(`a staging slot of ${slotBytes} bytes was refused: ${slot}`)
      return slot
    })
  }

  /** Random transfers of one size, one in each slot, for at least `ms`; operations a second. */
  run({ bytes, rw }: Load, { file, fileBytes }: Target, ms: number): number {
    const offsets = new RandomOffsets(bytes, fileBytes)
    const submit = (tag: number) => {
      const slot = this.#slots[tag] as number
      const at = offsets.next()
      const refused =
        rw === 'read'
          ? this.#port.stagingRead(slot, tag, file, at, bytes, NOTHING, 0, 0, 0)
          : this.#port.stagingWrite(slot, tag, file, at, 0, bytes, bytes, NOTHING, 0, 0)
      if (refused !== 0) throw new Error(`a ${rw} of ${bytes} bytes was refused: ${refused}`)
    }
    const startMs = performance.now()
    for (let tag = 0; tag < SLOTS; tag++) submit(tag)
    let flying = SLOTS
    let ended = 0
    while (flying > 0) {
      const count = this.#port.pump(0, 1, 100_000)
      if (count < 0) throw new Error(`pump failed with errno ${-count}`)
      const open = performance.now() - startMs < ms
      for (let at = 0; at < count * COMPLETION_WORDS; at += COMPLETION_WORDS) {
        if (this.#completions[at + 1] !== bytes) throw new Error(`a ${rw} ended as ${this.#completions[at + 1]}`)
        if (open) submit(this.#completions[at] as number)
        else flying -= 1
      }
      ended += count
    }
    return (ended / (performance.now() - startMs)) * 1000
  }

  close(): void {
    for (const slot of this.#slots) this.#port.closeStream(slot)
    this.#port.close()
  }
}
