import type { SsdWorkerEffect, SsdWorkerInput } from '../../src/actors/ssd-worker/machine.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { NO_CRC, SOURCE, TARGET } from '../../src/shared/layout/descriptors.js'
import { EMPTY_LIST, listAt } from '../../src/shared/layout/records.js'
import { SsdRouteSwitch } from '../../src/shared/routing/ssd-route-switch.js'
import { Around } from './around.js'
import { seedWithHeldCodings } from './cases.js'
import type { Planted } from './twins.js'

/** Bugs planted in the cuFile route. */
export const STAGING_TWINS: readonly Planted[] = [
  {
    name: 'a staging slot is given away before its scatter has ended',
    from: 16,
    shows: /^O2: slot \d of worker \d+ is given away while it is scattering/,
    ssdWorker: (real) => new EarlySlot(real),
  },
  {
    name: 'an extent is published when its first chunk was written',
    shows: /^V2: the extent/,
    ssdWorker: (real) => new HastyExtent(real),
  },
  {
    name: 'the leases of a restore are let go with its first batch',
    shows: /^O7: cuFile reads/,
    ssdWorker: (real) => new EarlyLeases(real),
  },
  {
    name: 'a scatter that failed counts as done',
    from: 15,
    shows: /^V5/,
    ssdWorker: (real) => new DeafToScatters(real),
  },
  {
    name: 'what was read through staging is scattered unverified',
    shows: /^V5/,
    ssdWorker: (real) => new Unverified(real),
  },
  {
    name: 'an arena is let go with the first chunk that was written from it',
    plan: seedWithHeldCodings,
    shows: /^O2: worker \d+ lets go of codings/,
    ssdWorker: (real) => new EarlyArena(real),
  },
  {
    name: 'the next job is coded into an arena that is held',
    plan: seedWithHeldCodings,
    shows: /^O2: worker \d+ codes where codings are held/,
    ssdWorker: (real) => new GreedyArena(real),
  },
  {
    name: 'cuFile goes on under auto after it has failed',
    shows: /^N[234]/,
    context: (context) => Object.assign(context, { routes: new StubbornRoutes(context.options.routes) }),
  },
]

type Effect<K> = Extract<SsdWorkerEffect, { readonly kind: K }>

abstract class AroundSsdWorker extends Around<SsdWorkerInput, SsdWorkerEffect> {}

/** Tells the machine that a scatter has ended as soon as it is queued. */
class EarlySlot extends AroundSsdWorker {
  protected pass(_: SsdWorkerInput, effects: SsdWorkerEffect[], out: SsdWorkerEffect[]): void {
    for (const effect of effects) {
      out.push(effect)
      if (effect.kind === 'scatter') this.step({ kind: 'completed', tag: effect.tag, result: 0 }, out)
    }
  }
}

/** Lets go of what is held as soon as one chunk of it was written. */
class EarlyArena extends AroundSsdWorker {
  readonly #writes = new Map<number, number>()
  readonly #gone = new Set<number>()

  protected pass(input: SsdWorkerInput, effects: SsdWorkerEffect[], out: SsdWorkerEffect[]): void {
    const worker = input.kind === 'completed' ? this.#writes.get(input.tag) : undefined
    if (worker !== undefined && effects.some((effect) => effect.kind === 'write' && effect.codeCount > 0)) {
      this.#gone.add(worker)
      out.push({ kind: 'release-codes', worker })
    }
    for (const effect of effects) {
      if (effect.kind === 'write' && effect.codeCount > 0) this.#writes.set(effect.tag, effect.worker)
      if (effect.kind === 'release-codes' && this.#gone.delete(effect.worker)) continue
      out.push(effect)
    }
  }
}

/** Codes again what is coded already, into the same arena. */
class GreedyArena extends AroundSsdWorker {
  #last: Effect<'encode'> | null = null

  protected pass(_: SsdWorkerInput, effects: SsdWorkerEffect[], out: SsdWorkerEffect[]): void {
    for (const effect of effects) {
      if (effect.kind === 'encode') this.#last = effect
      if (effect.kind === 'write' && effect.codeCount > 0 && this.#last !== null) out.push(this.#last)
      out.push(effect)
    }
  }
}

/** Ends a write job, with success, at the first of its chunks once its copies have ended. */
class HastyExtent extends AroundSsdWorker {
  /** Blocks of each job, and which of them were begun, copied and answered. */
  readonly #objects = new Map<number, number>()
  readonly #jobAt = new Map<string, number>()
  readonly #chunks = new Map<number, { readonly job: number; readonly bytes: number }>()
  readonly #begun = new Set<number>()
  readonly #copied = new Set<number>()
  readonly #answered = new Set<number>()

  protected override hear(input: SsdWorkerInput): SsdWorkerInput {
    if (input.kind === 'request' && input.request.kind === 'write') {
      const { job, list } = input.request
      for (let at = 0; at < list.length; at += TARGET.doubles) {
        this.#jobAt.set(`${listAt(list, at + TARGET.file)}/${listAt(list, at + TARGET.fileOffsetBytes)}`, job)
        this.#objects.set(job, listAt(list, at + TARGET.object) + 1)
      }
    }
    if (input.kind === 'completed') {
      const chunk = this.#chunks.get(input.tag)
      if (chunk !== undefined && input.result === chunk.bytes) this.#begun.add(chunk.job)
    }
    return input
  }

  protected pass(_: SsdWorkerInput, effects: SsdWorkerEffect[], out: SsdWorkerEffect[]): void {
    for (const effect of effects) {
      if (effect.kind === 'write') {
        const job = this.#jobAt.get(`${effect.file}/${effect.fileOffsetBytes}`)
        if (job !== undefined) this.#chunks.set(effect.tag, { job, bytes: effect.bytes })
      }
      if (effect.kind === 'reply' && effect.reply.kind === 'copied') this.#copied.add(effect.reply.job)
      if (effect.kind === 'reply' && effect.reply.kind === 'write-done') {
        const { job } = effect.reply
        this.#objects.delete(job)
        this.#begun.delete(job)
        this.#copied.delete(job)
        if (this.#answered.delete(job)) continue
      }
      out.push(effect)
    }
    for (const job of this.#begun) if (this.#copied.has(job) && !this.#answered.has(job)) this.#answer(job, out)
  }

  #answer(job: number, out: SsdWorkerEffect[]): void {
    this.#answered.add(job)
    const doubles = new Float64Array(this.#objects.get(job) ?? 0).fill(ERROR_CODES.ok)
    const list = { doubles, offset: 0, length: doubles.length }
    out.push({ kind: 'reply', reply: { kind: 'write-done', job, status: ERROR_CODES.ok, list } })
  }
}

/** Answers the only restore of a lane when the first of its batches has been scattered. */
class EarlyLeases extends AroundSsdWorker {
  readonly #restores = new Set<number>()
  readonly #answered = new Set<number>()
  readonly #scatters = new Set<number>()

  protected pass(input: SsdWorkerInput, effects: SsdWorkerEffect[], out: SsdWorkerEffect[]): void {
    if (input.kind === 'request' && input.request.kind === 'restore') this.#restores.add(input.request.job)
    for (const effect of effects) {
      if (effect.kind === 'scatter') this.#scatters.add(effect.tag)
      if (effect.kind === 'reply' && effect.reply.kind === 'restore-done') {
        this.#restores.delete(effect.reply.job)
        if (this.#answered.delete(effect.reply.job)) continue
      }
      out.push(effect)
    }
    if (input.kind !== 'completed' || !this.#scatters.delete(input.tag) || this.#restores.size !== 1) return
    for (const job of this.#restores) if (!this.#answered.has(job)) this.#answer(job, out)
  }

  #answer(job: number, out: SsdWorkerEffect[]): void {
    this.#answered.add(job)
    const rest = { status: ERROR_CODES.ok, bytes: 0, ssdBytes: 0, firstFailed: -1, latencyUs: 1, list: EMPTY_LIST }
    out.push({ kind: 'reply', reply: { kind: 'restore-done', job, ...rest } })
  }
}

/** Hears of no scatter that failed. */
class DeafToScatters extends AroundSsdWorker {
  readonly #scatters = new Set<number>()

  protected override hear(input: SsdWorkerInput): SsdWorkerInput {
    return input.kind === 'completed' && this.#scatters.delete(input.tag) ? { ...input, result: 0 } : input
  }

  protected pass(_: SsdWorkerInput, effects: SsdWorkerEffect[], out: SsdWorkerEffect[]): void {
    for (const effect of effects) if (effect.kind === 'scatter') this.#scatters.add((effect as Effect<'scatter'>).tag)
    out.push(...effects)
  }
}

/** Is told that no granule has a checksum. */
class Unverified extends AroundSsdWorker {
  protected override hear(input: SsdWorkerInput): SsdWorkerInput {
    if (input.kind !== 'request' || input.request.kind !== 'restore') return input
    const { list } = input.request
    const doubles = list.doubles.slice(list.offset, list.offset + list.length)
    for (let at = 0; at < doubles.length; at += SOURCE.doubles) doubles[at + SOURCE.crc32] = NO_CRC
    return { ...input, request: { ...input.request, list: { doubles, offset: 0, length: doubles.length } } }
  }

  protected pass(_: SsdWorkerInput, effects: SsdWorkerEffect[], out: SsdWorkerEffect[]): void {
    out.push(...effects)
  }
}

/** Counts a failure and goes on. */
class StubbornRoutes extends SsdRouteSwitch {
  #counted = false

  override failed(): boolean {
    const first = !this.#counted
    this.#counted = true
    return first
  }
}
