import { readFileSync } from 'node:fs'
import test, { type ExecutionContext } from 'ava'
import { ClosedError, ProtocolError } from '../../src/client/index.js'
import { keysNamed, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, ManagerChild } from '../support/manager-child.js'

/**
 * K3: the Manager is killed at random moments while engines publish, query and restore. The engine frees no page before
 * the process is gone, a new Manager starts at once on the same socket and shard, nothing of the old one counts, and
 * every hit has the right bytes.
 */

const ROUNDS = 20
const BLOCKS = 12

/** False when the process has ended: gone, or a zombie that nobody has waited for. */
function alive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** A random stop, drawn by the round: the same delays on every run, other moments on every machine. */
const delayMs = (round: number) => (round * 37) % 61

/** Works until the Manager is gone; every error on the way must be typed. Returns what ended it. */
async function workUntilKilled(
  t: ExecutionContext,
  engine: TestEngine,
  pid: number,
  name: string,
): Promise<ClosedError> {
  for (let step = 0; ; step++) {
    const keys = keysNamed(`${name} ${step % 4}`, BLOCKS)
    let owned = false
    try {
      const found = await engine.find(keys)
      if (found.kind === 'ready' && found.boundaries[0] === BLOCKS * 16) {
        owned = true
        t.is(await engine.restore(keys, found.lease), 0, 'K3: no hit with wrong bytes')
      } else {
        owned = true
        await engine.publish(keys)
        if (step % 3 === 0) {
          owned = false
          await engine.toSsd()
        }
      }
    } catch (error) {
      if (owned) t.false(alive(pid), 'an operation that owns pages ends only when the process has')
      if (!(error instanceof ClosedError)) throw error
      t.is(error.code, 'manager_gone')
      return error
    }
  }
}

test.serial(
  `K3: ${ROUNDS} kills at random moments: typed ends, an immediate restart, nothing old counts, no wrong byte`,
  async (t) => {
    const folder = folderOf(t)
    const flags = ['--ssd-read-path', 'uring']
    const epochs = new Set<number>()
    const shape = { salt: 'killed', pages: 64, segmentBytes: 4_096 }
    let manager = await ManagerChild.start(t, { folder, flags })
    for (let round = 0; round < ROUNDS; round++) {
      const engine = await TestEngine.start(manager.socketPath, shape)
      const { managerEpoch } = engine.scheduler.welcome
      t.false(epochs.has(managerEpoch), 'every start has an epoch of its own')
      epochs.add(managerEpoch)
      const kept = keysNamed('kept', 4)
      await engine.publish(kept)
      const old = await engine.find(kept)
      if (old.kind !== 'ready') throw new Error(`expected a lease, got ${old.kind}`)

      const working = workUntilKilled(t, engine, manager.pid, 'work')
      await new Promise((resolve) => setTimeout(resolve, delayMs(round)))
      manager.signal('SIGKILL')
      await working
      await t.throwsAsync(engine.find(kept), { instanceOf: ClosedError })
      t.is(engine.rank.client.operationsOutstanding, 0)
      await engine.stop()

      manager = await ManagerChild.start(t, { folder, flags })
      const next = await TestEngine.start(manager.socketPath, shape)
      t.is(await next.hits(kept), 0, 'a new Manager begins with misses')
      await next.publish(kept)
      const first = await next.find(kept)
      t.true(first.kind === 'ready' && first.lease !== old.lease, 'a lease of the new start has another number')
      await t.throwsAsync(next.restore(kept, old.lease), { instanceOf: ProtocolError, code: 'lease_unknown' })
      await next.stop()
    }
    await endsClean(t, manager)
  },
)

test.serial('K3: a restore that waits for its fence stays the client’s until the killed Manager is gone', async (t) => {
  const folder = folderOf(t)
  const manager = await ManagerChild.start(t, { folder })
  const engine = await TestEngine.start(manager.socketPath)
  const keys = keysNamed(t.title, 4)
  await engine.publish(keys)
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
  engine.rank.poison([0, 1, 2, 3])
  const pairs = Uint32Array.of(0, 0, 1, 1, 2, 2, 3, 3)
  const restore = engine.rank.client.restore(
    { lease: found.lease, groups: [{ group: 0, pairs }] },
    { after: new Promise(() => {}) },
  )
  t.is((await engine.rank.client.inspect('')).get('operationsOpen'), 1)
  const { pid } = manager
  manager.signal('SIGKILL')
  await t.throwsAsync(restore, { instanceOf: ClosedError, code: 'manager_gone' })
  t.false(alive(pid))
  t.is(engine.rank.touched([0, 1, 2, 3]), 0)
  await engine.stop()
})
