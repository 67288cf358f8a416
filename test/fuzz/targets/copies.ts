import { type DramWorkerEffect, DramWorkerMachine } from '../../../src/actors/dram-worker/machine.js'
import { resultsOf } from '../../../src/actors/dram-worker/parts.js'
import { InvariantError } from '../../../src/shared/base/errors.js'
import { COPY } from '../../../src/shared/layout/descriptors.js'
import { type List, listAt } from '../../../src/shared/layout/records.js'
import { PlainTally } from '../../support/plain-tally.js'
import { type Breach, crash, type MakeTarget } from '../target.js'

/** Lists longer than this only take time. */
const DESCRIPTORS_MAX = 64
const OPTIONS = { parts: 4, partDescriptors: 4, codedDescriptors: 8 }
const FINISH = { slots: 1, slot: 0, slotGeneration: 1, fence: 0 }

type Carried = DramWorkerEffect & { readonly kind: 'copy' | 'encode' | 'decode' }

const EINVAL = 22
/** As the addon sees what is stored: anything else it refuses. */
const whole = (bytes: number) => Number.isInteger(bytes) && bytes > 0 && bytes < 2 ** 31

const isCarried = (effect: DramWorkerEffect): effect is Carried =>
  effect.kind === 'copy' || effect.kind === 'encode' || effect.kind === 'decode'

/** What the stream says of a coding: every third one is refused, or is none. */
function said(position: number, restores: boolean): readonly number[] {
  if (restores) return [position % 3 === 1 ? 1 : 0]
  return position % 3 === 1 ? [0, 0] : [512 + position, 7 * position]
}

/**
 * COPY lists through the dram-worker's machine, coded and not, as a save and as a restore. Its client is the Manager, so a
 * list that is no list is a bug; of any other every descriptor goes to the stream as it stands, once and in order, in parts
 * of one kind, and what the stream says of each coding is what the reply says of it.
 */
export const copies: MakeTarget = (weak) => ({
  name: 'copy-list',
  seeds: [
    bytesOf(...copy(0, 0), ...copy(1, 512), ...copy(2, 512), ...copy(3, 0)),
    bytesOf(...Array.from({ length: 20 }, (_, at) => copy(at, 272)).flat()),
    bytesOf(...Array.from({ length: 20 }, (_, at) => copy(at, at % 5 === 0 ? 0 : 2 ** 20)).flat()),
  ],
  run(input) {
    const doubles = new Float64Array(input.slice(0, input.length - (input.length % 8)).buffer)
    const list = { doubles, offset: 0, length: Math.min(doubles.length, COPY.doubles * DESCRIPTORS_MAX) }
    return carried(list, false, weak) ?? carried(list, true, weak)
  },
})

function copy(page: number, storedBytes: number): number[] {
  return [3, 0, page, 4096 * page, 0, 1, storedBytes]
}

function bytesOf(...doubles: number[]): Uint8Array {
  return new Uint8Array(Float64Array.from(doubles).buffer)
}

function carried(list: List, restores: boolean, weak: boolean): Breach | null {
  const results = new Uint32Array(resultsOf(OPTIONS))
  const machine = new DramWorkerMachine(OPTIONS, results, new PlainTally())
  const out: DramWorkerEffect[] = []
  const rest = { job: 5, more: 0, list, ...FINISH } as const
  const request = restores
    ? ({ kind: 'restore', bytes: 1, admitUs: 0, ...rest } as const)
    : ({ kind: 'save', ...rest } as const)
  try {
    machine.step({ kind: 'request', request }, out)
  } catch (error) {
    return error instanceof InvariantError && list.length % COPY.doubles !== 0 ? null : crash(`threw ${String(error)}`)
  }
  let next = 0
  for (let at = 0; at < out.length; at++) {
    const effect = out[at] as DramWorkerEffect
    if (!isCarried(effect)) continue
    const wrong = differs(effect, list, next, restores)
    if (wrong !== null) return crash(wrong)
    if (effect.kind !== 'copy') {
      const each = Array.from({ length: effect.count }, (_, index) => said(next + index, restores))
      results.set(each.flat(), effect.resultBase)
    }
    const refused = effect.kind !== 'copy' && !storedOf(effect).every(whole)
    next += effect.count
    machine.step({ kind: 'stream-completed', tag: effect.tag, result: refused ? -EINVAL : 0 }, out)
  }
  return answered(out, list, next, restores, weak) ?? (machine.idle ? null : crash('something is left in the machine'))
}

function storedOf({ doubles, offset, count }: Carried): number[] {
  return Array.from({ length: count }, (_, each) => doubles[offset + each * COPY.doubles + COPY.storedBytes] as number)
}

function isCoded(list: List, descriptor: number): boolean {
  return listAt(list, descriptor * COPY.doubles + COPY.storedBytes) !== 0
}

/** Why a part is not the next descriptors of the list, all of its kind. */
function differs(
  { kind, doubles, offset, count }: Carried,
  list: List,
  next: number,
  restores: boolean,
): string | null {
  const most = kind === 'copy' ? OPTIONS.partDescriptors : OPTIONS.codedDescriptors
  if (count < 1 || count > most) return `${count} descriptors are in one part`
  for (let each = 0; each < count; each++) {
    const is = isCoded(list, next + each) ? (restores ? 'decode' : 'encode') : 'copy'
    if (is !== kind) return `descriptor ${next + each} is in a part of kind ${kind}`
    for (let field = 0; field < COPY.doubles; field++) {
      const given = listAt(list, (next + each) * COPY.doubles + field)
      if (!Object.is(doubles[offset + each * COPY.doubles + field], given))
        return `descriptor ${next + each} is another`
    }
  }
  return null
}

/** Why the reply is not what the stream said; of a job that was refused in part, only that it failed. */
function answered(
  out: readonly DramWorkerEffect[],
  list: List,
  carriedOut: number,
  restores: boolean,
  weak: boolean,
): Breach | null {
  const replies = out.flatMap((effect) => (effect.kind === 'reply' ? [effect.reply] : []))
  const [reply] = replies
  if (replies.length !== 1 || reply === undefined || !('list' in reply)) return crash(`${replies.length} replies`)
  const count = list.length / COPY.doubles
  const coded = Array.from({ length: count }, (_, descriptor) => isCoded(list, descriptor))
  const odd = coded.some((is, at) => is && !whole(listAt(list, at * COPY.doubles + COPY.storedBytes)))
  if (odd) return reply.status === 0 ? crash('what the addon refuses is called done') : null
  const told = Array.from({ length: reply.list.length }, (_, at) => listAt(reply.list, at))
  if (!restores) {
    if (carriedOut !== count) return crash(`${count} descriptors, ${carriedOut} were saved`)
    // The weakness: what is said of copies counts as well.
    const expected = coded.flatMap((is, descriptor) => (is || weak ? said(descriptor, false) : [0, 0]))
    const wanted = coded.includes(true) ? expected : []
    return told.join() === wanted.join() ? null : crash(`a save says ${told}, the stream said ${wanted}`)
  }
  const damaged = coded.flatMap((is, at) => (is && at < carriedOut && said(at, true)[0] === 1 ? [at] : []))
  if (told.join() !== damaged.join()) return crash(`a restore names ${told} as damaged, the stream said ${damaged}`)
  if (damaged.length === 0 && carriedOut !== count) return crash(`${count} descriptors, ${carriedOut} were restored`)
  const finished = out.some(({ kind }) => kind === 'finish-slot')
  return finished === (damaged.length === 0) ? null : crash('the slot of a restore is written at the wrong time')
}
