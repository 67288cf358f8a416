/**
 * A worker (or a main thread, with arguments as JSON) that submits a list of reads, says so, and then ends, stays
 * parked or is ended from outside while the device works. Its port is drained by whoever ends it.
 */
import { readFileSync, writeSync } from 'node:fs'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { loadNative } from '../../src/binding/load.js'
import { TestPort } from './test-port.js'
import { ofThreads } from './threads.js'

const MIB = 1024 * 1024

export interface ReadingOptions {
  readonly io: 'uring' | 'posix'
  readonly reads: number
  /** Read number `first` is the first, from its place in the file to its place in the pool; 0 by default. */
  readonly first?: number
  /** What happens after the submission; `wait`: nothing, in Atomics.wait; `park`: sleeps natively again and again. */
  readonly after: 'wait' | 'park' | 'exit' | 'throw'
  /** Where to read from and to; without it (whole process) both are made here, from `path`. */
  readonly pool: number
  readonly file: number
}

/** Submits `reads` of 1 MiB and returns without having reaped. */
function submitReads(options: ReadingOptions): TestPort {
  const port = new TestPort(loadNative(), { io: options.io, pool: options.pool, depth: 256 })
  for (let i = 0; i < options.reads; i++) {
    const place = ((options.first ?? 0) + i) * MIB
    port.put(i, { op: 'read', tag: i, file: options.file, fileOffset: place, poolOffset: place, bytes: MIB })
  }
  const count = port.port.pump(options.reads, 0, 0)
  if (count < 0) throw new Error(`errno ${-count}`)
  return port
}

function runWorker(options: ReadingOptions): void {
  const port = submitReads(options)
  parentPort?.postMessage({ id: port.port.id, inFlight: port.port.inFlight() })
  if (options.after === 'exit') process.exit(7)
  if (options.after === 'throw') throw new Error('on purpose')
  port.parkWord[0] = 2
  for (;;) sleep(port, options)
}

/**
 * A function of its own, as every turn of a lane's loop calls some: V8 looks for a termination at function entry, but
 * in a bare loop over native calls only after some 40 turns (4 s of parks).
 */
function sleep(port: TestPort, { after }: ReadingOptions): void {
  if (after === 'park') port.port.park(100_000)
  else Atomics.wait(port.parkWord, 0, 2)
}

/** What a whole process does for a test of its end. */
export interface ProcessOptions {
  readonly io: 'uring' | 'posix'
  readonly path: string
  readonly reads: number
  readonly owner: 'main' | 'worker'
  /** `abandon`: the port is closed with no time to drain, and everything else is closed too. */
  readonly after: 'wait' | 'park' | 'abandon'
}

function runProcess({ io, path, reads, owner, after }: ProcessOptions): void {
  const native = loadNative()
  const { pool } = native.openPool(reads * MIB)
  const { file } = native.openShard(path, reads * MIB, true)
  const filler = new TestPort(native, { io, pool })
  // A view would keep the pool mapped by itself.
  if (after !== 'abandon') native.poolView(pool, 0, reads * MIB).fill(0xc3)
  filler.run([{ op: 'write', file, fileOffset: 0, poolOffset: 0, bytes: reads * MIB }])
  filler.close()
  if (after === 'abandon') return abandonReads({ io, pool, file, reads })
  native.poolView(pool, 0, reads * MIB).fill(0)
  process.on('exit', () => {
    native.wakeAll()
    native.shutdown(5000)
    // Only what main owns has ended here; a worker's port drains in its own cleanup, after this.
    const view = native.poolView(pool, 0, reads * MIB)
    const arrived = Array.from({ length: reads }, (_, i) => view[(i + 1) * MIB - 1]).filter((byte) => byte === 0xc3)
    writeSync(1, `${arrived.length}\n`)
  })
  if (owner === 'main') {
    submitReads({ io, pool, file, reads, after })
    process.exit(3)
  }
  const workerOptions: ReadingOptions = { io, pool, file, reads, after }
  new Worker(new URL(import.meta.url), { workerData: workerOptions }).once('message', () => process.exit(3))
}

/** KiB of mappings that neither children nor core dumps see: pools. */
function poolKib(): number {
  const mappings = readFileSync('/proc/self/smaps', 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m)
  return mappings
    .filter((text) => / dc .*dd /.test(/VmFlags: .*/.exec(text)?.[0] ?? ''))
    .reduce((sum, text) => sum + Number(/^Size: +(\d+)/m.exec(text)?.[1]), 0)
}

/** Whether a thread of this process sleeps in the kernel until a device answers. */
function threadWaitsForDisk(): boolean {
  return ofThreads('stat').some((stat) => /\) D /.test(stat))
}

/**
 * Prints what is still mapped of the pool right after everything that names it was closed amid reads. Each read is of
 * a quarter of the file, so that a device works on it for much longer than closing takes.
 */
function abandonReads({ io, pool, file, reads }: Omit<ReadingOptions, 'after'>): void {
  const native = loadNative()
  const port = new TestPort(native, { io, pool, depth: 4 })
  const bytes = (reads / 4) * MIB
  for (let i = 0; i < 4; i++) {
    port.put(i, { op: 'read', tag: i, file, fileOffset: i * bytes, poolOffset: i * bytes, bytes })
  }
  let readingMs = performance.now()
  port.port.pump(4, 0, 0)
  // A thread that has not begun its read would only be told to forget it.
  while (io === 'posix' && !threadWaitsForDisk()) {
    readingMs = performance.now()
    if (port.port.pump(0, 0, 0) === 0) continue
    // One has ended, and the others may have.
    readingMs = 0
    break
  }
  const inFlight = port.port.inFlight()
  native.shutdown(0)
  const closedMs = performance.now() - readingMs
  native.closePool(pool)
  native.closeShard(file)
  writeSync(1, JSON.stringify({ inFlight, closedMs, poolKib: poolKib(), pump: port.port.pump(0, 0, 0) }))
}

if (!isMainThread) runWorker(workerData as ReadingOptions)
else runProcess(JSON.parse(process.argv[2] ?? '') as ProcessOptions)
