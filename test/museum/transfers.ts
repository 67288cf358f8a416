import type { DramWorkerEffect, DramWorkerInput } from '../../src/actors/dram-worker/machine.js'
import type { HostReaderEffect, HostReaderInput } from '../../src/actors/host-reader/machine.js'
import type { WritebackEffect, WritebackInput } from '../../src/actors/writeback/machine.js'
import { COPY } from '../../src/shared/layout/descriptors.js'
import { EMPTY_LIST } from '../../src/shared/layout/records.js'
import { around, effectsOf } from './around.js'
import type { Exhibit } from './exhibit.js'
import { simulation } from './simulated.js'

/** A reader that believes a read for which `believes` is true, whatever it brought. */
function believing(believes: (result: number) => boolean) {
  return around<HostReaderInput, HostReaderEffect>(() => {
    const expected = new Map<number, number>()
    return (input, real, out) => {
      const trusted =
        input.kind === 'io-completed' && believes(input.result)
          ? { ...input, result: expected.get(input.tag) ?? input.result }
          : input
      for (const effect of effectsOf(real, trusted)) {
        if (effect.kind === 'submit-read') expected.set(effect.tag, effect.bytes)
        out.push(effect.kind === 'submit-read' ? { ...effect, verify: false } : effect)
      }
    }
  })
}

/** Bugs of what moves, how much of it, and whether that is known. */
export const TRANSFERS: readonly Exhibit[] = [
  simulation({
    id: 'Mooncake#3066',
    what: 'a short read is taken for a whole one; the tail is what lay in the buffer',
    where: 'HostReader, on a completion',
    shows: /V5/,
    twin: { hostReader: believing((result) => result > 0) },
  }),
  simulation({
    id: 'dynamo#15079',
    what: 'a read that failed is taken for a success; the buffer has the bytes of another request',
    where: 'HostReader, on a completion',
    shows: /V5/,
    twin: { hostReader: believing((result) => result < 0) },
  }),
  simulation({
    id: 'MagnumIO#18',
    what: 'the call succeeded, so nobody looks at the bytes it says were done',
    where: 'HostReader, on a completion',
    shows: /V5/,
    twin: { hostReader: believing(() => true) },
  }),
  simulation({
    id: 'nixl#2146',
    what: 'one completion of a job of many is taken for all of them',
    where: 'Writeback, on a completion',
    shows: /: (O2|O5): /,
    twin: { writeback: firstIsAll() },
  }),
  simulation({
    id: 'FlexKV#186',
    what: 'sources and destinations are two lists that are paired in the wrong order',
    where: 'DramWorker, copies',
    shows: /: (V1|V5): /,
    twin: {
      dramWorker: around<DramWorkerInput, DramWorkerEffect>(() => (input, real, out) => {
        for (const effect of effectsOf(real, input)) out.push(effect.kind === 'copy' ? mispaired(effect) : effect)
      }),
    },
  }),
  simulation({
    id: 'PegaFlow#418',
    what: 'that a save has finished is a flag, not a count: the first of its copies sets it',
    where: 'DramWorker, answer of a save',
    // Under a codec the Manager itself misses what the rest of the copies left.
    shows: /: (V1|V5|O2): |a lane says of every copy what it left/,
    twin: { dramWorker: flagged() },
  }),
  simulation({
    id: 'vllm#54415',
    what: 'a file that was cut short is fatal',
    where: 'HostReader, on a completion',
    shows: /planted: unreachable/,
    twin: {
      hostReader: around<HostReaderInput, HostReaderEffect>(() => (input, real, out) => {
        if (input.kind === 'io-completed' && input.result === 0) throw new Error('planted: unreachable')
        for (const effect of effectsOf(real, input)) out.push(effect)
      }),
    },
  }),
]

function firstIsAll() {
  return around<WritebackInput, WritebackEffect>(() => {
    let jobs: { job: number; bytes: number }[] = []
    const answered = new Set<number>()
    return (input, real, out) => {
      if (input.kind === 'request' && input.request.kind === 'write') {
        const { job, list } = input.request
        let bytes = 0
        for (let at = 1; at < list.length; at += 2) bytes += list.doubles[list.offset + at] as number
        jobs.push({ job, bytes })
      }
      for (const effect of effectsOf(real, input)) {
        if (effect.kind === 'reply' && effect.reply.kind === 'write-done') {
          const { job } = effect.reply
          jobs = jobs.filter((each) => each.job !== job)
          if (answered.delete(job)) continue
        }
        out.push(effect)
      }
      const [first] = jobs
      if (input.kind !== 'io-completed' || first === undefined || answered.has(first.job)) return
      answered.add(first.job)
      const reply = { kind: 'write-done', job: first.job, status: 0, bytes: first.bytes, latencyUs: 1 } as const
      out.push({ kind: 'reply', reply })
    }
  })
}

/** The pool offsets of a list of copies, moved on by one. */
function mispaired(copy: DramWorkerEffect & { kind: 'copy' }): DramWorkerEffect {
  const doubles = copy.doubles.slice(copy.offset, copy.offset + copy.count * COPY.doubles)
  for (let index = 0; index < copy.count; index++) {
    const from = copy.offset + ((index + 1) % copy.count) * COPY.doubles
    doubles[index * COPY.doubles + COPY.page] = copy.doubles[from + COPY.page] as number
  }
  return { ...copy, doubles, offset: 0 }
}

/** Answers a save, with success, at the first of its completions. */
function flagged() {
  return around<DramWorkerInput, DramWorkerEffect>(() => {
    const early = new Set<number>()
    let jobs: number[] = []
    return (input, real, out) => {
      if (input.kind === 'request' && input.request.kind === 'save' && input.request.more === 0)
        jobs.push(input.request.job)
      for (const effect of effectsOf(real, input)) {
        if (effect.kind === 'reply' && effect.reply.kind === 'save-done') {
          const { job } = effect.reply
          jobs = jobs.filter((each) => each !== job)
          if (early.delete(job)) continue
        }
        out.push(effect)
      }
      const [first] = jobs
      if (input.kind !== 'stream-completed' || first === undefined || early.has(first)) return
      early.add(first)
      out.push({ kind: 'reply', reply: { kind: 'save-done', job: first, status: 0, list: EMPTY_LIST } })
    }
  })
}
