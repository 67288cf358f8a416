import type { DramWorkerEffect, DramWorkerInput } from '../../src/actors/dram-worker/machine.js'
import type { HostReaderEffect, HostReaderInput } from '../../src/actors/host-reader/machine.js'
import type { HostRestoreEffect, HostRestoreInput } from '../../src/actors/host-restore/machine.js'
import type { SteppedMachine } from '../../src/actors/runtime/turn.js'
import type { SsdWorkerEffect, SsdWorkerInput } from '../../src/actors/ssd-worker/machine.js'
import type { WritebackEffect, WritebackInput } from '../../src/actors/writeback/machine.js'
import type { Context } from '../../src/manager/context.js'
import type { ManagerOptions } from '../../src/manager/options.js'
import type { Storage } from '../../src/manager/storage/storage.js'
import type { EntriesMixin } from './watched-entries.js'

/** The machine of a lane: the real one, or a broken twin around it. */
export interface LaneMachine<Input, Effect> extends SteppedMachine<Input, Effect> {
  readonly idle: boolean
  readonly stopped: boolean
}

type Around<Input, Effect> = (real: LaneMachine<Input, Effect>) => LaneMachine<Input, Effect>

/**
 * A planted bug: real machines and tables, one of them broken on purpose. Every part is optional; what a twin leaves out
 * is the shipped code. docs/internals/simulator.md says where a new one plugs in.
 */
export interface Twin {
  readonly name: string
  /** A class over the watched entries: life and replicas of one entry. */
  readonly entries?: EntriesMixin
  /** Storage, or a subclass of it. */
  readonly storage?: (...args: ConstructorParameters<typeof Storage>) => Storage
  readonly dramWorker?: Around<DramWorkerInput, DramWorkerEffect>
  readonly hostReader?: Around<HostReaderInput, HostReaderEffect>
  readonly hostRestore?: Around<HostRestoreInput, HostRestoreEffect>
  readonly ssdWorker?: Around<SsdWorkerInput, SsdWorkerEffect>
  readonly writeback?: Around<WritebackInput, WritebackEffect>
  /** Everything the verbs share, once it is made: replace a table or wrap a method of it. */
  readonly context?: (context: Context) => void
  readonly options?: (options: ManagerOptions) => ManagerOptions
  /** A device that breaks its contract: an event that fires before the bytes have moved. */
  readonly device?: 'early-events'
  /** A start that breaks its contract: the file of a dead Manager is written again, or two Managers share one path. */
  readonly start?: 'reuses-inode' | 'ignores-lock'
}

export const NO_TWIN: Twin = { name: 'none' }
