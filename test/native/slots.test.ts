import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readSync, writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setImmediate as turn } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import type { SlotTableReport } from '../../src/binding/slots.js'

const native = loadNative()

const RUNNING = 2
const DONE = 3
const SLOT_BYTES = 64

const slotOf = (fd: number, index: number): DataView => {
  const bytes = Buffer.alloc(SLOT_BYTES)
  readSync(fd, bytes, 0, SLOT_BYTES, index * SLOT_BYTES)
  return new DataView(bytes.buffer, bytes.byteOffset, SLOT_BYTES)
}

function openSlots(t: ExecutionContext, count: number): SlotTableReport {
  const table = native.createSlots(count)
  t.teardown(() => {
    for (const fd of [table.clientFd, table.managerFd, table.eventFd]) native.closeFd(fd)
    native.releaseSlots(table.slots)
  })
  return table
}

/** Writes a word of the client's file as a client would. */
function clientWrites(table: SlotTableReport, index: number, word: number, value: bigint): void {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  writeSync(table.clientFd, bytes, 0, 8, index * SLOT_BYTES + word * 8)
}

test('slots: a finished slot has every field where the wire says, under its CRC', (t) => {
  const table = openSlots(t, 4)
  clientWrites(table, 2, 1, 0x1122334455667788n)
  native.slotState(table.slots, 2, 7, RUNNING)
  t.is(slotOf(table.managerFd, 2).getBigUint64(0, true), 7n * 65536n + 2n)
  native.slotFinish(table.slots, 2, 7, 4, 19, 3, 2 ** 40 + 1, 1000.5, 2000.125)
  const slot = slotOf(table.managerFd, 2)
  t.is(slot.getBigUint64(0, true), 7n * 65536n + 4n)
  t.is(slot.getBigUint64(8, true), 0x1122334455667788n)
  t.is(slot.getUint32(16, true), 19)
  t.is(slot.getUint32(20, true), 3)
  t.is(slot.getBigUint64(24, true), 2n ** 40n + 1n)
  t.is(slot.getBigUint64(32, true), 1_000_500n)
  t.is(slot.getBigUint64(40, true), 2_000_125n)
  t.is(slot.getBigUint64(48, true), 0n)
  t.is(slot.getUint32(56, true), crc32(new Uint8Array(slot.buffer, slot.byteOffset + 8, 48)))
  t.is(slot.getUint32(60, true), 0)
  for (const other of [0, 1, 3]) t.is(slotOf(table.managerFd, other).getBigUint64(0, true), 0n)
})

test('slots: each finish adds one to the eventfd', (t) => {
  const table = openSlots(t, 1)
  for (let generation = 1; generation <= 5; generation++) {
    native.slotFinish(table.slots, 0, generation, DONE, 0, 0xffffffff, 0, 0, 0)
  }
  const hints = Buffer.alloc(8)
  readSync(table.eventFd, hints)
  t.is(hints.readBigUInt64LE(), 5n)
  t.throws(() => readSync(table.eventFd, hints), { code: 'EAGAIN' })
})

test('slots: the client words are read as written, and what is no exact number reads -1', (t) => {
  const table = openSlots(t, 3)
  clientWrites(table, 1, 0, 42n * 65536n + 1n)
  clientWrites(table, 1, 2, 2n ** 53n - 1n)
  t.is(native.slotClientWord(table.slots, 1), 42 * 65536 + 1)
  t.is(native.slotFence(table.slots, 1), 2 ** 53 - 1)
  clientWrites(table, 1, 0, 2n ** 53n)
  clientWrites(table, 1, 2, 2n ** 64n - 1n)
  t.is(native.slotClientWord(table.slots, 1), -1)
  t.is(native.slotFence(table.slots, 1), -1)
  t.is(native.slotClientWord(table.slots, 0), 0)
})

test('slots: our own word is read as it was last written', (t) => {
  const table = openSlots(t, 2)
  t.is(native.slotManagerWord(table.slots, 1), 0)
  native.slotState(table.slots, 1, 42, 2)
  t.is(native.slotManagerWord(table.slots, 1), 42 * 65536 + 2)
  native.slotFinish(table.slots, 1, 42, DONE, 0, 0xffffffff, 0, 0, 0)
  t.is(native.slotManagerWord(table.slots, 1), 42 * 65536 + DONE)
  t.is(native.slotManagerWord(table.slots, 0), 0)
  t.throws(() => native.slotManagerWord(table.slots, 2), { code: 'ENOENT' })
})

test('slots: generations to 2^37 - 1 are exact, the next is refused', (t) => {
  const table = openSlots(t, 1)
  native.slotState(table.slots, 0, 2 ** 37 - 1, 65535)
  t.is(Number(slotOf(table.managerFd, 0).getBigUint64(0, true)), 2 ** 53 - 1)
  t.throws(() => native.slotState(table.slots, 0, 2 ** 37, RUNNING), { code: 'EOVERFLOW' })
  t.throws(() => native.slotFinish(table.slots, 0, 2 ** 37, DONE, 0, 0, 0, 0, 0), { code: 'EOVERFLOW' })
  t.throws(() => native.slotState(table.slots, 0, 1, 65536), { instanceOf: TypeError })
  t.throws(() => native.slotState(table.slots, 0, 1.5, RUNNING), { instanceOf: TypeError })
  t.is(Number(slotOf(table.managerFd, 0).getBigUint64(0, true)), 2 ** 53 - 1)
})

test('slots: a slot or table that is not there is refused', (t) => {
  const table = openSlots(t, 2)
  for (const index of [2, -1]) t.throws(() => native.slotClientWord(table.slots, index), { code: 'ENOENT' })
  t.throws(() => native.slotState(table.slots + 1000, 0, 1, RUNNING), { code: 'ENOENT' })
  for (const count of [0, 65_537]) t.throws(() => native.createSlots(count), { code: 'EINVAL' })
  const gone = native.createSlots(1)
  for (const fd of [gone.clientFd, gone.managerFd, gone.eventFd]) native.closeFd(fd)
  native.releaseSlots(gone.slots)
  t.throws(() => native.slotState(gone.slots, 0, 1, RUNNING), { code: 'ENOENT' })
})

test('slots: another process cannot write or resize what the manager says, and can write its own words', (t) => {
  const table = openSlots(t, 64)
  const script = `
import os, mmap
def attempt(what, act):
  try: act(); print(what, 'done')
  except (PermissionError, OSError) as error: print(what, 'refused', error.errno)
mine = os.open('/proc/${process.pid}/fd/${table.clientFd}', os.O_RDWR)
theirs = os.open('/proc/${process.pid}/fd/${table.managerFd}', os.O_RDWR)
attempt('write', lambda: os.write(theirs, b'x'))
attempt('map writable', lambda: mmap.mmap(theirs, 4096))
attempt('map', lambda: mmap.mmap(theirs, 4096, prot=mmap.PROT_READ))
attempt('shrink', lambda: os.ftruncate(theirs, 0))
attempt('grow', lambda: os.ftruncate(theirs, 8192))
attempt('shrink mine', lambda: os.ftruncate(mine, 0))
attempt('grow mine', lambda: os.ftruncate(mine, 8192))
memoryview(mmap.mmap(mine, 4096)).cast('Q')[8 * 63] = 65536 * 5 + 1`
  const lines = execFileSync('python3', ['-c', script], { encoding: 'utf8' }).trim().split('\n')
  t.deepEqual(lines, [
    'write refused 1',
    'map writable refused 1',
    'map done',
    'shrink refused 1',
    'grow refused 1',
    'shrink mine refused 1',
    'grow mine refused 1',
  ])
  t.is(native.slotClientWord(table.slots, 63), 65536 * 5 + 1)
})

/** The generation that tells the reader to end: above all others, and its times are still exact. */
const LAST = 2 ** 30
/** Whole reads without which a reader has not watched. */
const WATCHED = 100

/**
 * A reader as a Python client is: word, payload, the same word again, CRC. Generation g carries bytes = 3 g, an op id
 * that never changes, and times g and g + 1; anything else under a good CRC and an unchanged word is a torn read.
 */
const READER = `
import os, sys, mmap, struct, zlib
pid, fd, last, watched = sys.argv[1:5]
words = mmap.mmap(os.open(f'/proc/{pid}/fd/{fd}', os.O_RDONLY), 64, prot=mmap.PROT_READ)
view = memoryview(words).cast('Q')
last, watched = int(last), int(watched)
seen = changed = unsound = backwards = 0
generation = 0
print('ready', flush=True)
while generation < last:
  word = view[0]
  if word & 0xffff != 3: continue
  payload = bytes(words[8:60])
  if view[0] != word:
    changed += 1
    continue
  seen += 1
  if seen == watched: print('watched', flush=True)
  g = word >> 16
  if g < generation: backwards += 1
  generation = g
  op, error, failed, done, admit, end, layers, crc = struct.unpack('<QIIQQQQI', payload)
  if zlib.crc32(payload[:48]) != crc or (op, error, failed, done, admit, end) != (77, g & 0xffffffff, 0xffffffff, 3 * g, g * 1000, (g + 1) * 1000):
    unsound += 1
print(seen, changed, unsound, backwards, flush=True)`

interface Verdict {
  readonly seen: number
  readonly changed: number
  readonly unsound: number
  readonly backwards: number
}

/**
 * Lets the reader watch slot 0 behind `fd` while `finish` is called for `count` generations, for as many more as it
 * takes until the reader, which may share the core, has watched, and for LAST.
 */
async function watch(fd: number, count: number, finish: (generation: number) => void): Promise<Verdict> {
  const reader = spawn('python3', ['-c', READER, `${process.pid}`, `${fd}`, `${LAST}`, `${WATCHED}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const said: string[] = []
  const lines = createInterface(reader.stdout).on('line', (line) => said.push(line))
  const ended = once(lines, 'close')
  await once(lines, 'line')
  for (let generation = 1; generation <= count || (said.length < 2 && reader.exitCode === null); generation++) {
    finish(generation)
    if (generation % count === 0) await turn()
  }
  finish(LAST)
  await ended
  const line = said.at(-1) ?? ''
  const [seen = 0, changed = 0, unsound = 0, backwards = 0] = line.split(' ').map(Number)
  return { seen, changed, unsound, backwards }
}

test('slots: a Python process never reads a torn slot while 200,000 generations finish', async (t) => {
  const table = openSlots(t, 1)
  clientWrites(table, 0, 1, 77n)
  const { seen, changed, unsound, backwards } = await watch(table.managerFd, 200_000, (g) => {
    native.slotState(table.slots, 0, g, RUNNING)
    native.slotFinish(table.slots, 0, g, DONE, g, 0xffffffff, 3 * g, g, g + 1)
  })
  t.deepEqual({ unsound, backwards }, { unsound: 0, backwards: 0 })
  t.true(seen >= WATCHED, `${seen} whole reads`)
  t.log(`${seen} whole reads, ${changed} changed under the reader`)
})

test('slots: that reader notices a writer that sets the word before the payload', async (t) => {
  const table = openSlots(t, 1)
  clientWrites(table, 0, 1, 77n)
  const twin = native.createMemory(SLOT_BYTES)
  t.teardown(() => native.closeFd(twin))
  const { unsound } = await watch(twin, 100, (g) => {
    native.slotFinish(table.slots, 0, g, DONE, g, 0xffffffff, 3 * g, g, g + 1)
    const slot = slotOf(table.managerFd, 0)
    const bytes = new Uint8Array(slot.buffer, slot.byteOffset, SLOT_BYTES)
    // The last word alone, over the payload of the one before.
    if (g < LAST) writeSync(twin, bytes, 8, SLOT_BYTES - 8, 8)
    writeSync(twin, bytes, 0, 8, 0)
  })
  t.true(unsound > 0)
})
