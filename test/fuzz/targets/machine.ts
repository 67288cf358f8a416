import { census } from '../../../src/manager/storage/census.js'
import { ProtocolError } from '../../../src/shared/base/errors.js'
import { EMPTY_LIST } from '../../../src/shared/layout/records.js'
import { decodeRequest, helloVersions } from '../../../src/shared/layout/wire/frame.js'
import { ManagerFixture } from '../../manager/fixture.js'
import { keysOf } from '../../manager/storage/fixture.js'
import { type Breach, crash, type MakeTarget } from '../target.js'
import { goldenFrames } from './wire.js'

const VICTIM = 1
const PEER_FIRST = 100
/** A machine that a peer asked something of is exchanged for a new one after this many records. */
const RECORDS_PER_MACHINE = 50_000
/** A full scan costs as much as several records, and what it finds does not go away by itself. */
const RECORDS_PER_CENSUS = 8

/** A Manager at work: an engine with pages in DRAM, a publication that is being copied and a query. */
function atWork(): ManagerFixture {
  const manager = new ManagerFixture()
  manager.engine(VICTIM)
  manager.publish(VICTIM, 0, 1, 7)
  const saves = manager.log.flatMap((each) =>
    each.kind === 'to-dram-worker' && each.request.kind === 'save' ? [each.request.job] : [],
  )
  manager.step({
    kind: 'dram-worker',
    device: 0,
    reply: { kind: 'save-done', job: saves[0] as number, status: 0, list: EMPTY_LIST },
  })
  manager.publish(VICTIM, 1, 1, 8, 1)
  manager.ask(VICTIM, {
    kind: 'query',
    requestId: 1,
    revision: 1,
    allowSsd: true,
    groups: [{ group: 0, firstBlock: 0, keys: keysOf(7) }],
  })
  return manager
}

const stateOf = ({ machine }: ManagerFixture) => JSON.stringify(machine.ownership())

function isMalformed(frame: Uint8Array): boolean {
  try {
    decodeRequest(frame)
    return false
  } catch (error) {
    if (error instanceof ProtocolError) return true
    throw error
  }
}

/**
 * The shipped Manager's machine. A peer connects, says HELLO or not, sends one frame and is gone. After a malformed
 * one the Manager owns exactly what it owned before, has closed what came along, and every table agrees with a full
 * scan; a frame that means something may change what it names and nothing may escape from it.
 */
export const machine: MakeTarget = (weak) => {
  const frames = goldenFrames()
  const hello = frames.find((frame) => helloVersions(frame) !== null) as Uint8Array
  let manager = atWork()
  let before = stateOf(manager)
  let records = 0

  const renew = () => {
    manager = atWork()
    before = stateOf(manager)
  }

  const send = (input: Uint8Array): Breach | null => {
    const connection = PEER_FIRST + records
    const greeted = records % 2 === 0
    manager.step({ kind: 'accepted', connection, uid: 0, pid: 1 })
    if (greeted) manager.step({ kind: 'frame', connection, frame: hello.slice(), fds: [] })
    const malformed = isMalformed(input)
    const from = manager.log.length
    manager.step({ kind: 'frame', connection, frame: input, fds: [50] })
    const said = manager.log.slice(from)
    manager.log.length = 0
    manager.step({ kind: 'connection-ended', connection })
    // The weakness: who was refused comes again and is never let go.
    if (weak && malformed) manager.step({ kind: 'accepted', connection: -connection, uid: 0, pid: 1 })
    const wrong = records % RECORDS_PER_CENSUS === 0 ? census(manager.storage) : []
    if (wrong.length > 0) return { kind: 'state', what: wrong.join('; ') }
    const after = stateOf(manager)
    if (!malformed) {
      if (after !== before) renew()
      return null
    }
    if (after !== before) return { kind: 'state', what: `${before} became ${after}` }
    if (!said.some((each) => each.kind === 'close-connection' && each.connection === connection)) {
      return crash('the peer of a malformed frame is kept')
    }
    return said.some((each) => each.kind === 'close-fd') ? null : crash('a descriptor of a malformed frame is kept')
  }

  return {
    name: 'machine',
    seeds: frames,
    run(input) {
      if (++records % RECORDS_PER_MACHINE === 0) renew()
      return send(input.slice())
    },
  }
}
