/**
 * OrbitKV inside a Node process: keeps KV pages of inference engines in pinned DRAM and on NVMe, and puts them back
 * byte for byte. The Manager's lanes run as threads of this process; no page passes through JavaScript.
 *
 *   const kv = await OrbitKV.open({ poolBytes: 64 << 20, ssd: { paths: ['/nvme/kv.dat'], capacityBytes: 1 << 30 } })
 *   const engine = await kv.register({ model: 'llama', layers: 32, pages: 64, segmentBytes: 65536 })
 *   await engine.publish(keys, [0, 1, 2])               // keys: 32 bytes a block; three pages are saved
 *   await kv.sync({ ssd: true })                        // they are on SSD now
 *   const found = await engine.query(keys)              // the longest prefix that can be restored
 *   await engine.restore(found, [7, 8, 9])              // into any pages of the same engine, or of another one
 *   await kv.close()
 */

import type { MessagePort } from 'node:worker_threads'
import type { LaneDeath } from './actors/runtime/spawn.js'
import type { WaitOptions } from './client/requests.js'
import { bySignal } from './client/waits.js'
import type { DrainReport } from './control/manager-process.js'
import { type Engine, type EngineOptions, registerEngine } from './embedded/engine.js'
import { openFacade } from './embedded/facade.js'
import { type Health, healthOf } from './embedded/health.js'
import type { OpenOptions } from './embedded/options.js'
import { Runtime } from './embedded/runtime.js'

export type { LaneDeath } from './actors/runtime/spawn.js'
export type { OrbitClient } from './client/client.js'
export type { OperationResult } from './client/operations.js'
export type { PublishResult, TransferOptions, WaitOptions } from './client/requests.js'
export type { DrainReport } from './control/manager-process.js'
export type { Engine, EngineOptions, FindOptions, Found, Keys } from './embedded/engine.js'
export type { EngineLayout, PageLayout, Shape } from './embedded/engine-layout.js'
export type { Health } from './embedded/health.js'
export type { DevicePages } from './embedded/host.js'
export type { OpenOptions, SsdOptions } from './embedded/options.js'
export { type RemoteOrbitKV, wrapOrbitKV } from './embedded/remote.js'
export {
  CancelledError,
  CapabilityError,
  CapacityError,
  ClosedError,
  ConfigError,
  CorruptionError,
  type ErrorCode,
  InvariantError,
  IoError,
  OrbitError,
  ProtocolError,
} from './shared/base/errors.js'

/** How long close() lets what was admitted run on, milliseconds. */
const CLOSE_MS = 30_000

/**
 * A runtime. Several in one process are several Managers: each has its pool, its SSD files and its threads (two for
 * each SSD device, and three). An open runtime keeps the process alive; close() ends that.
 *
 * Every wait takes an AbortSignal and then rejects with CancelledError `cancelled`, whose cause is the signal's reason.
 * Every error is an OrbitError with a `code` of docs/errors.md, a RangeError or TypeError for a bad argument, or an
 * Error of the system (`code: 'EMFILE'`) when something cannot be opened.
 */
export class OrbitKV {
  readonly #runtime: Runtime

  private constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /**
   * Populates the pool, creates the SSD files, starts the threads.
   * @throws ConfigError: the options cannot work, a path is refused or another runtime or Manager uses it;
   * CapabilityError: no io_uring here, the addon is not built; IoError; CancelledError.
   */
  static async open(options: OpenOptions): Promise<OrbitKV> {
    return new OrbitKV(await Runtime.open(options))
  }

  /**
   * An engine of this thread: its pages are registered and its keys have a namespace of their own, shared with every
   * engine of equal model, namespace and geometry. @throws RangeError and TypeError for a shape that cannot be laid
   * out; ProtocolError with the rule that was met; CapacityError; ClosedError; CancelledError.
   *
   *   const pages = new SharedArrayBuffer(2 * 2 * 64 * 65536)    // layers * (K, V) * pages * segmentBytes
   *   const engine = await kv.register({ model: 'm', layers: 2, pages: 64, segmentBytes: 65536, memory: pages })
   */
  async register(options: EngineOptions): Promise<Engine> {
    const engine = await registerEngine(this.#runtime, options)
    this.#runtime.entered(engine)
    return engine
  }

  /** Waits until what was published before is findable; with `ssd` also until its writes ended. */
  async sync(options: WaitOptions & { readonly ssd?: boolean } = {}): Promise<void> {
    await this.#runtime.control.sync(options.ssd ?? false, options)
  }

  /** Evicts from DRAM everything that is on SSD and that nobody holds. Returns what went, and what stayed. */
  async dropDram(options: WaitOptions = {}): Promise<Record<string, number>> {
    return Object.fromEntries(await this.#runtime.control.dropDram(options))
  }

  /** What is owned now, by name: sessions, leases, jobs, bytes in every state. */
  async stats(options: WaitOptions = {}): Promise<Record<string, number>> {
    return Object.fromEntries(await this.#runtime.control.stats(options))
  }

  /** Prometheus text, as a Manager's /metrics serves it (docs/operating.md). Readable after close(), too. */
  async metrics(): Promise<string> {
    return await this.#runtime.manager.metrics.metrics()
  }

  /** What it runs on, and whether it serves. */
  health(): Health {
    return healthOf(this.#runtime.manager, this.#runtime.state)
  }

  /**
   * A port to post to one other thread of this process, which takes it with wrapOrbitKV(): control calls, and engines
   * of that thread. @throws ClosedError
   *
   *   const port = kv.facade()
   *   new Worker(url, { workerData: { port }, transferList: [port] })
   */
  facade(): MessagePort {
    return openFacade(this.#runtime, this)
  }

  /** Resolves when a lane ends unasked, after everything was rejected; otherwise never settles. */
  get died(): Promise<LaneDeath> {
    return this.#runtime.died
  }

  /**
   * Refuses what is new, ends what was admitted within `limitMs` (30,000 unless given), then cancels; closes engines,
   * ends every thread and gives everything back. Nothing of it keeps the process alive afterwards. Idempotent; a signal
   * ends the wait alone. @throws ClosedError manager_gone when a lane died; CancelledError.
   */
  async close(options: WaitOptions & { readonly limitMs?: number } = {}): Promise<DrainReport> {
    return await bySignal(this.#runtime.close(options.limitMs ?? CLOSE_MS), options.signal, 'close')
  }
}
