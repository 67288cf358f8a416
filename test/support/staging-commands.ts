import fc from 'fast-check'
import type { StagingBed } from './staging-bed.js'
import { type Block, CODED_TEMPLATE, PLAIN_TEMPLATES, SHAPES } from './staging-blocks.js'
import type { Outcome } from './staging-device.js'

/** What may happen to an ssd-worker machine in any order, and what must hold once it has. */

/** One thing that happens to a lane: a request, the end of one of its operations, or a completion of nothing. */
export type Command =
  | { act: 'restore'; worker: number; blocks: BlockSpec[]; cut: number; fence: number }
  | { act: 'write'; worker: number; blocks: BlockSpec[]; cut: number; fence: number }
  | { act: 'encode'; worker: number; blocks: BlockSpec[]; cut: number; fence: number }
  | { act: 'codes'; pick: number; places: number[] }
  | { act: 'holds'; nothing: boolean }
  | { act: 'again'; worker: number; picks: number[] }
  | { act: 'complete'; pick: number; outcome: Outcome }
  | { act: 'fence'; pick: number }
  | { act: 'cancel'; pick: number }
  | { act: 'stray'; tag: number }

interface BlockSpec {
  template: number
  file: number
  gapPages: number
  resident: boolean
}

const block = fc.record({
  template: fc.nat({ max: SHAPES.length - 1 }),
  file: fc.nat({ max: 1 }),
  gapPages: fc.constantFrom(0, 0, 0, 2),
  resident: fc.constantFrom(false, false, false, true),
})
const job = {
  worker: fc.nat({ max: 1 }),
  blocks: fc.array(block, { maxLength: 6 }),
  cut: fc.nat({ max: 9 }),
  fence: fc.constantFrom(0, 0, 3),
}
const pick = fc.nat({ max: 99 })
const well = fc.record({ act: fc.constant('complete' as const), pick, outcome: fc.constant<Outcome>('ok') })
const FAULTS: Outcome[] = ['short', 'lost', 'io-error', 'not-registered', 'rotten', 'stale', 'refused', 'no-room']
export const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ act: fc.constant('restore' as const), ...job }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('write' as const), ...job }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('encode' as const), ...job }) },
  {
    weight: 3,
    arbitrary: fc.record({ act: fc.constant('codes' as const), pick, places: fc.array(fc.nat({ max: 4 })) }),
  },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('holds' as const), nothing: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant('again' as const),
      worker: job.worker,
      picks: fc.array(pick, { maxLength: 5 }),
    }),
  },
  { weight: 12, arbitrary: well },
  {
    weight: 1,
    arbitrary: fc.record({ act: fc.constant('complete' as const), pick, outcome: fc.constantFrom(...FAULTS) }),
  },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('fence' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('cancel' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('stray' as const), tag: fc.constantFrom(-7, 3, 2 ** 30 + 5) }) },
)

/** Write jobs of one worker that have not ended: the manager keeps them within its permits. */
function writesOpen(bed: StagingBed): number {
  return [...bed.jobs.values()].filter(({ kind, ended }) => kind !== 'restore' && ended === null).length
}

/** Lets commands happen to a bed of two workers; with `faults` false everything ends well and nobody cancels. */
export function run(bed: StagingBed, commands: readonly Command[], faults = true): void {
  bed.openWorker(0)
  bed.openWorker(1)
  const stored: Block[] = []
  for (const each of commands) obey(bed, each, stored, faults)
}

function obey(bed: StagingBed, command: Command, stored: Block[], faults: boolean): void {
  switch (command.act) {
    case 'restore': {
      const blocks = placed(bed, command.blocks)
      for (const { block } of blocks) bed.store(block)
      stored.push(...blocks.map(({ block }) => block))
      bed.restore(command.worker, blocks, command.fence, command.cut)
      return
    }
    case 'again': {
      if (stored.length === 0) return
      const picked = command.picks.map((at) => ({ block: stored[at % stored.length] as Block }))
      bed.restore(command.worker, picked)
      return
    }
    case 'write':
      if (writesOpen(bed) >= 8) return
      bed.write(
        command.worker,
        placed(
          bed,
          command.blocks.map((spec) => ({ ...spec, template: spec.template % PLAIN_TEMPLATES })),
        ).map(({ block }) => block),
        command.fence,
        command.cut,
      )
      return
    case 'encode': {
      if (writesOpen(bed) >= 8) return
      const specs = command.blocks.map((spec) => ({
        ...spec,
        template: spec.template < PLAIN_TEMPLATES ? spec.template : CODED_TEMPLATE,
      }))
      const blocks = placed(bed, specs).map(({ block }) => block)
      if (blocks.length > 0) bed.encode(command.worker, blocks, command.fence)
      return
    }
    case 'codes': {
      const jobs = [...bed.jobs.keys()]
      const first = command.pick % Math.max(1, jobs.length)
      // The first that waits for it, from some job on.
      for (const job of [...jobs.slice(first), ...jobs.slice(0, first)]) if (bed.writeCodes(job, command.places)) return
      return
    }
    case 'holds':
      bed.holdsNothing = command.nothing
      return
    case 'complete':
      bed.nowUs += 3
      bed.complete(command.pick, faults ? command.outcome : 'ok')
      return
    case 'fence': {
      const jobs = [...bed.jobs.keys()]
      const job = jobs[command.pick % Math.max(1, jobs.length)]
      if (job !== undefined) bed.reachFence(job, 3)
      return
    }
    case 'cancel': {
      if (!faults) return
      const jobs = [...bed.jobs.keys()]
      const job = jobs[command.pick % Math.max(1, jobs.length)]
      if (job !== undefined) bed.cancel(job)
      return
    }
    case 'stray':
      bed.step({ kind: 'completed', tag: command.tag, result: 0 })
      return
  }
}

function placed(bed: StagingBed, specs: readonly BlockSpec[]): { block: Block; resident: boolean }[] {
  return specs.flatMap(({ template, file, gapPages, resident }) => {
    const block = bed.place(template, file, gapPages)
    return block === null ? [] : [{ block, resident }]
  })
}

/** Lets everything end and requires that nothing is left. */
export function settle(bed: StagingBed): void {
  bed.finish()
  for (const [number, { ended }] of bed.jobs) if (ended === null) throw new Error(`job ${number} never ended`)
  bed.request({ kind: 'close-worker', worker: 0 })
  bed.request({ kind: 'stop' })
  if (bed.stopped !== 1 || !bed.machine.stopped || bed.closed[0] !== 0) throw new Error('the lane does not stop once')
  const owned = [
    'batchesInFlight',
    'writesInFlight',
    'copiesInFlight',
    'jobsActive',
    'jobsFenced',
    'arenasHeld',
  ] as const
  for (const name of owned) {
    if (bed.gauge(name) !== 0) throw new Error(`${name} is ${bed.gauge(name)} at rest`)
  }
  if (bed.gauge('stagingBytes') !== 0) throw new Error('staging memory is left')
  bed.checkGuards()
}
