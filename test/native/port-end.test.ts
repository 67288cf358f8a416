import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import type { ProcessOptions, ReadingOptions } from '../support/reading-worker.js'
import { TestPort } from '../support/test-port.js'

const native = loadNative()
const probe = native.probe()

const MIB = 1024 * 1024
const READS = 128
const BYTES = READS * MIB
const POISON = 0x77
const WORKER = new URL('../support/reading-worker.js', import.meta.url)
/** Native parks come back after 100 ms, reads after about as much; the rest is a busy machine. A hang lasts for ever. */
const BOUND_MS = 20_000
/** No device that we know reads 256 MiB faster. */
const READ_MS = 20
/** A process that hangs at its end is killed after this, which its test sees. */
const PROCESS_MS = 60_000

/** A pool and a file of READS MiB of 0xc3. */
function bench(t: ExecutionContext, io: 'uring' | 'posix') {
  const { pool } = native.openPool(2 * BYTES)
  const { file } = native.openShard(join(folderOf(t), 'shard.dat'), BYTES, true)
  const view = native.poolView(pool, 0, BYTES)
  const port = new TestPort(native, { io, pool })
  view.fill(0xc3)
  t.deepEqual(port.run([{ op: 'write', file, fileOffset: 0, poolOffset: 0, bytes: BYTES }]), [BYTES])
  view.fill(0)
  t.teardown(() => {
    port.close()
    native.closeShard(file)
    native.closePool(pool)
  })
  return { pool, file, view, port }
}

/** Blocks whose last byte has come. */
function arrived(view: Uint8Array): number {
  return Array.from({ length: READS }, (_, i) => view[(i + 1) * MIB - 1]).filter((byte) => byte === 0xc3).length
}

/**
 * The owner of the reads has gone: hands the memory to somebody else (poison) and reads the whole file elsewhere on
 * the same device, behind which nothing older can still be on its way.
 */
function assertNothingLands(t: ExecutionContext, { view, port, file }: ReturnType<typeof bench>): void {
  view.fill(POISON)
  for (let i = 0; i < 4; i++) port.run([{ op: 'read', file, fileOffset: 0, poolOffset: BYTES, bytes: BYTES }])
  t.true(
    Buffer.from(view.buffer, view.byteOffset, view.length).equals(Buffer.alloc(BYTES, POISON)),
    'nothing landed late',
  )
}

/** Resolves at 'exit', whatever the worker died of. */
function ended(worker: Worker): Promise<void> {
  worker.on('error', () => {})
  return new Promise((resolve) => worker.once('exit', () => resolve()))
}

/** Runs a whole process; `code` is null when it had to be killed. */
async function runProcess(options: ProcessOptions): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [fileURLToPath(WORKER), JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (text) => {
    output += text
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), PROCESS_MS)
  const [code] = (await once(child, 'close')) as [number | null]
  clearTimeout(timer)
  return { code, output }
}

async function startReading(options: ReadingOptions): Promise<{ worker: Worker; id: number }> {
  const worker = new Worker(WORKER, { workerData: options })
  worker.on('error', () => {})
  const [{ id }] = (await once(worker, 'message')) as [{ id: number }]
  return { worker, id }
}

for (const io of ['uring', 'posix'] as const) {
  const when = needs(io === 'posix' || probe.available, `io_uring: ${probe.reason}`)

  for (const after of ['wait', 'park'] as const) {
    when(`Port (${io}): terminate() during reads (${after}) resolves when none is on its way any more`, async (t) => {
      const made = bench(t, io)
      const { worker } = await startReading({ io, reads: READS, after, pool: made.pool, file: made.file })
      const start = performance.now()
      await worker.terminate()
      t.true(performance.now() - start < BOUND_MS)
      t.log(`${arrived(made.view)} of ${READS} reads had arrived after ${Math.round(performance.now() - start)} ms`)
      assertNothingLands(t, made)
    })
  }

  for (const after of ['exit', 'throw'] as const) {
    when(`Port (${io}): a worker that ends by ${after} during reads has drained when 'exit' comes`, async (t) => {
      const made = bench(t, io)
      const worker = new Worker(WORKER, {
        workerData: { io, reads: READS, after, pool: made.pool, file: made.file } satisfies ReadingOptions,
      })
      await ended(worker)
      assertNothingLands(t, made)
    })
  }

  when(`Port (${io}): a parked worker that is woken first terminates within a park`, async (t) => {
    const made = bench(t, io)
    const { worker, id } = await startReading({ io, reads: 1, after: 'park', pool: made.pool, file: made.file })
    const start = performance.now()
    const terminated = worker.terminate()
    native.wake(id)
    await terminated
    t.true(performance.now() - start < BOUND_MS)
    t.log(`${Math.round(performance.now() - start)} ms`)
  })

  when(`Port (${io}): 24 workers ended in the middle of reads leave no descriptor behind`, async (t) => {
    const made = bench(t, io)
    const round = async (): Promise<void> => {
      const options = { io, reads: READS / 4, after: 'wait', pool: made.pool, file: made.file } as const
      // Each into memory of its own: two reads into the same bytes would be a race of this test.
      const starting = [0, 1, 2, 3].map((each) => startReading({ ...options, first: each * options.reads }))
      const started = await Promise.all(starting)
      await Promise.all(started.map(({ worker }) => worker.terminate()))
    }
    await round()
    const before = readdirSync('/proc/self/fd').length
    for (let i = 0; i < 5; i++) await round()
    t.is(readdirSync('/proc/self/fd').length, before)
    assertNothingLands(t, made)
  })

  for (const owner of ['main', 'worker'] as const) {
    for (const after of owner === 'main' ? (['wait'] as const) : (['wait', 'park'] as const)) {
      when(
        `Port (${io}): process.exit() during reads of the ${owner} thread (${after}) ends the process`,
        async (t) => {
          const options: ProcessOptions = { io, path: join(folderOf(t), 'shard.dat'), reads: 64, owner, after }
          const { code, output } = await runProcess(options)
          t.is(code, 3)
          // What main owns is whole after shutdown(): drained, or given up before it reached the device.
          if (owner === 'main') t.true(Number(output) >= 0 && Number(output) <= 64)
        },
      )
    }
  }
}

for (const io of ['uring', 'posix'] as const) {
  needs(io === 'posix' || probe.available, `io_uring: ${probe.reason}`)(
    `Port (${io}): what is in flight when time is up is quarantined with its memory, and the process ends well`,
    async (t) => {
      const options: ProcessOptions = {
        io,
        path: join(folderOf(t), 'shard.dat'),
        reads: 256,
        owner: 'main',
        after: 'abandon',
      }
      const abandoned = async () => {
        const { code, output } = await runProcess(options)
        t.is(code, 0)
        return JSON.parse(output) as { inFlight: number; closedMs: number; poolKib: number; pump: number }
      }
      let run = await abandoned()
      // One that lost its core on the way may have closed after the last read: it shows nothing.
      while (run.closedMs > READ_MS) run = await abandoned()
      const { inFlight, poolKib, pump } = run
      t.true(inFlight > 0)
      t.true(poolKib >= 256 * 1024, `${poolKib} KiB of the pool are still mapped`)
      t.is(pump, -9)
    },
  )
}

test('wakeAll: reaches ports of every thread', async (t) => {
  const { pool } = native.openPool(2 * MIB)
  const port = new TestPort(native, { io: 'posix', pool })
  port.parkWord[0] = 2
  const times = Array.from({ length: 5 }, () => {
    native.wakeAll()
    const start = performance.now()
    t.is(port.port.park(100_000), 0)
    return performance.now() - start
  })
  t.true(Math.min(...times) < 90, 'a port that was not woken sleeps 100 ms every time')
  port.close()
  native.closePool(pool)
})
