import type { NvcompReport } from '../binding/codecs.js'
import type { CudaProbe } from '../binding/devices.js'
import type { PoolReport } from '../binding/pool.js'
import type { Probe } from '../binding/probe.js'
import type { ServedDevice } from '../manager/lanes/served-device.js'
import type { DeviceName } from '../shared/base/device-name.js'
import type { SsdRoutes } from '../shared/routing/ssd-selection.js'
import type { ResolvedConfig } from './config.js'
import type { OpenShards } from './shards.js'

/** Where the windows of the host-restore lanes lie, one after the other: from the first byte that the manager does not allocate. */
export interface Memory {
  readonly report: PoolReport
  readonly windowOffsetBytes: number
  /** Of each device. */
  readonly windowBytes: number
}

/** What a running Manager knows about itself. */
export interface StartReport {
  readonly epoch: number
  readonly io: 'uring' | 'posix'
  readonly probe: Probe
  readonly pool: PoolReport
  readonly shards: OpenShards['reports']
  readonly stores: number
  readonly config: ResolvedConfig
  /** How the SSD tier is used, and why; null without one. */
  readonly routes: SsdRoutes | null
  readonly cuda: CudaProbe
  /** What `--storage-codec ans` runs on; null with another codec. */
  readonly nvcomp: NvcompReport | null
  /** Whose pages may be registered; the host is the first. */
  readonly devices: readonly ServedDevice[]
  /** Devices with an ssd-worker lane: those that the cuFile route serves. */
  readonly staging: readonly DeviceName[]
}
