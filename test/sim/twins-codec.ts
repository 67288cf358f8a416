import type { DramWorkerEffect, DramWorkerInput } from '../../src/actors/dram-worker/machine.js'
import type { HostRestoreEffect, HostRestoreInput } from '../../src/actors/host-restore/machine.js'
import type { SsdWorkerEffect, SsdWorkerInput } from '../../src/actors/ssd-worker/machine.js'
import type { WritebackEffect, WritebackInput } from '../../src/actors/writeback/machine.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { WRITE } from '../../src/shared/layout/descriptors.js'
import { EMPTY_LIST } from '../../src/shared/layout/records.js'
import { finishSlot } from '../../src/shared/layout/slot-results.js'
import { Around } from './around.js'
import { seedWithFailedDecodings } from './cases.js'
import type { LaneMachine } from './twin.js'
import type { Planted } from './twins.js'

/** Bugs of storage codecs, each planted in one place. */
export const CODEC_TWINS: readonly Planted[] = [
  {
    name: 'a block is taken to be as long as the one that was coded before it',
    from: 15,
    shows: /^V1: what is sealed/,
    entries: (Base) =>
      class extends Base {
        readonly #before = new Map<number, number>()
        override coded(entry: number, granule: number, storedBytes: number): void {
          const before = this.#before.get(granule) ?? storedBytes
          this.#before.set(granule, storedBytes)
          super.coded(entry, granule, Math.min(before, storedBytes))
        }
      },
  },
  {
    name: 'the room that an item was refused in is forgotten',
    from: 2,
    shows: /^O1: .*pool/,
    entries: (Base) =>
      class extends Base {
        override keepRaw(entry: number, granule: number): void {
          const { pool } = this.memory
          Object.assign(pool, { free: () => {} })
          super.keepRaw(entry, granule)
          // Its own method again, which the class has.
          Reflect.deleteProperty(pool, 'free')
        }
      },
  },
  {
    name: 'what a coding does not need of its room stays with it',
    from: 65,
    shows: /^O1/,
    entries: (Base) =>
      class extends Base {
        override coded(entry: number, granule: number, storedBytes: number): void {
          const { pool } = this.memory
          Object.assign(pool, { shrink: () => 0 })
          super.coded(entry, granule, storedBytes)
          Reflect.deleteProperty(pool, 'shrink')
        }
      },
  },
  {
    name: 'a coding is taken to be as long as its sectors',
    from: 8,
    shows: /^V1: what is sealed/,
    entries: (Base) =>
      class extends Base {
        override coded(entry: number, granule: number, storedBytes: number): void {
          const most = this.shape(entry).geometry.granules[granule]?.segmentBytes ?? 0
          super.coded(entry, granule, Math.min(most, Math.ceil(storedBytes / 512) * 512))
        }
      },
  },
  {
    name: 'a decoding that failed counts as done',
    from: 7,
    shows: /^V5/,
    dramWorker: (real) => new DeafToDecodings(real),
  },
  {
    name: 'codings that are none count as restored',
    from: 29,
    shows: /^V5/,
    dramWorker: (real) => new BlindToDamage(real),
  },
  {
    name: 'what was decoded from the window counts as restored although it failed',
    shows: /^V5/,
    plan: (seed) => seedWithFailedDecodings(seed, 'window'),
    hostRestore: (real) => new DeafToWindow(real),
  },
  {
    name: 'a decoding from a staging slot that failed counts as done',
    from: 7,
    shows: /^V5/,
    plan: (seed) => seedWithFailedDecodings(seed, 'slot'),
    ssdWorker: (real) => new DeafToSlots(real),
  },
  {
    name: 'the last two spans of a write go in the wrong order',
    shows: /^V1: sector [0-9]+ of file/,
    writeback: (real) => new SpansMistaken(real, (last, before) => [...last, ...before]),
  },
  {
    name: 'a span of a write is that of another granule',
    shows: /^V1: sector [0-9]+ of file/,
    writeback: (real) =>
      new SpansMistaken(real, (last, before) => [...before, ...before.slice(0, 1), ...last.slice(1)]),
  },
  {
    name: 'an engine leaves before what codecs hold for it was given back',
    from: 2,
    shows: /^D1: .* holds a workspace/,
    context: ({ devices }) => {
      for (const { workspaces } of devices) if (workspaces !== null) Object.assign(workspaces, { left: () => true })
    },
  },
  {
    name: 'a lane says that its workspace is gone and keeps it',
    from: 2,
    shows: /^D1: .* holds a workspace/,
    dramWorker: (real) => new Hoarder(real),
  },
  {
    name: 'a codec without room has what is stored hidden',
    from: 54,
    shows: /^S3/,
    context: (context) => {
      const { tally, storage } = context
      const restoreEnded = tally.restoreEnded.bind(tally)
      Object.assign(tally, {
        restoreEnded: (status: number, latencyUs: number) => {
          restoreEnded(status, latencyUs)
          if (status !== ERROR_CODES.capacity_codec) return
          for (let entry = 0; entry < 4; entry++) storage.invalidate(entry)
        },
      })
    },
  },
]

/** Keeps what its codec holds. */
class Hoarder extends Around<DramWorkerInput, DramWorkerEffect> {
  protected pass(_: DramWorkerInput, effects: DramWorkerEffect[], out: DramWorkerEffect[]): void {
    for (const effect of effects) if (effect.kind !== 'release-workspace') out.push(effect)
  }
}

/** Hears of no decoding that failed. */
class DeafToDecodings extends Around<DramWorkerInput, DramWorkerEffect> {
  readonly #decodings = new Set<number>()

  protected override hear(input: DramWorkerInput): DramWorkerInput {
    if (input.kind !== 'stream-completed' || !this.#decodings.delete(input.tag)) return input
    return { ...input, result: 0 }
  }

  protected pass(_: DramWorkerInput, effects: DramWorkerEffect[], out: DramWorkerEffect[]): void {
    for (const effect of effects) if (effect.kind === 'decode') this.#decodings.add(effect.tag)
    out.push(...effects)
  }
}

/** Says DONE of restores that found bytes which are no coding. */
class BlindToDamage extends Around<DramWorkerInput, DramWorkerEffect> {
  readonly #jobs = new Map<
    number,
    Extract<Extract<DramWorkerInput, { kind: 'request' }>['request'], { kind: 'restore' }>
  >()

  protected pass(input: DramWorkerInput, effects: DramWorkerEffect[], out: DramWorkerEffect[]): void {
    if (input.kind === 'request' && input.request.kind === 'restore') this.#jobs.set(input.request.job, input.request)
    for (const effect of effects) {
      const reply = effect.kind === 'reply' ? effect.reply : null
      const job = reply?.kind === 'restore-done' && reply.list.length > 0 ? this.#jobs.get(reply.job) : undefined
      if (reply?.kind !== 'restore-done' || job === undefined) {
        out.push(effect)
        continue
      }
      const { bytes, admitUs } = job
      out.push(finishSlot(job, { status: ERROR_CODES.ok, firstFailed: -1, bytes, admitUs }))
      out.push({ kind: 'reply', reply: { ...reply, status: ERROR_CODES.ok, bytes, list: EMPTY_LIST } })
    }
  }
}

/** Hears of no decoding from its window that failed. */
class DeafToWindow extends Around<HostRestoreInput, HostRestoreEffect> {
  readonly #decodings = new Set<number>()

  protected override hear(input: HostRestoreInput): HostRestoreInput {
    if (input.kind !== 'stream-completed' || !this.#decodings.delete(input.tag)) return input
    return { ...input, result: 0 }
  }

  /** Parts start when a turn has ended. */
  override settle(out: HostRestoreEffect[]): void {
    super.settle(out)
    for (const effect of out) if (effect.kind === 'decode') this.#decodings.add(effect.tag)
  }

  protected pass(_: HostRestoreInput, effects: HostRestoreEffect[], out: HostRestoreEffect[]): void {
    out.push(...effects)
  }
}

/** Hears of no decoding from a staging slot that failed. */
class DeafToSlots extends Around<SsdWorkerInput, SsdWorkerEffect> {
  readonly #decodings = new Set<number>()

  protected override hear(input: SsdWorkerInput): SsdWorkerInput {
    if (input.kind !== 'completed' || !this.#decodings.delete(input.tag)) return input
    return { ...input, result: 0 }
  }

  protected pass(_: SsdWorkerInput, effects: SsdWorkerEffect[], out: SsdWorkerEffect[]): void {
    for (const effect of effects) if (effect.kind === 'decode') this.#decodings.add(effect.tag)
    out.push(...effects)
  }
}

/** Writes of several spans whose last two are made others. */
class SpansMistaken extends Around<WritebackInput, WritebackEffect> {
  readonly #mistake: (last: number[], before: number[]) => number[]

  constructor(
    real: LaneMachine<WritebackInput, WritebackEffect>,
    mistake: (last: number[], before: number[]) => number[],
  ) {
    super(real)
    this.#mistake = mistake
  }

  protected pass(_: WritebackInput, effects: WritebackEffect[], out: WritebackEffect[]): void {
    for (const effect of effects) {
      if (effect.kind === 'submit-write-spans') {
        const at = effect.offset + (effect.spans - 2) * WRITE.doubles
        const [before, last] = [effect.list.slice(at, at + WRITE.doubles), effect.list.slice(at + WRITE.doubles)]
        effect.list.set(this.#mistake([...last.slice(0, WRITE.doubles)], [...before]), at)
      }
      out.push(effect)
    }
  }
}
