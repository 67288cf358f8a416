import { spawnSync } from 'node:child_process'
import { closeSync, fstatSync, ftruncateSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { OrbitError } from '../../src/client/index.js'
import { keyAt, keysNamed, segmentOf, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'
import { mounting } from '../support/others.js'
import { testOver } from '../support/test-over.js'

/**
 * S1 to S5: the shard changes or fails underneath. Restores fail or miss and never bring a wrong byte; the damaged
 * generation is hidden, only it; publishing again repairs the key; writes that find no room are dropped and counted.
 */

const BLOCKS = 4
const ROUTES = ['dram', 'uring'] as const

interface Scene {
  readonly manager: ManagerChild
  readonly engine: TestEngine
  readonly keys: Buffer
  readonly shard: number
  /** Where the first segment of each block lies in the shard. */
  readonly places: readonly number[]
}

/** Blocks on SSD alone, and a second descriptor of their shard. */
async function onSsd(t: ExecutionContext, route: (typeof ROUTES)[number]): Promise<Scene> {
  const folder = folderOf(t)
  const flags = [...(route === 'uring' ? ['--ssd-read-path', 'uring'] : []), '--ssd-cache-capacity', '4mb']
  const manager = await ManagerChild.start(t, { folder, flags })
  const engine = await TestEngine.start(manager.socketPath, { salt: t.title, segmentBytes: 4_096 })
  const keys = keysNamed(t.title, BLOCKS)
  await engine.publish(keys)
  await engine.toSsd()
  const path = join(folder, 'shard.dat')
  const bytes = readFileSync(path)
  const places = Array.from({ length: BLOCKS }, (_, i) => bytes.indexOf(segmentOf(keyAt(keys, i), 0, 0, 0, 4_096)))
  if (places.includes(-1)) throw new Error('the shard does not hold what was published')
  const shard = openSync(path, 'r+')
  t.teardown(() => closeSync(shard))
  return { manager, engine, keys, shard, places }
}

/** The damaged block is never restored wrong: it misses, or the restore fails with a typed error. */
async function neverWrong(t: ExecutionContext, { engine, keys }: Scene, intact: number): Promise<void> {
  const found = await engine.find(keys)
  if (found.kind === 'ready' && found.boundaries[0] === BLOCKS * 16) {
    const error = await t.throwsAsync(engine.restore(keys, found.lease))
    t.true(error instanceof OrbitError, String(error))
    if (error instanceof OrbitError)
      t.true(['checksum_mismatch', 'io_short', 'io_read_failed'].includes(error.code), error.code)
  } else if (found.kind === 'ready') await engine.scheduler.release('lease', found.lease)
  t.is(await engine.hits(keys), intact, 'the damaged generation is hidden, and only it')
  if (intact > 0) {
    const rest = keys.subarray(0, intact * 32)
    const again = await engine.find(rest)
    if (again.kind !== 'ready') throw new Error(`expected a lease, got ${again.kind}`)
    t.is(await engine.restore(rest, again.lease), 0)
  }
}

async function repairs(t: ExecutionContext, { engine, keys, manager }: Scene, accepted: number): Promise<void> {
  t.is((await engine.publish(keys))[0]?.accepted, accepted, 'what was hidden is published again')
  await engine.toSsd()
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
  t.is(await engine.restore(keys, found.lease), 0)
  await engine.stop()
  await endsClean(t, manager)
}

for (const route of ROUTES) {
  test.serial(
    `S3: a flipped bit is a miss of that block alone, and publishing repairs it, route ${route}`,
    async (t) => {
      const scene = await onSsd(t, route)
      const byte = segmentOf(keyAt(scene.keys, 2), 0, 0, 0, 4_096).subarray(77, 78)
      writeSync(scene.shard, Uint8Array.of((byte[0] as number) ^ 0x10), 0, 1, (scene.places[2] as number) + 77)
      await neverWrong(t, scene, 2)
      await repairs(t, scene, 1)
    },
  )

  test.serial(`S3: two blocks that changed places are two misses, route ${route}`, async (t) => {
    const scene = await onSsd(t, route)
    const bytes = scene.engine.blockBytes
    const [a, b] = [scene.places[1] as number, scene.places[2] as number]
    const whole = readFileSync(join(scene.manager.folder, 'shard.dat'))
    writeSync(scene.shard, whole, b, bytes, a)
    writeSync(scene.shard, whole, a, bytes, b)
    await neverWrong(t, scene, 1)
    t.is(await scene.engine.hits(scene.keys.subarray(2 * 32, 3 * 32)), 0, 'the other of the two, asked for alone')
    await repairs(t, scene, 2)
  })

  test.serial(`S5: a hole punched into the shard is a miss, route ${route}`, async (t) => {
    const scene = await onSsd(t, route)
    const place = scene.places[3] as number
    const punched = spawnSync('fallocate', [
      '-p',
      '-o',
      `${place}`,
      '-l',
      '4096',
      join(scene.manager.folder, 'shard.dat'),
    ])
    if (punched.status !== 0) writeSync(scene.shard, new Uint8Array(4_096), 0, 4_096, place)
    await neverWrong(t, scene, 3)
    await repairs(t, scene, 1)
  })

  test.serial(
    `S5: a shard truncated underneath gives misses and errors, no wrong byte, and serves again, route ${route}`,
    async (t) => {
      const scene = await onSsd(t, route)
      const { size } = fstatSync(scene.shard)
      ftruncateSync(scene.shard, scene.places[0] as number)
      const found = await scene.engine.find(scene.keys)
      if (found.kind === 'ready')
        await t.throwsAsync(scene.engine.restore(scene.keys, found.lease), { instanceOf: OrbitError as never })
      await eventually('every block is hidden once its read has failed', async () => {
        const next = await scene.engine.find(scene.keys)
        if (next.kind !== 'ready') return true
        const rest = scene.keys.subarray(0, ((next.boundaries[0] as number) / 16) * 32)
        await t.throwsAsync(scene.engine.restore(rest, next.lease))
        return false
      })
      ftruncateSync(scene.shard, size)
      const accepted = (await scene.engine.publish(scene.keys))[0]?.accepted
      t.true((accepted ?? 0) > 0)
      await scene.engine.toSsd()
      await scene.engine.stop()
      await endsClean(t, scene.manager)
    },
  )
}

/** Publishes more than there is room for on the disk; the cache goes on from DRAM, writes are dropped and counted. */
async function goesOn(t: ExecutionContext, manager: ManagerChild): Promise<void> {
  const engine = await TestEngine.start(manager.socketPath, { salt: t.title, pages: 64, segmentBytes: 16_384 })
  const name = (batch: number) => keysNamed(`${t.title} ${batch}`, 32)
  for (let batch = 0; batch < 3; batch++) await engine.publish(name(batch))
  await engine.rank.client.sync(true)
  const dropped = await manager.metric('orbitkv_ssd_write_drops_total')
  t.true(dropped > 0, `dropped ${dropped}`)
  let wrong = 0
  for (let batch = 0; batch < 3; batch++) {
    const found = await engine.find(name(batch))
    if (found.kind !== 'ready') continue
    const hits = (found.boundaries[0] as number) / 16
    wrong += await engine.restore(name(batch).subarray(0, hits * 32), found.lease)
  }
  t.is(wrong, 0)
  await engine.stop()
  await endsClean(t, manager)
}

const tiny = mounting('tmpfs', 'size=2m', '/nonexistent')
needs(!('missing' in tiny), 'missing' in tiny ? tiny.missing : '')(
  'S2: a full disk drops writes and counts them, and the cache goes on',
  async (t) => {
    const folder = folderOf(t)
    mkdirSync(join(folder, 'ssd'))
    const found = mounting('tmpfs', 'size=2m', join(folder, 'ssd'))
    const launcher = 'command' in found ? found.command : []
    const flags = ['--ssd-cache-path', join(folder, 'ssd', 'shard.dat')]
    await goesOn(t, await ManagerChild.start(t, { folder, launcher, flags }))
  },
)

for (const io of ['uring', 'posix'] as const) {
  testOver(io)(
    `S2: a file size limit drops writes and counts them, and the cache goes on, --ssd-io ${io}`,
    async (t) => {
      const manager = await ManagerChild.start(t, { folder: folderOf(t), flags: ['--ssd-io', io] })
      const limited = spawnSync('prlimit', ['--pid', String(manager.pid), '--fsize=1048576'])
      t.is(limited.status, 0)
      await goesOn(t, manager)
    },
  )
}

test.serial(
  'descriptors exhausted while serving: registrations are refused, what is open goes on, and room helps',
  async (t) => {
    const manager = await ManagerChild.start(t, { folder: folderOf(t) })
    const engine = await TestEngine.start(manager.socketPath, { salt: t.title })
    const keys = keysNamed(t.title, 4)
    await engine.publish(keys)
    const limit = (files: number) =>
      spawnSync('prlimit', ['--pid', String(manager.pid), `--nofile=${files}:4096`]).status
    t.is(limit(manager.fdCount() + 3), 0)
    const refused = await t.throwsAsync(
      TestEngine.start(manager.socketPath, { salt: t.title, tpSize: 3 }).then((other) => other.stop()),
    )
    t.true(refused instanceof OrbitError, String(refused))
    const found = await engine.find(keys)
    if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
    t.is(await engine.restore(keys, found.lease), 0)
    t.is(limit(4_096), 0)
    const other = await TestEngine.start(manager.socketPath, { salt: t.title })
    t.is(await other.hits(keys), 4)
    await other.stop()
    await engine.stop()
    await manager.stop()
  },
)
