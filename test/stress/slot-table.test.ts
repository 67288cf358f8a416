import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { setImmediate as breath } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { crc32 } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import {
  MANAGER_SLOT,
  NONE_FAILED,
  SLOT_BYTES,
  SLOT_CRC_END,
  SLOT_CRC_START,
  slotGeneration,
  slotStateOf,
  slotWord,
} from '../../src/shared/layout/wire/slots.js'
import { SLOT_CLIENT } from './slot-client.js'

/** Ends that the client sees; a longer run: ORBITKV_STRESS_OPERATIONS=5000000. */
const OPERATIONS = Number(process.env['ORBITKV_STRESS_OPERATIONS'] ?? 20_000)
const TWIN_OPERATIONS = 2_000
const SLOTS = 64
/** Turns for which a payload is held back from a client that does not believe the old one. */
const LATE_TURNS = 3
const PYTHON_PATH = fileURLToPath(new URL('../../../python', import.meta.url))

const native = loadNative()

/** Ends generation `generation` of a slot; what it says follows from both. */
type Writer = (slot: number, generation: number) => void

interface Table {
  readonly slots: number
  readonly clientFd: number
  readonly managerFd: number
  readonly write: Writer
  /** Called in each turn, before anything is written: for a writer that is not done with a line at once. */
  readonly settle?: () => void
}

interface Verdict {
  readonly ended: number
  readonly torn: number
  readonly backwards: number
}

/** The addon's own writer. */
function shipped(t: ExecutionContext): Table {
  const { slots, clientFd, managerFd, eventFd } = native.createSlots(SLOTS)
  t.teardown(() => {
    for (const fd of [clientFd, managerFd, eventFd]) native.closeFd(fd)
    native.releaseSlots(slots)
  })
  const write: Writer = (slot, generation) => {
    native.slotState(slots, slot, generation, SLOT_STATE.running)
    native.slotFinish(
      slots,
      slot,
      generation,
      SLOT_STATE.done,
      generation % 7,
      NONE_FAILED,
      generation * 65536 + slot,
      generation,
      generation + 1,
    )
  }
  return { slots, clientFd, managerFd, write }
}

/**
 * A writer of the test that sets the word, and the payload only when the client has given the line back, or after
 * `turnsMax` turns. The first payload of a line follows at once: nothing stands there yet that could be believed.
 */
function wordFirst(t: ExecutionContext, turnsMax: number): Table {
  const real = shipped(t)
  const managerFd = native.createMemory(SLOTS * SLOT_BYTES)
  t.teardown(() => native.closeFd(managerFd))
  const late = new Map<number, { readonly generation: number; turns: number }>()
  const writePayload = (slot: number, generation: number): void => {
    writeSync(managerFd, lineOf(slot, generation), SLOT_CRC_START, SLOT_BYTES - SLOT_CRC_START, slot * SLOT_BYTES + 8)
    late.delete(slot)
  }
  const settle = (): void => {
    for (const [slot, each] of late) {
      const word = native.slotClientWord(real.slots, slot)
      const taken = word !== slotWord(each.generation, SLOT_STATE.submitted)
      if (taken || each.turns++ >= turnsMax) writePayload(slot, each.generation)
    }
  }
  const write: Writer = (slot, generation) => {
    writeSync(managerFd, lineOf(slot, generation), 0, SLOT_CRC_START, slot * SLOT_BYTES)
    if (generation === 1) writePayload(slot, generation)
    else late.set(slot, { generation, turns: 0 })
  }
  return { ...real, managerFd, write, settle }
}

/** A finished line, as the addon writes it. */
function lineOf(slot: number, generation: number): Uint8Array {
  const line = new DataView(new ArrayBuffer(SLOT_BYTES))
  const bytes = new Uint8Array(line.buffer)
  line.setBigUint64(MANAGER_SLOT.word, BigInt(slotWord(generation, SLOT_STATE.done)), true)
  line.setBigUint64(MANAGER_SLOT.opId, BigInt(generation), true)
  line.setUint32(MANAGER_SLOT.errorCode, generation % 7, true)
  line.setUint32(MANAGER_SLOT.firstFailed, NONE_FAILED, true)
  line.setBigUint64(MANAGER_SLOT.bytes, BigInt(generation * 65536 + slot), true)
  line.setBigUint64(MANAGER_SLOT.admitNs, BigInt(generation * 1000), true)
  line.setBigUint64(MANAGER_SLOT.doneNs, BigInt((generation + 1) * 1000), true)
  line.setUint32(MANAGER_SLOT.crc32, crc32(bytes.subarray(SLOT_CRC_START, SLOT_CRC_END)), true)
  return bytes
}

/** Serves a Python client until it has seen all its operations end. */
async function hammer(table: Table, operations: number, believes: 'own' | 'any'): Promise<Verdict> {
  const { slots, clientFd, managerFd, write, settle } = table
  const client = spawn('python3', ['-c', SLOT_CLIENT, `${SLOTS}`, `${operations}`, believes], {
    stdio: ['ignore', 'pipe', 'inherit', clientFd, managerFd],
    env: { ...process.env, PYTHONPATH: PYTHON_PATH },
  })
  // Its last line included.
  const ended = once(client, 'close')
  const lines = createInterface(client.stdout as Readable)
  const said: string[] = []
  lines.on('line', (line) => said.push(line))
  const done = new Float64Array(SLOTS)
  while (client.exitCode === null && client.signalCode === null && said.length < 2) {
    settle?.()
    for (let slot = 0; slot < SLOTS; slot++) {
      const word = native.slotClientWord(slots, slot)
      if (slotStateOf(word) !== SLOT_STATE.submitted || slotGeneration(word) <= (done[slot] as number)) continue
      done[slot] = slotGeneration(word)
      write(slot, slotGeneration(word))
    }
    // The pipe is heard, and the client, which may share the core, has its turn.
    await breath()
  }
  await ended
  const [ends = 0, torn = 0, backwards = 0] = (said[1] ?? '').split(' ').map(Number)
  return { ended: ends, torn, backwards }
}

test.serial(`O2: a Python client believes no torn end while the addon ends ${OPERATIONS} operations`, async (t) => {
  const verdict = await hammer(shipped(t), OPERATIONS, 'own')
  t.deepEqual(verdict, { ended: OPERATIONS, torn: 0, backwards: 0 })
})

test.serial('O2: a client that believes any op id is caught when the word comes before the payload', async (t) => {
  const { ended, torn } = await hammer(wordFirst(t, Number.POSITIVE_INFINITY), TWIN_OPERATIONS, 'any')
  t.is(ended, TWIN_OPERATIONS)
  t.is(torn, TWIN_OPERATIONS - SLOTS, 'all but the first of each line')
  t.log(`${torn} of ${ended} ends were torn`)
})

test.serial('O2: the shipped client is not fooled even then: the op id ties the payload to its word', async (t) => {
  const verdict = await hammer(wordFirst(t, LATE_TURNS), TWIN_OPERATIONS, 'own')
  t.deepEqual(verdict, { ended: TWIN_OPERATIONS, torn: 0, backwards: 0 })
})
