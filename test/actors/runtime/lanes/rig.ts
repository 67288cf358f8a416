import { feed } from '../../../../src/actors/runtime/loop.js'
import { MainSeat } from '../../../../src/actors/runtime/main-seat.js'
import type { Outbox } from '../../../../src/actors/runtime/outbox.js'
import { type LaneDeath, type LaneHandle, spawnLane } from '../../../../src/actors/runtime/spawn.js'
import { Actor, type RingSizes, Wiring } from '../../../../src/actors/runtime/wiring.js'
import { type BedKind, bedOf } from './bed.js'
import { type TestMessage, testCodec } from './messages.js'

/** For a lane to leave. A hang lasts for ever; the rest is a busy machine. */
export const STOP_MS = 60_000

const NO_COUNTERS = { series: [], histograms: [] }

/** Main with one lane (`sink`), or with two (`source` and `sink`, joined by a ring pair). */
export interface Rig {
  readonly main: MainSeat
  readonly lanes: LaneHandle[]
  readonly deaths: LaneDeath[]
  readonly received: TestMessage[]
  /** Main's outbox to the first lane. */
  readonly toFirst: Outbox<TestMessage>
  /** Resolves when main received a message of that kind. */
  heard(kind: TestMessage['kind']): Promise<void>
  /** Resolves with the first death. */
  readonly died: Promise<LaneDeath>
}

export function oneLane(
  sizes: RingSizes,
  params: { readonly seed: number; readonly broken?: boolean },
  bed: BedKind = 'js',
): Rig {
  const wiring = new Wiring()
  for (const name of ['main', 'sink']) wiring.actor(name, NO_COUNTERS)
  wiring.connectPair('main', 'sink', sizes, sizes)
  return rigOf(wiring, ['sink'], () => ({ client: 'main', bed, ...params }), bed)
}

export function twoLanes(sizes: RingSizes, seed: number, bed: BedKind = 'js'): Rig {
  const wiring = new Wiring()
  for (const name of ['main', 'source', 'sink']) wiring.actor(name, NO_COUNTERS)
  wiring.connectPair('main', 'source')
  wiring.connect('main', 'sink')
  wiring.connectPair('source', 'sink', sizes, sizes)
  return rigOf(
    wiring,
    ['source', 'sink'],
    (name) => ({ client: 'source', bed, seed: name === 'source' ? seed : seed + 1 }),
    bed,
  )
}

function rigOf(
  wiring: Wiring,
  names: readonly [string, ...string[]],
  params: (name: string) => object,
  bed: BedKind,
): Rig {
  const deaths: LaneDeath[] = []
  const received: TestMessage[] = []
  const awaited = new Map<string, () => void>()
  let firstDeath: (death: LaneDeath) => void = () => {}
  const died = new Promise<LaneDeath>((resolve) => {
    firstDeath = resolve
  })
  const actor = new Actor(wiring.seat('main'), bedOf(bed).wakePort)
  const inbox = actor.inbox(names[0], testCodec)
  const toFirst = actor.outbox(names[0], testCodec)
  const main = new MainSeat(
    actor,
    [
      feed(inbox, (message) => {
        received.push(message)
        awaited.get(message.kind)?.()
      }),
    ],
    [toFirst],
  )
  main.open()
  const lanes = names.map((name) =>
    spawnLane({
      seat: wiring.seat(name),
      entry: new URL(`./${name}.js`, import.meta.url),
      params: params(name),
      onDeath: (death) => {
        deaths.push(death)
        firstDeath(death)
      },
    }),
  )
  const heard = (kind: TestMessage['kind']): Promise<void> =>
    new Promise((resolve) => {
      awaited.set(kind, resolve)
      if (received.some((message) => message.kind === kind)) resolve()
    })
  return { main, lanes, deaths, received, toFirst, heard, died }
}
