import { randomBytes } from 'node:crypto'
import { Directory } from '../src/shared/directory/directory.js'

/**
 * Question: what does a group cost in the directory, and how long does a query's lookup of 512 keys take when nothing
 * of it is in a cache? Control: a Map from hex text to one object a group. Keys are random, each batch is looked up
 * once, and a million entries are many times the caches.
 * Does not show: what storage adds for checksums and DRAM slots, or a machine with other work on it.
 */

const ENTRIES = Number(process.env['ENTRIES'] ?? 1_000_000)
const BATCH = 512
const BATCHES = 1000

interface Table {
  readonly bytesPerGroup: number
  readonly insertNs: number
  lookup(batch: Uint8Array): number
}

function compactTable(keys: Uint8Array): Table {
  const seed = randomBytes(8)
  const directory = new Directory({ entriesMax: ENTRIES, seed: [seed.readUInt32LE(0), seed.readUInt32LE(4)] })
  const started = performance.now()
  for (let key = 0; key < ENTRIES; key++) directory.publish(directory.insert(0, keys, key))
  const insertNs = ((performance.now() - started) * 1e6) / ENTRIES
  const entries = new Int32Array(BATCH)
  return {
    bytesPerGroup: directory.bytesReserved / ENTRIES,
    insertNs,
    lookup: (batch) => directory.lookup(0, batch, BATCH, entries),
  }
}

function mapOfObjects(keys: Uint8Array): Table {
  const before = process.memoryUsage().heapUsed
  const map = new Map<string, object>()
  const text = (bytes: Uint8Array, key: number): string =>
    Buffer.from(bytes.buffer, bytes.byteOffset + key * 32, 32).toString('hex')
  const started = performance.now()
  for (let key = 0; key < ENTRIES; key++) {
    const columns = { state: 1, flags: 0, interests: 0, shard: 0, extent: key, dramSlot: -1, crcSlot: key }
    map.set(text(keys, key), { ...columns, classId: 0, generation: key, older: null, newer: null })
  }
  const insertNs = ((performance.now() - started) * 1e6) / ENTRIES
  return {
    bytesPerGroup: (process.memoryUsage().heapUsed - before) / ENTRIES,
    insertNs,
    lookup: (batch) => {
      let found = 0
      for (let key = 0; key < BATCH; key++) if (map.get(text(batch, key)) !== undefined) found++
      return found
    },
  }
}

/** Microseconds of one lookup of 512 keys: [median, 99th percentile]. */
function timeLookups(table: Table, batches: readonly Uint8Array[], expected: number): [number, number] {
  const timesUs = batches.map((batch) => {
    const started = performance.now()
    const found = table.lookup(batch)
    const elapsedUs = (performance.now() - started) * 1000
    if (found !== expected) throw new Error(`found ${found} of ${expected}`)
    return elapsedUs
  })
  timesUs.sort((a, b) => a - b)
  return [timesUs[BATCHES / 2] as number, timesUs[Math.floor(BATCHES * 0.99)] as number]
}

const keys = new Uint8Array(ENTRIES * 32)
for (let at = 0; at < keys.length; at += 2 ** 20) keys.set(randomBytes(Math.min(2 ** 20, keys.length - at)), at)
const present = Array.from({ length: BATCHES }, () => {
  const batch = new Uint8Array(BATCH * 32)
  for (let key = 0; key < BATCH; key++) {
    const from = Math.floor(Math.random() * ENTRIES) * 32
    batch.set(keys.subarray(from, from + 32), key * 32)
  }
  return batch
})
const absent = Array.from({ length: BATCHES }, () => new Uint8Array(randomBytes(BATCH * 32)))

const rows = Object.entries({ compactTable, mapOfObjects }).map(([name, make]) => {
  const table = make(keys)
  const [hitUs, hitUsP99] = timeLookups(table, present, BATCH)
  const [missUs, missUsP99] = timeLookups(table, absent, 0)
  const row = { bytesPerGroup: table.bytesPerGroup, insertNs: table.insertNs, hitUs, hitUsP99, missUs, missUsP99 }
  return { name, ...Object.fromEntries(Object.entries(row).map(([key, value]) => [key, Math.round(value * 10) / 10])) }
})
console.table(rows)
console.log(JSON.stringify({ bench: 'directory', entries: ENTRIES, batch: BATCH, rows }))
