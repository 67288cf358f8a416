import type { MessagePort } from 'node:worker_threads'
import { type Endpoint, type Remote, wrap } from 'comlink'
import { loadNative } from '../binding/load.js'
import type { Native } from '../binding/surface.js'
import { errorOf } from '../client/failures.js'
import { connectInProcess, type InProcessSession } from '../client/in-process.js'
import type { WaitOptions } from '../client/requests.js'
import { bySignal } from '../client/waits.js'
import { ClosedError } from '../shared/base/errors.js'
import { type Engine, type EngineOptions, registerEngine } from './engine.js'
import type { Control, Outcome } from './facade.js'
import type { Health } from './health.js'
import type { DevicePages, EngineHost, HostedEngine } from './host.js'

/**
 * A runtime of another thread of this process. Control calls go over comlink; an engine registered here has a session
 * of its own with the manager worker and touches the runtime's thread only to register and to leave. The port keeps
 * this thread alive only while a call is open. A signal ends the wait for a call, not the call.
 */
export class RemoteOrbitKV {
  readonly #host: RemoteHost

  /** Use wrapOrbitKV(). */
  constructor(port: MessagePort) {
    this.#host = new RemoteHost(port)
  }

  /** As OrbitKV.register(), with the engine owned by this thread. */
  async register(options: EngineOptions): Promise<Engine> {
    const engine = await registerEngine(this.#host, options)
    this.#host.engines.add(engine)
    return engine
  }

  /** As OrbitKV.stats(). */
  async stats(options: WaitOptions = {}): Promise<Record<string, number>> {
    return await this.#host.ask('stats', (control) => control.stats(), options)
  }

  /** As OrbitKV.metrics(). */
  async metrics(options: WaitOptions = {}): Promise<string> {
    return await this.#host.ask('metrics', (control) => control.metrics(), options)
  }

  /** As OrbitKV.health(). */
  async health(options: WaitOptions = {}): Promise<Health> {
    return await this.#host.ask('health', (control) => control.health(), options)
  }

  /** As OrbitKV.sync(). */
  async sync(options: WaitOptions & { readonly ssd?: boolean } = {}): Promise<void> {
    return await this.#host.ask('sync', (control) => control.sync(options.ssd ?? false), options)
  }

  /** As OrbitKV.dropDram(). */
  async dropDram(options: WaitOptions = {}): Promise<Record<string, number>> {
    return await this.#host.ask('dropDram', (control) => control.dropDram(), options)
  }

  /** Closes the runtime for everybody, as OrbitKV.close() does. Whatever is asked afterwards is refused here: session_closed. */
  async drain(options: WaitOptions & { readonly limitMs?: number } = {}): Promise<void> {
    await this.#host.ask('drain', (control) => control.drain(options.limitMs ?? 30_000), options)
    this.#host.runtimeEnded()
  }

  /** Closes the engines of this thread, then the port. The runtime goes on. */
  async close(): Promise<void> {
    await Promise.all([...this.#host.engines].map((engine) => engine.close()))
    this.#host.close()
  }
}

class RemoteHost implements EngineHost {
  readonly native: Native = loadNative()
  readonly engines = new Set<HostedEngine>()
  readonly #port: MessagePort
  readonly #control: Remote<Control>
  readonly #sessions = new Set<InProcessSession>()
  readonly #connecting = new Set<() => void>()
  readonly #closed: Promise<never>
  #calls = 0
  #open = true

  constructor(port: MessagePort) {
    this.#port = port
    this.#control = wrap<Control>(port as unknown as Endpoint)
    this.#closed = new Promise((_, reject) => {
      port.on('close', () => {
        this.#open = false
        reject(runtimeClosed())
      })
    })
    this.#closed.catch(() => {})
    port.unref()
    void this.#control.lanesEnded().then(() => {
      for (const lanesEnded of this.#connecting) lanesEnded()
      for (const session of this.#sessions) session.lanesEnded()
    })
  }

  async ask<T>(
    what: string,
    call: (control: Remote<Control>) => Promise<Outcome<T>>,
    options: WaitOptions = {},
  ): Promise<T> {
    if (!this.#open) throw runtimeClosed()
    if (this.#calls++ === 0) this.#port.ref()
    const answered = Promise.race([call(this.#control), this.#closed]).finally(() => {
      if (--this.#calls === 0) this.#port.unref()
    })
    const outcome = await bySignal(answered, options.signal, what)
    if (outcome.ok) return outcome.value
    if (outcome.code === null) throw new Error(outcome.message)
    throw errorOf(outcome.code, outcome.message, outcome.values)
  }

  async connect(options: WaitOptions): Promise<InProcessSession> {
    const hand = async (fd: number) => {
      // A port that has closed takes nothing: the descriptor is still ours.
      if (!this.#open) this.native.closeFd(fd)
      await this.ask('connect', (control) => control.adopt(fd))
    }
    const session = await connectInProcess(this.native, hand, {
      role: 'worker',
      engine: 'orbitkv embedded',
      engineVersion: '1',
      signal: options.signal,
      begun: this.#connecting,
    })
    this.#sessions.add(session)
    return session
  }

  async allocate(bytes: number): Promise<number> {
    return await this.ask('allocate', (control) => control.allocate(bytes))
  }

  async lend(bytes: Uint8Array): Promise<number> {
    return await this.ask('lend', (control) => control.lend(bytes))
  }

  async lendDevice(pages: DevicePages): Promise<number> {
    return await this.ask('lendDevice', (control) => control.lendDevice(pages))
  }

  async release(mapping: number): Promise<void> {
    // A runtime that has gone has released it.
    await this.ask('release', (control) => control.release(mapping)).catch(() => {})
  }

  left(engine: HostedEngine): void {
    this.engines.delete(engine)
    for (const session of this.#sessions) if (session.client === engine.session) this.#sessions.delete(session)
  }

  /** The runtime has answered its last call; its end of the port closes in a turn of its own, whose moment decides nothing. */
  runtimeEnded(): void {
    this.#open = false
  }

  close(): void {
    this.#open = false
    this.#port.close()
  }
}

function runtimeClosed(): ClosedError {
  return new ClosedError('session_closed', 'The runtime has closed the port, or its thread has ended')
}

/**
 * Takes the port of OrbitKV.facade() in another thread of the same process.
 *
 *   const kv = wrapOrbitKV(workerData.port)
 *   const engine = await kv.register({ model: 'llama', layers: 32, pages: 64, segmentBytes: 65536 })
 */
export function wrapOrbitKV(port: MessagePort): RemoteOrbitKV {
  return new RemoteOrbitKV(port)
}
