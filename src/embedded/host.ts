import type { Native } from '../binding/surface.js'
import type { OrbitClient } from '../client/client.js'
import type { InProcessSession } from '../client/in-process.js'
import type { WaitOptions } from '../client/requests.js'

/**
 * Pages on a CUDA device, allocated by this process; whoever did frees them after the engine has closed. An address is
 * what the host's own CUDA library calls a device pointer (`cudaMalloc`, a tensor's `data_ptr()`), as a number: it is
 * used in the device's primary context, and never exported.
 *
 * ```ts
 * const kv = await OrbitKV.open({ poolBytes: 8 << 30, devices: 'all' })
 * const engine = await kv.register({ model, layers, pages, segmentBytes, memory: { device: 'GPU-…', address, bytes } })
 * ```
 */
export interface DevicePages {
  /** UUID of the device as tools print it, `GPU-…`; the runtime must serve it. */
  readonly device: string
  /** Device address of the first page. */
  readonly address: number
  /** At least what the layout needs. */
  readonly bytes: number
}

/** An engine as its host sees it. */
export interface HostedEngine {
  readonly session: OrbitClient
  close(): Promise<void>
  /** Every lane has ended: nothing touches the pages any more. */
  lanesEnded(): void
}

/**
 * What an engine needs of its runtime, the same on the runtime's own thread and on another: a session, and memory that
 * the runtime's thread keeps in place. Memory is named by its mapping's number, which every thread of the process knows.
 */
export interface EngineHost {
  readonly native: Native
  /** A greeted session that can register. It is told when every lane has ended. */
  connect(options: WaitOptions): Promise<InProcessSession>
  /** Zeroed pages of `bytes` bytes. @throws Error of the system. */
  allocate(bytes: number): Promise<number>
  /** Bytes of a SharedArrayBuffer as pages. */
  lend(bytes: Uint8Array): Promise<number>
  /** Memory of a CUDA device that this process has allocated, as pages. @throws Error of the driver. */
  lendDevice(pages: DevicePages): Promise<number>
  /** Takes the name away; the memory stays in place until nothing touches it. Never rejects. */
  release(mapping: number): Promise<void>
  /** The engine has closed. */
  left(engine: HostedEngine): void
}
