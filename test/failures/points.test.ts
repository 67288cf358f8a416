import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import test, { type ExecutionContext } from 'ava'
import { Barriers, POINTS, type PointName } from '../support/barriers.js'
import { keysNamed, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, ManagerChild } from '../support/manager-child.js'
import { testAddon } from '../support/test-addon-build.js'

/**
 * The named points of the test build: each is reached by the work it is named for, holds it and nothing else, and lets
 * it go on. The release build has none of them.
 */

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const RELEASE = join(ROOT, 'build/native/Release/orbitkv.node')
const BLOCKS = 4

test.before('the test build is there', async (t) => {
  // The first test file of a machine that asks for it waits for the compiler.
  t.timeout(900_000)
  await testAddon()
})

/** Texts that only the test build may hold: file names of the points, its variables, its namespace, the linker's names. */
const TRACES = [...POINTS.map((name) => `${name}.pause`), '.reached', 'ORBITKV_TEST_', '7testing', '__wrap_']

function tracesIn(bytes: Buffer): string[] {
  return TRACES.filter((trace) => bytes.includes(trace))
}

test.serial('the release addon and dist/src hold no trace of the test points; the test build holds each', async (t) => {
  t.deepEqual(tracesIn(readFileSync(RELEASE)), [])
  const sources = readdirSync(join(ROOT, 'dist/src'), { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.(js|d\.ts)$/.test(file),
  )
  t.true(sources.length > 300)
  for (const file of sources) t.deepEqual(tracesIn(readFileSync(join(ROOT, 'dist/src', file))), [], file)
  const found = tracesIn(readFileSync(await testAddon()))
  for (const name of POINTS) t.true(found.includes(`${name}.pause`), name)
  t.true(found.includes('ORBITKV_TEST_'))
  t.true(found.includes('7testing'))
})

interface Bed {
  readonly barriers: Barriers
  readonly manager: ManagerChild
  readonly engine: TestEngine
  readonly keys: Buffer
}

async function bedOf(t: ExecutionContext): Promise<Bed> {
  const barriers = new Barriers(folderOf(t))
  const start = { folder: folderOf(t), flags: ['--ssd-read-path', 'uring'], launcher: await barriers.launcher() }
  const manager = await ManagerChild.start(t, start)
  const engine = await TestEngine.start(manager.socketPath, { pages: 64 })
  return { barriers, manager, engine, keys: keysNamed(t.title, BLOCKS) }
}

async function publishes({ engine, keys }: Bed): Promise<void> {
  await engine.publish(keys)
}

async function saves(bed: Bed): Promise<void> {
  await publishes(bed)
  await bed.engine.toSsd()
}

async function restores({ engine, keys }: Bed): Promise<number> {
  const found = await engine.find(keys)
  return found.kind === 'ready' ? await engine.restore(keys, found.lease) : -1
}

interface Way {
  /** What must have happened before the point is paused. */
  before(bed: Bed): Promise<unknown>
  /** What comes to the point. */
  work(bed: Bed): Promise<unknown>
}

const nothing = async (): Promise<void> => {}
const BY_PUBLISHING: Way = { before: nothing, work: publishes }
const BY_SAVING: Way = { before: nothing, work: saves }
const BY_RESTORING: Way = { before: saves, work: restores }

const WAYS: Readonly<Record<PointName, Way>> = {
  publish: BY_PUBLISHING,
  copy: BY_PUBLISHING,
  'host-completion': BY_PUBLISHING,
  'publish-acknowledgement': BY_PUBLISHING,
  notification: BY_PUBLISHING,
  'ssd-write': BY_SAVING,
  'write-completion': BY_SAVING,
  'write-error': BY_SAVING,
  restore: BY_RESTORING,
  'ssd-read': BY_RESTORING,
  'read-completion': BY_RESTORING,
}

/** A publication is told by the slot alone, and the slot's word stands before its notification. */
const TOLD_WHILE_HELD: readonly PointName[] = ['notification']

for (const name of POINTS) {
  test.serial(`the point ${name} holds what comes to it until it is resumed, and changes nothing else`, async (t) => {
    const bed = await bedOf(t)
    const { barriers, manager, engine, keys } = bed
    await WAYS[name].before(bed)
    barriers.pause(name)
    let settled = false
    const work = WAYS[name].work(bed).finally(() => {
      settled = true
    })
    const reached = barriers.reached(name, manager.ended)
    // Work that ends says at once that the point was passed by; where it is told first, only the point can say.
    await (TOLD_WHILE_HELD.includes(name) ? reached : Promise.race([reached, work]))
    t.true(barriers.isReached(name))
    t.is((await manager.get('/health')).status, 200, 'the process lives on')
    if (!TOLD_WHILE_HELD.includes(name)) t.false(settled, 'the work is held')
    barriers.resume(name)
    const wrong = await work
    if (WAYS[name].work === restores) t.is(wrong, 0, 'every byte comes back')
    if (name === 'write-error') t.is(await engine.hits(keys), 0, 'a block whose write failed is a miss')
    else t.is(await restores(bed), 0)
    await engine.stop()
    await endsClean(t, manager)
  })
}

test.serial('a thread that a test ends at a point takes its process with it, and the report names both', async (t) => {
  const bed = await bedOf(t)
  bed.barriers.die('copy')
  await t.throwsAsync(publishes(bed), { code: 'manager_gone' })
  t.true(bed.barriers.isReached('copy'))
  const end = await bed.manager.ended
  t.not(end.exitCode, 0)
  t.is(end.signal, null)
  t.regex(`${end.stdout}${end.stderr}`, /dram-worker[\s\S]*A test ended this thread at a named point/)
  await bed.engine.stop()
})

test.serial('a point that nobody resumes ends its process with a report', async (t) => {
  const barriers = new Barriers(folderOf(t))
  const launcher = [...(await barriers.launcher()), 'ORBITKV_TEST_POINTS_HELD_MS=50']
  const manager = await ManagerChild.start(t, { folder: folderOf(t), launcher })
  const engine = await TestEngine.start(manager.socketPath)
  barriers.pause('publish')
  await t.throwsAsync(engine.publish(keysNamed(t.title, BLOCKS)), { code: 'manager_gone' })
  const { signal, stderr } = await manager.ended
  t.is(signal, 'SIGABRT')
  t.regex(stderr, /publish\.pause: the point was held too long and never resumed/)
  await engine.stop()
})
