import test from 'ava'
import { listFor, type TestMessage } from './lanes/messages.js'
import { oneLane, type Rig, STOP_MS, twoLanes } from './lanes/rig.js'

/** Runs of (capacity, arena, records): a million records in all, most time where the ring is smallest. */
const RUNS = [
  { capacity: 2, arenaDoubles: 5, records: 30_000 },
  { capacity: 4, arenaDoubles: 16, records: 100_000 },
  { capacity: 64, arenaDoubles: 200, records: 870_000 },
]

function send(rig: Rig, message: TestMessage): void {
  rig.toFirst.send(message)
  rig.main.flush()
}

for (const { capacity, arenaDoubles, records } of RUNS) {
  test.serial(`Lanes: ${records} records through rings of ${capacity} arrive once, in order and whole`, async (t) => {
    const rig = twoLanes({ capacity, arenaDoubles }, 20260101 + capacity)
    await Promise.all(rig.lanes.map((lane) => lane.ready))
    const start = performance.now()
    send(rig, { kind: 'go', count: records })
    await Promise.race([rig.heard('done'), rig.died.then((death) => Promise.reject(death.error))])
    t.log(`${((2 * records) / (performance.now() - start) / 1000).toFixed(2)} M records/s, both ways`)
    const [source, sink] = rig.lanes
    t.is(await source?.stop(() => send(rig, { kind: 'stop' }), STOP_MS), 'left')
    t.is(await sink?.terminate(), 'terminated')
    rig.main.close()
    t.deepEqual(rig.deaths, [])
  })
}

test.serial('Lanes: STOP lets everything sent before it be answered, in order, then the lane leaves', async (t) => {
  const rig = oneLane({ capacity: 4, arenaDoubles: 16 }, { seed: 5 })
  const scratch = new Float64Array(8)
  const [sink] = rig.lanes
  await sink?.ready
  for (let serial = 0; serial < 1000; serial++) {
    rig.toFirst.send({ kind: 'number', serial, list: listFor(serial, scratch) })
  }
  t.true(rig.toFirst.pending > 0)
  const end = await sink?.stop(() => send(rig, { kind: 'stop' }), STOP_MS)
  await rig.heard('stopped')
  t.is(end, 'left')
  t.deepEqual(
    rig.received.map((message) => (message.kind === 'number' ? message.serial : message.kind)),
    [...Array.from({ length: 1000 }, (_, serial) => serial), 'stopped'],
  )
  rig.main.close()
  t.deepEqual(rig.deaths, [])
})

test.serial('Lanes: a parked lane can be terminated', async (t) => {
  const rig = oneLane({ capacity: 2, arenaDoubles: 8 }, { seed: 6 })
  await rig.lanes[0]?.ready
  t.is(await rig.lanes[0]?.terminate(), 'terminated')
  rig.main.close()
  t.deepEqual(rig.deaths, [])
})

test.serial('Lanes: one that does not leave after STOP is terminated when its limit ends', async (t) => {
  const rig = oneLane({ capacity: 2, arenaDoubles: 8 }, { seed: 7 })
  await rig.lanes[0]?.ready
  send(rig, { kind: 'spin' })
  t.is(await rig.lanes[0]?.stop(() => send(rig, { kind: 'stop' }), 50), 'terminated')
  rig.main.close()
  t.deepEqual(rig.deaths, [])
})

test.serial('Lanes: one that throws is reported once, with its error', async (t) => {
  const rig = oneLane({ capacity: 2, arenaDoubles: 8 }, { seed: 8 })
  await rig.lanes[0]?.ready
  send(rig, { kind: 'throw' })
  const death = await rig.died
  t.is(death.name, 'sink')
  t.is((death.error as Error).message, 'planted: lane failed')
  t.is(await rig.lanes[0]?.terminate(), 'died')
  rig.main.close()
  t.is(rig.deaths.length, 1)
})

test.serial('Lanes: one that exits unasked is reported with its exit code', async (t) => {
  const rig = oneLane({ capacity: 2, arenaDoubles: 8 }, { seed: 9 })
  await rig.lanes[0]?.ready
  send(rig, { kind: 'exit' })
  const death = await rig.died
  t.is(death.exitCode, 3)
  t.is(death.error, null)
  rig.main.close()
  t.is(rig.deaths.length, 1)
})

test.serial('Lanes: one that fails before it is ready rejects its handshake and is reported', async (t) => {
  const rig = oneLane({ capacity: 2, arenaDoubles: 8 }, { seed: 10, broken: true })
  await t.throwsAsync(rig.lanes[0]?.ready ?? Promise.resolve(), { message: 'Lane sink ended before it was ready' })
  t.like(rig.deaths[0]?.error, { message: 'planted: broken before ready' })
  rig.main.close()
  t.is(rig.deaths.length, 1)
})
