import { availableParallelism } from 'node:os'
import { DRAM_WORKER_ENTRY, DRAM_WORKER_LAYOUT, type DramWorkerParams } from '../actors/dram-worker/params.js'
import { HOST_READER_ENTRY, HOST_READER_LAYOUT, type HostReaderParams } from '../actors/host-reader/params.js'
import { HOST_RESTORE_ENTRY, HOST_RESTORE_LAYOUT, type HostRestoreParams } from '../actors/host-restore/params.js'
import { Wiring } from '../actors/runtime/wiring.js'
import {
  SSD_WORKER_ENTRY,
  SSD_WORKER_LAYOUT,
  type SsdWorkerParams,
  streamBudgetBytes,
} from '../actors/ssd-worker/params.js'
import { JOIN_BYTES_MAX, WRITEBACK_ENTRY, WRITEBACK_LAYOUT, type WritebackParams } from '../actors/writeback/params.js'
import { ACTOR } from '../manager/params.js'
import { managerLayout } from '../manager/series.js'
import { isCoding } from '../shared/codec/setting.js'
import type { CounterLayout } from '../shared/rings/counter-page.js'
import type { Crew } from './crew.js'
import { spinUsOf } from './spin.js'
import type { Memory, StartReport } from './start-report.js'

/** Reads or writes that one lane keeps in flight: enough for one NVMe device. */
export const IO_DEPTH = 128
/** Parts of jobs that a copying lane keeps on its stream, and granules in one part: about 16 MiB at most each. */
const STREAM_PARTS = 16
export const PART_DESCRIPTORS = 32
/**
 * The same for restores from SSD, whose granules land one by one: enough that the stream never waits for the lane, and
 * so few that what lands meanwhile goes as one part.
 */
export const RESTORE_PARTS = 4

export interface LaneName {
  readonly name: string
  /** What it counts. */
  readonly layout: CounterLayout
}

/** Every lane but the manager. */
export function laneNames({ devices, stores, staging }: StartReport): LaneName[] {
  const names: LaneName[] = devices.flatMap(({ name }) => [
    { name: ACTOR.dramWorker(name), layout: DRAM_WORKER_LAYOUT },
    { name: ACTOR.hostRestore(name), layout: HOST_RESTORE_LAYOUT },
  ])
  for (const device of staging) names.push({ name: ACTOR.ssdWorker(device), layout: SSD_WORKER_LAYOUT })
  for (let store = 0; store < stores; store++) {
    names.push({ name: ACTOR.hostReader(store), layout: HOST_READER_LAYOUT })
    names.push({ name: ACTOR.writeback(store), layout: WRITEBACK_LAYOUT })
  }
  return names
}

/** Every actor and every ring. */
export function wire(report: StartReport): Wiring {
  const { devices, stores, config } = report
  const names = laneNames(report)
  const wiring = new Wiring(spinUsOf(config.laneSpinUs, availableParallelism(), names.length + 2))
  wiring.actor(ACTOR.main, { series: [], histograms: [] })
  wiring.actor(ACTOR.manager, managerLayout(config.reuseWindows))
  for (const { name, layout } of names) wiring.actor(name, layout)
  wiring.connectPair(ACTOR.main, ACTOR.manager)
  for (const { name } of names) wiring.connectPair(ACTOR.manager, name)
  for (const { name } of devices) {
    for (let store = 0; store < stores; store++) wiring.connectPair(ACTOR.hostRestore(name), ACTOR.hostReader(store))
  }
  return wiring
}

/** Starts every lane but the manager. */
export function spawnLanes(crew: Crew, memory: Memory, report: StartReport): void {
  const { config } = report
  const devices = report.devices.map(({ name }) => name)
  const common = { pool: memory.report.pool, io: config.io } as const
  const codec = isCoding(config.codec) ? { codecBudgetBytes: config.codecBudgetBytes } : {}
  const isStaged = isCoding(config.codec) && report.staging.length > 0
  const staged = isStaged ? { codecStagingBudgetBytes: streamBudgetBytes(config.codecBudgetBytes) } : {}
  const submits = { ...common, depth: IO_DEPTH, register: true } as const
  const copies = {
    ...common,
    ...codec,
    client: ACTOR.manager,
    parts: STREAM_PARTS,
    partDescriptors: PART_DESCRIPTORS,
  } as const
  for (let store = 0; store < report.stores; store++) {
    const reader: HostReaderParams = { ...submits, clients: [ACTOR.manager, ...devices.map(ACTOR.hostRestore)] }
    crew.spawn(ACTOR.hostReader(store), HOST_READER_ENTRY, reader)
    const writer: WritebackParams = {
      ...submits,
      client: ACTOR.manager,
      windowBytes: config.writeInFlightBytes,
      joinBytes: isCoding(config.codec) ? JOIN_BYTES_MAX : 0,
    }
    crew.spawn(ACTOR.writeback(store), WRITEBACK_ENTRY, writer)
  }
  for (const [place, device] of devices.entries()) {
    const dram: DramWorkerParams = { ...copies, ...staged, device }
    crew.spawn(ACTOR.dramWorker(device), DRAM_WORKER_ENTRY, dram)
    const restore: HostRestoreParams = {
      ...copies,
      device,
      parts: RESTORE_PARTS,
      readers: Array.from({ length: report.stores }, (_, store) => ACTOR.hostReader(store)),
      windowOffsetBytes: memory.windowOffsetBytes + place * memory.windowBytes,
      windowBytes: memory.windowBytes,
      storeReads: IO_DEPTH,
    }
    crew.spawn(ACTOR.hostRestore(device), HOST_RESTORE_ENTRY, restore)
  }
  for (const device of report.staging) {
    const ssd: SsdWorkerParams = {
      ...common,
      ...codec,
      client: ACTOR.manager,
      device,
      partDescriptors: PART_DESCRIPTORS,
    }
    crew.spawn(ACTOR.ssdWorker(device), SSD_WORKER_ENTRY, ssd)
  }
}
