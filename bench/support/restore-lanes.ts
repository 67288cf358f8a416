import { HOST_READER_COUNT } from '../../src/actors/host-reader/counters.js'
import * as reader from '../../src/actors/host-reader/messages.js'
import { HOST_READER_ENTRY, HOST_READER_LAYOUT, type HostReaderParams } from '../../src/actors/host-reader/params.js'
import * as hostRestore from '../../src/actors/host-restore/messages.js'
import {
  HOST_RESTORE_ENTRY,
  HOST_RESTORE_LAYOUT,
  type HostRestoreParams,
} from '../../src/actors/host-restore/params.js'
import { Wiring } from '../../src/actors/runtime/wiring.js'
import { SSD_WORKER_COUNT } from '../../src/actors/ssd-worker/counters.js'
import * as ssdWorker from '../../src/actors/ssd-worker/messages.js'
import { SSD_WORKER_ENTRY, SSD_WORKER_LAYOUT, type SsdWorkerParams } from '../../src/actors/ssd-worker/params.js'
import type { Native } from '../../src/binding/surface.js'
import { IO_DEPTH, PART_DESCRIPTORS, RESTORE_PARTS } from '../../src/control/lane-plan.js'
import type { DeviceName } from '../../src/shared/base/device-name.js'
import type { List } from '../../src/shared/layout/records.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { slotWord } from '../../src/shared/layout/wire/slots.js'
import { CounterReader } from '../../src/shared/rings/counter-page.js'
import { openCufile } from './cufile.js'
import { type Engine, type Piece, sourcesOf } from './restore-engine.js'
import { BenchSeat, type LaneTalk } from './seat.js'

const SLOTS = 4
/** The one worker of the cuFile route. */
const WORKER = 0

type Request = hostRestore.HostRestoreRequest | ssdWorker.SsdWorkerRequest
type Reply = hostRestore.HostRestoreReply | ssdWorker.SsdWorkerReply

/** What a restore asks for, whichever lane has it. */
interface Asked {
  readonly job: number
  readonly more: 0
  readonly bytes: number
  readonly admitUs: number
  readonly list: List
  readonly slots: number
  readonly slot: number
  readonly slotGeneration: number
  readonly fence: number
}

/** A route's lanes and how they are spoken to. */
interface Route {
  readonly seat: BenchSeat
  readonly talk: LaneTalk<Request, Reply>
  readonly ask: (asked: Asked) => Request
  /** What shows that the bytes came this way. */
  readonly evidence: () => object
  readonly close: () => void
}

/** The lanes of one route as the Manager starts them, and a client's slots. */
export class RestoreLanes {
  readonly #native: Native
  readonly #route: Route
  readonly #slots: ReturnType<Native['createSlots']>
  readonly #client: number
  readonly #result = new Float64Array(7)
  #jobs = 0

  private constructor(native: Native, route: Route) {
    this.#native = native
    this.#route = route
    this.#slots = native.createSlots(SLOTS)
    this.#client = native.openSlots(this.#slots.clientFd, this.#slots.managerFd, SLOTS)
  }

  /** host-restore and host-reader: io_uring through `windowBytes` of page-locked DRAM. `codec`: its budget, if any. */
  static async uring(
    native: Native,
    device: DeviceName,
    spinUs: number,
    windowBytes: number,
    codec: { readonly codecBudgetBytes?: number } = {},
  ): Promise<RestoreLanes> {
    return new RestoreLanes(native, await uringRoute(native, device, spinUs, windowBytes, codec))
  }

  /**
   * The ssd-worker: cuFile through its staging slots, in compatibility mode where the machine has no other.
   * @throws Refusal where libcufile cannot be opened or does not take `file`
   */
  static async cufile(native: Native, device: DeviceName, spinUs: number, file: number): Promise<RestoreLanes> {
    return new RestoreLanes(native, await cufileRoute(native, device, spinUs, file))
  }

  /** One restore from the record to the reply; the slot is then done. `bytes`: read from SSD. */
  restore(engine: Engine, plan: readonly Piece[]): { readonly us: number; readonly bytes: number } {
    return this.restoreList(sourcesOf(engine, plan), engine.bytes)
  }

  /** The same of SOURCE descriptors; `logicalBytes`: of the pages that they fill. */
  restoreList(list: List, logicalBytes: number): { readonly us: number; readonly bytes: number } {
    const { seat, talk, ask } = this.#route
    const job = ++this.#jobs
    const slot = job % SLOTS
    this.#native.slotSubmit(this.#client, slot, job, job, 0)
    const finish = { slots: this.#slots.slots, slot, slotGeneration: job, fence: 0 }
    const admitUs = this.#native.monotonicUs()
    const startMs = performance.now()
    talk.requests.send(ask({ job, more: 0, bytes: logicalBytes, admitUs, list, ...finish }))
    let bytes = -1
    seat.await(
      talk,
      (reply) => {
        if (reply.kind !== 'restore-done' || reply.job !== job || reply.status !== 0) {
          throw new Error(`restore ${job} ended: ${JSON.stringify(reply)}`)
        }
        bytes = reply.ssdBytes
      },
      () => bytes >= 0,
    )
    const us = (performance.now() - startMs) * 1000
    const word = this.#native.slotPoll(this.#client, slot, this.#result)
    if (word !== slotWord(job, SLOT_STATE.done)) throw new Error(`slot ${slot} says ${word}`)
    this.#native.slotFree(this.#client, slot, job)
    return { us, bytes }
  }

  evidence(): object {
    return { restores: this.#jobs, ...this.#route.evidence() }
  }

  async close(): Promise<void> {
    await this.#route.seat.close()
    this.#route.close()
    this.#native.closeSlots(this.#client)
    this.#native.releaseSlots(this.#slots.slots)
  }
}

async function uringRoute(
  native: Native,
  device: DeviceName,
  spinUs: number,
  windowBytes: number,
  codec: { readonly codecBudgetBytes?: number },
): Promise<Route> {
  const wiring = new Wiring(spinUs)
  wiring.actor('manager', { series: [], histograms: [] })
  wiring.actor('host-reader', HOST_READER_LAYOUT)
  wiring.actor('host-restore', HOST_RESTORE_LAYOUT)
  wiring.connectPair('manager', 'host-restore')
  wiring.connectPair('manager', 'host-reader')
  wiring.connectPair('host-restore', 'host-reader')
  const { pool } = native.openPool(windowBytes)
  const seat = new BenchSeat(native, wiring, 'manager')
  const restoreParams: HostRestoreParams = {
    ...{ client: 'manager', device, readers: ['host-reader'], pool, windowOffsetBytes: 0, windowBytes },
    ...{ storeReads: IO_DEPTH, parts: RESTORE_PARTS, partDescriptors: PART_DESCRIPTORS, io: 'uring', ...codec },
  }
  const clients = ['manager', 'host-restore']
  const readerParams: HostReaderParams = { clients, pool, depth: IO_DEPTH, io: 'uring', register: true }
  const talk = await seat.lane('host-restore', HOST_RESTORE_ENTRY, restoreParams, hostRestore)
  await seat.lane('host-reader', HOST_READER_ENTRY, readerParams, reader)
  const counts = new CounterReader(wiring.seat('host-reader').counters, HOST_READER_LAYOUT)
  return {
    seat,
    talk: talk as unknown as LaneTalk<Request, Reply>,
    ask: (asked) => ({ kind: 'restore', ...asked }),
    evidence: () => ({
      reads: counts.series(HOST_READER_COUNT.readOperations),
      readBytes: counts.series(HOST_READER_COUNT.readBytes),
      checksumMismatches: counts.series(HOST_READER_COUNT.checksumMismatches),
    }),
    close: () => {},
  }
}

async function cufileRoute(native: Native, device: DeviceName, spinUs: number, file: number): Promise<Route> {
  const cufile = openCufile(native, file)
  const { version, compatibilityMode } = cufile
  const wiring = new Wiring(spinUs)
  wiring.actor('manager', { series: [], histograms: [] })
  wiring.actor('ssd-worker', SSD_WORKER_LAYOUT)
  wiring.connectPair('manager', 'ssd-worker')
  const { pool } = native.openPool(16 << 20)
  const seat = new BenchSeat(native, wiring, 'manager')
  const params: SsdWorkerParams = {
    client: 'manager',
    pool,
    device,
    partDescriptors: PART_DESCRIPTORS,
    io: 'uring',
  }
  const talk = await seat.lane('ssd-worker', SSD_WORKER_ENTRY, params, ssdWorker)
  talk.requests.send({ kind: 'open-worker', worker: WORKER })
  const counts = new CounterReader(wiring.seat('ssd-worker').counters, SSD_WORKER_LAYOUT)
  return {
    seat,
    talk: talk as unknown as LaneTalk<Request, Reply>,
    ask: (asked) => ({ kind: 'restore', worker: WORKER, ...asked }),
    evidence: () => ({
      cufile: { version, compatibilityMode },
      reads: counts.series(SSD_WORKER_COUNT.reads),
      readBytes: counts.series(SSD_WORKER_COUNT.readBytes),
      readFailures: counts.series(SSD_WORKER_COUNT.readFailures),
      damagedGenerations: counts.series(SSD_WORKER_COUNT.damagedGenerations),
    }),
    close: cufile.close,
  }
}
