import type { DramWorkerEffect, DramWorkerInput } from '../../src/actors/dram-worker/machine.js'
import type { HostReaderEffect, HostReaderInput } from '../../src/actors/host-reader/machine.js'
import type { HostRestoreEffect, HostRestoreInput } from '../../src/actors/host-restore/machine.js'
import type { WritebackEffect, WritebackInput } from '../../src/actors/writeback/machine.js'
import type { CancelOutcome } from '../../src/manager/storage/ports.js'
import { Storage } from '../../src/manager/storage/storage.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { READ } from '../../src/shared/layout/descriptors.js'
import { listAt } from '../../src/shared/layout/records.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { Around } from './around.js'
import type { Plan } from './plan.js'
import type { Twin } from './twin.js'
import { CODEC_TWINS } from './twins-codec.js'
import { STAGING_TWINS } from './twins-staging.js'

/**
 * Bugs of the kind that this simulator exists for, each planted in one place of otherwise real code. A simulator that
 * does not find them proves nothing when it finds nothing.
 */
export interface Planted extends Twin {
  /** What a violation of it says: found for another reason is not found. */
  readonly shows: RegExp
  /** A seed from which it is found soon: hunting starts here, so that a test is short. */
  readonly from?: number
  /** Plans in which it is looked for; else those of the seeds. */
  readonly plan?: (seed: number) => Plan
}

export const TWINS: readonly Planted[] = [
  {
    name: 'memory of an abandoned block is freed while copies into it are in flight',
    shows: /^O2: (frees|a job)/,
    entries: (Base) =>
      class extends Base {
        override hide(entry: number): void {
          const inUse = this.directory.interests(entry) > 0
          super.hide(entry)
          if (inUse && this.directory.dramSlot(entry) >= 0 && !this.resident(entry)) this.deallocate(entry)
        }
      },
  },
  {
    name: 'blocks are found while they are still being assembled',
    from: 10,
    shows: /^V1/,
    storage: (...args) =>
      new (class extends Storage {
        #finding = false
        // Only who looks keys up is fooled: whoever publishes still sees what is there.
        override published(entry: number): boolean {
          return super.published(entry) || (this.#finding && entry >= 0 && this.assembling(entry))
        }
        override lookup(...keys: Parameters<Storage['lookup']>): number {
          return this.#find(() => super.lookup(...keys))
        }
        #find(look: () => number): number {
          this.#finding = true
          const found = look()
          this.#finding = false
          return found
        }
      })(...args),
  },
  {
    name: 'leases and restores do not hold their blocks',
    shows: /^(O7|O2)|an offset is asked/,
    storage: (...args) =>
      new (class extends Storage {
        override hold(): void {}
        override drop(): void {}
      })(...args),
  },
  {
    name: 'a restore says DONE when its copies were queued',
    shows: /^O2: a slot ended/,
    dramWorker: (real) => new EarlyFinish(real),
  },
  { name: 'reads are handed on unverified', from: 5, shows: /^V5/, hostReader: (real) => new Credulous(real) },
  {
    name: 'a write is reported before all of its pieces ended',
    shows: /^O2: (frees|reserves)/,
    writeback: (real) => new HastyWriter(real),
  },
  {
    name: 'a reservation waits for reads that nobody submitted',
    from: 27,
    shows: /^D1/,
    storage: (...args) =>
      new (class extends Storage {
        override cancelFill(entry: number, waiter: number): CancelOutcome {
          super.cancelFill(entry, waiter)
          return 'draining'
        }
      })(...args),
  },
  {
    name: 'a read that was cancelled is answered while the disk still has it',
    from: 24,
    shows: /^O2/,
    hostReader: (real) => new HastyCancel(real),
  },
  {
    name: 'a copy that failed counts as done',
    shows: /^(V1|V5)/,
    dramWorker: (real) => new Optimist(real),
  },
  {
    name: 'granules are copied although their read failed',
    from: 10,
    shows: /^V5/,
    hostRestore: (real) => new Trusting(real),
  },
  {
    name: 'the descriptors of some requests stay open',
    shows: /^D1: descriptors/,
    context: (context) => {
      const { ports } = context
      const closeFd = (fd: number) => {
        if (context.sessions.count % 2 === 0) ports.closeFd(fd)
      }
      Object.assign(context, { ports: { ...ports, closeFd } })
    },
  },
  {
    name: 'a Manager that starts writes to the file of the one that died',
    from: 54,
    shows: /^K4/,
    start: 'reuses-inode',
  },
  {
    name: 'the device says that it is done before the bytes have moved',
    shows: /^(O2|V1)/,
    device: 'early-events',
  },
  {
    name: 'an entry whose fill failed stays in DRAM as if it were whole',
    from: 21,
    // Either a wrong byte, or the census that misses the block among those of its class.
    shows: /^(V5|O1: blocks of class)/,
    entries: (Base) =>
      class extends Base {
        override deallocate(entry: number): void {
          if (!this.published(entry)) return super.deallocate(entry)
          this.filled(entry)
          this.world.storage.cache.arrived(entry, { guess: false, demanded: true })
        }
      },
  },
  ...STAGING_TWINS,
  ...CODEC_TWINS,
]

/** Finishes the slot of a restore together with the copies that it has just queued. */
class EarlyFinish extends Around<DramWorkerInput, DramWorkerEffect> {
  readonly #early = new Set<string>()

  protected pass(input: DramWorkerInput, effects: DramWorkerEffect[], out: DramWorkerEffect[]): void {
    for (const effect of effects) {
      if (
        effect.kind === 'finish-slot' &&
        this.#early.delete(`${effect.slots}/${effect.slot}/${effect.slotGeneration}`)
      )
        continue
      out.push(effect)
    }
    if (input.kind !== 'request' || input.request.kind !== 'restore' || input.request.more === 1) return
    const { slots, slot, slotGeneration, bytes, admitUs } = input.request
    if (!effects.some(({ kind }) => kind === 'copy')) return
    this.#early.add(`${slots}/${slot}/${slotGeneration}`)
    const state = SLOT_STATE.done
    out.push({
      kind: 'finish-slot',
      slots,
      slot,
      slotGeneration,
      state,
      errorCode: 0,
      firstFailed: 0xffff_ffff,
      bytes,
      admitUs,
    })
  }
}

/** Asks the disk not to check anything. */
class Credulous extends Around<HostReaderInput, HostReaderEffect> {
  protected pass(_: HostReaderInput, effects: HostReaderEffect[], out: HostReaderEffect[]): void {
    for (const effect of effects) out.push(effect.kind === 'submit-read' ? { ...effect, verify: false } : effect)
  }
}

/** Answers a write job, with success, at the first of its completions. */
class HastyWriter extends Around<WritebackInput, WritebackEffect> {
  #jobs: { job: number; bytes: number }[] = []
  readonly #answered = new Set<number>()

  protected pass(input: WritebackInput, effects: WritebackEffect[], out: WritebackEffect[]): void {
    if (input.kind === 'request' && input.request.kind === 'write') {
      const { job, list } = input.request
      let bytes = 0
      for (let at = 1; at < list.length; at += 2) bytes += list.doubles[list.offset + at] as number
      this.#jobs.push({ job, bytes })
    }
    for (const effect of effects) {
      if (effect.kind === 'reply' && effect.reply.kind === 'write-done') {
        const { job } = effect.reply
        this.#jobs = this.#jobs.filter((each) => each.job !== job)
        if (this.#answered.delete(job)) continue
      }
      out.push(effect)
    }
    const first = this.#jobs[0]
    if (input.kind !== 'io-completed' || first === undefined || this.#answered.has(first.job)) return
    this.#answered.add(first.job)
    const reply = { kind: 'write-done', job: first.job, status: 0, bytes: first.bytes, latencyUs: 1 } as const
    out.push({ kind: 'reply', reply })
  }
}

/** Answers what it has submitted of a batch as soon as the batch is cancelled; the end of the read is nobody's then. */
class HastyCancel extends Around<HostReaderInput, HostReaderEffect> {
  /** Reads with their client, by `batch/index`, and those that were answered too early. */
  readonly #open = new Map<string, HostReaderEffect & { kind: 'reply' }>()
  readonly #early = new Set<string>()

  protected pass(input: HostReaderInput, effects: HostReaderEffect[], out: HostReaderEffect[]): void {
    if (input.kind === 'request' && input.request.kind === 'read-batch') {
      const { client } = input
      const { batch, list } = input.request
      for (let at = 0; at < list.length; at += READ.doubles) {
        const index = listAt(list, at + READ.index)
        const status = ERROR_CODES.cancelled
        const reply = { kind: 'read-done', batch, index, status, bytes: 0 } as const
        this.#open.set(`${client}/${batch}/${index}`, { kind: 'reply', client, reply })
      }
    }
    for (const effect of effects) {
      if (effect.kind === 'reply' && effect.reply.kind === 'read-done') {
        const read = `${effect.client}/${effect.reply.batch}/${effect.reply.index}`
        this.#open.delete(read)
        if (this.#early.delete(read)) continue
      }
      out.push(effect)
    }
    if (input.kind !== 'request' || input.request.kind !== 'cancel-batch') return
    for (const [read, effect] of this.#open) {
      if (!read.startsWith(`${input.client}/${input.request.batch}/`)) continue
      this.#open.delete(read)
      this.#early.add(read)
      out.push(effect)
    }
  }
}

/** Hears of no failure of its stream. */
class Optimist extends Around<DramWorkerInput, DramWorkerEffect> {
  protected override hear(input: DramWorkerInput): DramWorkerInput {
    return input.kind === 'stream-completed' ? { ...input, result: 0 } : input
  }

  protected pass(_: DramWorkerInput, effects: DramWorkerEffect[], out: DramWorkerEffect[]): void {
    out.push(...effects)
  }
}

/** Hears of no failure of its readers. */
class Trusting extends Around<HostRestoreInput, HostRestoreEffect> {
  protected override hear(input: HostRestoreInput): HostRestoreInput {
    return input.kind === 'read-done' ? { ...input, status: ERROR_CODES.ok } : input
  }

  protected pass(_: HostRestoreInput, effects: HostRestoreEffect[], out: HostRestoreEffect[]): void {
    out.push(...effects)
  }
}
