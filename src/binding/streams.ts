import type { DeviceName } from '../shared/base/device-name.js'

/** How a stream of a CUDA device carries copies; `auto` looks each job's shape up in a measured table. */
export type Transfer = 'auto' | 'direct' | 'kernel'

/** What openStream() may be told about a CUDA device's stream; everything has a measured default. */
export interface StreamOptions {
  readonly transfer?: Transfer
  /** Blocks of one copy kernel, 1 to 1024. */
  readonly blocks?: number
  /** Bytes that one warp of a copy kernel moves at a time: 512 to 2^20. */
  readonly tileBytes?: number
  /** Measure the device's time of each job by events: word 2 of its completion then has it in nanoseconds. */
  readonly timed?: boolean
  /** The kernel that moves inside a device; for measuring. */
  readonly gather?: Gather
  /** Where that kernel finds its descriptors; for measuring. */
  readonly descriptors?: Descriptors
  /** Device memory that encode() may hold, and decode() as much again; 64 MiB by default, 0 for none. */
  readonly codecBudgetBytes?: number
  /**
   * The same of the streams of staging slots that may decode what this one encodes; absent: there are none. encode()
   * takes nothing that does not fit there, and in its own budget, when it is decoded.
   */
  readonly codecStagingBudgetBytes?: number
  /** What encode() may hold, in the place of that. */
  readonly encodeBudgetBytes?: number
}

/** By rounds of a block that fetches descriptors for all its warps (default), or each warp by itself. */
export type Gather = 'rounds' | 'warps'

/** In pinned memory of the host (default), or brought to the device by a stream beside the kernel's. */
export type Descriptors = 'mapped' | 'fed'

export interface StreamReport {
  readonly device: string
  readonly transfer: Transfer
  /** Whether kernels are loaded; a stream without them copies by the copy engine alone. */
  readonly kernels: boolean
  /** Why there are no kernels; empty when there are, and for the host. */
  readonly kernelsReason: string
  /** Whether the port's pool is registered with the driver (then copies are asynchronous and kernels reach it). */
  readonly poolRegistered: boolean
  readonly poolRegisterMs: number
  /** Jobs that went each way. */
  readonly directJobs: number
  readonly kernelJobs: number
}

/** Streams and what they copy and check, at a port. */
export interface StreamMethods {
  /**
   * Opens a device stream owned by this port; `options` is for CUDA devices. The first stream of a CUDA device makes its
   * primary context, registers the port's pool with the driver and loads the kernels: tenths of a second, so open
   * streams while starting. Throws ENODEV with the reason when there is no such device or it is lost, ENOMEM when the
   * driver takes no more.
   */
  openStream(device: DeviceName, options?: StreamOptions): number
  streamReport(stream: number): StreamReport
  /**
   * Queues copies on a stream: `count` COPY descriptors at `list[offset]`. direction 0 = pool to pages (H2D),
   * 1 = pages to pool (D2H). Small jobs on an idle stream may run inside the call. Completes once with `tag`.
   * Returns 0 or -errno (-EINVAL: a bad descriptor, -EAGAIN: 4096 jobs in flight; nothing was copied, no completion
   * follows). Jobs of a stream complete in order; -ECANCELED when the port closed before the job started.
   */
  copy(stream: number, tag: number, direction: 0 | 1, list: Float64Array, offset: number, count: number): number
  /** Queues `count` CHECKSUM descriptors; result i goes to results[resultBase + i]. Completes once with `tag`. */
  checksum(stream: number, tag: number, list: Float64Array, offset: number, count: number, resultBase: number): number
  /**
   * Queues `count` MOVE descriptors at `list[offset]`: device memory to device memory of the stream's device, by one
   * kernel (or, without kernels, one copy each). As copy(). Runs of one job must not overlap.
   */
  move(stream: number, tag: number, list: Float64Array, offset: number, count: number): number
  /** Queues `count` MAPPED_CHECKSUM descriptors over memory of the stream's device; by a kernel. As checksum(). */
  checksumMapped(
    stream: number,
    tag: number,
    list: Float64Array,
    offset: number,
    count: number,
    resultBase: number,
  ): number
  /**
   * Closes a stream with nothing in flight; a staging slot's buffer and stream are deregistered first. Returns 0,
   * -EBUSY (something is in flight), -EINVAL, or minus the cuFile status of a deregistration that failed: then the
   * driver may still use the memory, and the process must end.
   */
  closeStream(stream: number): number
}
