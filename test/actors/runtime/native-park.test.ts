import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { loadNative } from '../../../src/binding/load.js'
import type { Probe } from '../../../src/binding/probe.js'
import { needs } from '../../support/needs.js'
import type { BedKind } from './lanes/bed.js'
import { listFor, type TestMessage } from './lanes/messages.js'
import { oneLane, type Rig, STOP_MS, twoLanes } from './lanes/rig.js'

function probe(): Probe | null {
  try {
    return loadNative().probe()
  } catch {
    return null
  }
}

const found = probe()
const addon = needs(found !== null, 'the native addon is not built')
const uring = needs(found?.available === true, `io_uring is not available here: ${found?.reason ?? 'no addon'}`)
const BEDS: readonly [BedKind, typeof addon][] = [
  ['js', test.serial],
  ['posix', addon],
  ['uring', uring],
]
/** A native park ends by itself after 100 ms: whoever is slower than this was not woken. */
const UNWOKEN_MS = 100
/** A hang lasts for ever; the rest is a busy machine. */
const END_MS_MAX = 20_000

function send(rig: Rig, message: TestMessage): void {
  rig.toFirst.send(message)
  rig.main.flush()
}

/** Runs exit-while-parked in a process of its own; resolves with its exit code and how long it took to end. */
function ending(bed: BedKind, end: string): Promise<{ code: number | null; stderr: string }> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('./lanes/exit-while-parked.js', import.meta.url))], {
    env: { ...process.env, ORBITKV_TEST_END: `${bed} ${end}` },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  const limit = setTimeout(() => child.kill('SIGKILL'), 60_000)
  return new Promise((resolve) => {
    child.on('close', (code) => {
      clearTimeout(limit)
      resolve({ code, stderr })
    })
  })
}

for (const [bed, declare] of BEDS) {
  declare(`Park (${bed}): a sleeping lane is woken by each record, never by its time-out`, async (t) => {
    const rig = oneLane({ capacity: 2, arenaDoubles: 8 }, { seed: 3 }, bed)
    await rig.lanes[0]?.ready
    const scratch = new Float64Array(8)
    const times: number[] = []
    for (let serial = 0; serial < 100; serial++) {
      const start = performance.now()
      rig.received.length = 0
      send(rig, { kind: 'number', serial, list: listFor(serial, scratch) })
      await Promise.race([rig.heard('number'), rig.died.then(({ error }) => Promise.reject(error))])
      times.push(performance.now() - start)
    }
    times.sort((a, b) => a - b)
    t.log(`round trip p50 ${((times[50] ?? 0) * 1000).toFixed(0)} us, p99 ${((times[99] ?? 0) * 1000).toFixed(0)} us`)
    // A busy machine makes many of them slow, but a lane that is not woken makes all of them so.
    t.true((times[10] ?? Number.POSITIVE_INFINITY) < UNWOKEN_MS / 2)
    t.is(await rig.lanes[0]?.stop(() => send(rig, { kind: 'stop' }), STOP_MS), 'left')
    rig.main.close()
    t.deepEqual(rig.deaths, [])
  })

  declare(`Park (${bed}): lanes that sleep there lose no record of a full ring`, async (t) => {
    const rig = twoLanes({ capacity: 2, arenaDoubles: 8 }, 77, bed)
    await Promise.all(rig.lanes.map((lane) => lane.ready))
    send(rig, { kind: 'go', count: 10_000 })
    await Promise.race([rig.heard('done'), rig.died.then(({ error }) => Promise.reject(error))])
    for (const lane of rig.lanes) t.is(await lane.terminate(), 'terminated')
    rig.main.close()
    t.deepEqual(rig.deaths, [])
  })

  declare(`Park (${bed}): terminate ends a sleeping lane`, async (t) => {
    const rig = oneLane({ capacity: 2, arenaDoubles: 8 }, { seed: 4 }, bed)
    await rig.lanes[0]?.ready
    const start = performance.now()
    t.is(await rig.lanes[0]?.terminate(), 'terminated')
    t.true(performance.now() - start < END_MS_MAX)
    rig.main.close()
  })

  declare(`Park (${bed}): the process exits while a lane sleeps, with its own code`, async (t) => {
    t.is((await ending(bed, 'exit')).code, 7)
  })

  declare(`Park (${bed}): a failure of main ends the process while a lane sleeps`, async (t) => {
    const { code, stderr } = await ending(bed, 'throw')
    t.is(code, 1)
    t.regex(stderr, /planted: main failed/)
  })

  declare(`Park (${bed}): a lane that leaves after a STOP which main did not announce is not a death`, async (t) => {
    t.is((await ending(bed, 'leave')).code, 9)
  })
}
