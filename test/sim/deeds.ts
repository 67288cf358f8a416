import { SSD_WORKER_COUNT } from '../../src/actors/ssd-worker/counters.js'
import { VERB_COUNT } from '../../src/manager/counters.js'
import { STORAGE_COUNT } from '../../src/manager/storage/counters.js'
import type { FaultKind, FaultTally } from './faults.js'
import type { ManagerProcess } from './manager-process.js'

/** What one seed did. */
export interface Outcome {
  readonly operations: number
  readonly hash: number
  readonly restoresVerified: number
  readonly blocksVerified: number
  readonly publishesDone: number
  /** Reads and writes of the disk that ended, well or not. */
  readonly reads: number
  readonly writes: number
  /** Those of the cuFile route that ended in full. */
  readonly cufileReads: number
  readonly cufileWrites: number
  /** Reads that passed one write that could have gone, at most (D4). */
  readonly readsPastWrite: number
  /** Starts of the Manager. */
  readonly starts: number
  /** Items that the device encoded and decoded. */
  readonly encoded: number
  readonly decoded: number
  readonly virtualUs: number
}

type Counted = 'reads' | 'writes' | 'cufileReads' | 'cufileWrites' | 'readsPastWrite' | 'encoded' | 'decoded'

/** What the processes of one seed have done, each counted when it is gone. */
export class Deeds {
  readonly counts: Record<Counted, number> = {
    reads: 0,
    writes: 0,
    cufileReads: 0,
    cufileWrites: 0,
    readsPastWrite: 0,
    encoded: 0,
    decoded: 0,
  }
  completions = 0
  readonly #faults: FaultTally

  constructor(faults: FaultTally) {
    this.#faults = faults
  }

  /** What a process did is counted, and which bounds it met: faults of a kind that plans cannot place. */
  retire({ lanes, wiring, device, storageTally: storage, verbTally: verbs }: ManagerProcess): void {
    const { counts } = this
    counts.encoded += device.encoded
    counts.decoded += device.decoded
    for (const {
      name,
      device: { completions },
    } of lanes) {
      this.completions += completions
      if (name.startsWith('host-reader')) counts.reads += completions
      if (name.startsWith('writeback')) counts.writes += completions
    }
    counts.cufileReads += wiring.staging?.tally.at(SSD_WORKER_COUNT.reads) ?? 0
    counts.cufileWrites += wiring.staging?.tally.at(SSD_WORKER_COUNT.writes) ?? 0
    counts.readsPastWrite = Math.max(counts.readsPastWrite, wiring.staging?.check.passedMost ?? 0)
    const met = (bound: boolean, kind: FaultKind) => {
      if (bound) this.#faults.fired(kind)
    }
    met(storage.at(STORAGE_COUNT.poolAllocFailures) > 0, 'pool-full')
    met(storage.at(STORAGE_COUNT.directoryEvictions) > 0, 'directory-full')
    met(storage.at(STORAGE_COUNT.writeQueueFull) > 0, 'queue-full')
    met(storage.at(STORAGE_COUNT.admissionRejections) > 0, 'admission-rejected')
    met(verbs.at(VERB_COUNT.unreadBlocks) > 0, 'reads-stopped')
    met(verbs.at(VERB_COUNT.budgetWaits) > 0, 'budget-busy')
    met(verbs.at(VERB_COUNT.gpuWriteFallbacks) > 0, 'gpu-write-fallback')
  }
}
