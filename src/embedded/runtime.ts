import type { LaneDeath } from '../actors/runtime/spawn.js'
import { loadNative } from '../binding/load.js'
import type { Native } from '../binding/surface.js'
import type { OrbitClient } from '../client/client.js'
import { cancelledBy } from '../client/failures.js'
import { connectInProcess, type InProcessSession } from '../client/in-process.js'
import type { WaitOptions } from '../client/requests.js'
import { type DrainReport, RunningManager } from '../control/manager-process.js'
import { ClosedError } from '../shared/base/errors.js'
import type { DevicePages, EngineHost, HostedEngine } from './host.js'
import { configOf, type OpenOptions } from './options.js'

/** Something that speaks for the runtime in another thread, and ends with it. */
export interface Outpost {
  /** Every lane has ended: tells its engines, and closes once what it was asked is answered. */
  lanesEnded(): void
}

/**
 * A Manager whose lanes are threads of this process, and everything in this thread that depends on it.
 *
 * States: `serving` -> `draining` (close() was called) -> `closed`; or -> `died` from any of the first two. Invariant:
 * engines are told that the lanes have ended only when no thread of the runtime is left.
 */
export class Runtime implements EngineHost {
  readonly native: Native
  /** Resolves when a lane ends unasked; otherwise never settles. */
  readonly died: Promise<LaneDeath>
  readonly #manager: RunningManager
  readonly #onDeath: ((death: LaneDeath) => void) | undefined
  readonly #engines = new Set<HostedEngine>()
  readonly #outposts = new Set<Outpost>()
  readonly #mappings = new Set<number>()
  readonly #connecting = new Set<() => void>()
  #control: InProcessSession | null = null
  #state: 'serving' | 'draining' | 'closed' | 'died' = 'serving'
  #closing: Promise<DrainReport> | null = null
  #reportDeath!: (death: LaneDeath) => void
  #failure: ClosedError | null = null

  private constructor(native: Native, manager: RunningManager, onDeath: ((death: LaneDeath) => void) | undefined) {
    this.native = native
    this.#manager = manager
    this.#onDeath = onDeath
    this.died = new Promise((resolve) => {
      this.#reportDeath = resolve
    })
  }

  /** Starts everything. A failure, or the signal, leaves nothing behind. */
  static async open(options: OpenOptions): Promise<Runtime> {
    const { signal } = options
    if (signal?.aborted) throw cancelledBy(signal, 'open')
    let runtime: Runtime | null = null
    let early: LaneDeath | null = null
    const manager = await RunningManager.start(configOf(options), (death) => {
      if (runtime === null) early ??= death
      else void runtime.#die(death)
    })
    runtime = new Runtime(loadNative(), manager, options.onDeath)
    if (early !== null) await runtime.#die(early)
    try {
      if (signal?.aborted) throw cancelledBy(signal, 'open')
      runtime.#control = await runtime.connect({ signal })
      return runtime
    } catch (error) {
      await runtime.close(0)
      throw error
    }
  }

  get state(): 'serving' | 'draining' | 'closed' | 'died' {
    return this.#state
  }

  get manager(): RunningManager {
    return this.#manager
  }

  /** The session that asks what concerns no engine. @throws ClosedError */
  get control(): OrbitClient {
    this.#check()
    if (this.#control === null) throw new ClosedError('session_closed', 'The runtime has not opened yet')
    return this.#control.client
  }

  async connect(options: WaitOptions): Promise<InProcessSession> {
    this.#check()
    const greeting = { ...GREETING, signal: options.signal, begun: this.#connecting }
    return await connectInProcess(this.native, (fd) => this.adopt(fd), greeting)
  }

  /** Serves the other end of a socket pair; the descriptor is taken whatever comes. @throws ClosedError */
  adopt(fd: number): void {
    try {
      this.#check()
    } catch (error) {
      this.native.closeFd(fd)
      throw error
    }
    this.#manager.adopt(fd)
  }

  entered(engine: HostedEngine): void {
    this.#engines.add(engine)
  }

  left(engine: HostedEngine): void {
    this.#engines.delete(engine)
  }

  attach(outpost: Outpost): void {
    this.#check()
    this.#outposts.add(outpost)
  }

  detach(outpost: Outpost): void {
    this.#outposts.delete(outpost)
  }

  async allocate(bytes: number): Promise<number> {
    this.#check()
    const fd = this.native.createMemory(bytes)
    try {
      return this.#keep(this.native.importMemory(fd).mapping)
    } finally {
      this.native.closeFd(fd)
    }
  }

  async lend(bytes: Uint8Array): Promise<number> {
    this.#check()
    return this.#keep(this.native.shareBuffer(bytes).mapping)
  }

  async lendDevice({ device, address, bytes }: DevicePages): Promise<number> {
    this.#check()
    return this.#keep(this.native.adoptDeviceMemory(device, address, bytes).mapping)
  }

  async release(mapping: number): Promise<void> {
    if (this.#mappings.delete(mapping)) this.native.releaseMapping(mapping)
  }

  /**
   * Refuses what is new, ends what was admitted within `limitMs`, ends every thread, closes what this thread holds.
   * Idempotent. @throws ClosedError manager_gone when a lane died.
   */
  close(limitMs: number): Promise<DrainReport> {
    this.#closing ??= this.#close(limitMs)
    return this.#closing
  }

  async #close(limitMs: number): Promise<DrainReport> {
    if (this.#state === 'serving') this.#state = 'draining'
    const died = this.died.then((death) => {
      throw gone(death)
    })
    const report = await Promise.race([died, this.#manager.drain(limitMs * 1000)])
    this.#state = 'closed'
    await this.#end()
    return report
  }

  /** Fail-stop: every other lane ends, then whatever waits is rejected, then the embedder or the process is told. */
  async #die(death: LaneDeath): Promise<void> {
    if (this.#state === 'died' || this.#state === 'closed') return
    this.#state = 'died'
    this.#failure = gone(death)
    this.#closing?.catch(() => {})
    await this.#manager.abandon()
    await this.#end()
    this.#reportDeath(death)
    if (this.#onDeath !== undefined) this.#onDeath(death)
    else this.#endProcess(this.#failure)
  }

  #endProcess(failure: ClosedError): void {
    setImmediate(() => {
      throw failure
    })
  }

  /** No thread of the runtime is left. */
  async #end(): Promise<void> {
    for (const outpost of this.#outposts) outpost.lanesEnded()
    this.#outposts.clear()
    for (const lanesEnded of this.#connecting) lanesEnded()
    this.#control?.lanesEnded()
    for (const engine of this.#engines) engine.lanesEnded()
    await Promise.all([this.#control?.client.close(), ...[...this.#engines].map((engine) => engine.close())])
    for (const mapping of [...this.#mappings]) await this.release(mapping)
  }

  #keep(mapping: number): number {
    this.#mappings.add(mapping)
    return mapping
  }

  #check(): void {
    if (this.#state === 'serving') return
    throw this.#failure ?? new ClosedError('draining', 'Cannot start anything: the runtime is closing or has closed')
  }
}

const GREETING = { role: 'worker', engine: 'orbitkv embedded', engineVersion: '1' } as const

function gone(death: LaneDeath): ClosedError {
  return new ClosedError(
    'manager_gone',
    `The runtime has ended: its lane ${death.name} died`,
    { lane: death.name, exitCode: death.exitCode },
    death.error ?? undefined,
  )
}
