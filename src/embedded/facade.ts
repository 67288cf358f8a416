import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { type Endpoint, expose } from 'comlink'
import type { ErrorCode, ErrorValues } from '../shared/base/errors.js'
import { OrbitError } from '../shared/base/errors.js'
import type { Health } from './health.js'
import type { DevicePages } from './host.js'
import type { Outpost, Runtime } from './runtime.js'

/**
 * The control side of a runtime for other threads of the process, over comlink: for what happens seldom. Pages and
 * data-path messages never travel here: an engine in another thread gets a session of its own, and here it only hands
 * over the runtime's end of that, and the names of memory. remote.ts is the other half.
 */

/** How a call ended: comlink loses the class and code of what is thrown. */
export type Outcome<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly code: ErrorCode | null; readonly message: string; readonly values: ErrorValues }

/** What may be asked through a port. */
export interface Control {
  stats(): Promise<Outcome<Record<string, number>>>
  metrics(): Promise<Outcome<string>>
  health(): Promise<Outcome<Health>>
  sync(ssd: boolean): Promise<Outcome<void>>
  dropDram(): Promise<Outcome<Record<string, number>>>
  drain(limitMs: number): Promise<Outcome<void>>
  adopt(fd: number): Promise<Outcome<void>>
  allocate(bytes: number): Promise<Outcome<number>>
  lend(bytes: Uint8Array): Promise<Outcome<number>>
  lendDevice(pages: DevicePages): Promise<Outcome<number>>
  release(mapping: number): Promise<Outcome<void>>
  /** Resolves when no thread of the runtime is left. */
  lanesEnded(): Promise<void>
}

/** What the facade serves: the runtime's verbs. */
export interface Served {
  stats(): Promise<Record<string, number>>
  metrics(): Promise<string>
  health(): Health
  sync(options: { ssd: boolean }): Promise<void>
  dropDram(): Promise<Record<string, number>>
  close(options: { limitMs: number }): Promise<unknown>
}

async function outcome<T>(call: () => Promise<T>): Promise<Outcome<T>> {
  try {
    return { ok: true, value: await call() }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    if (!(error instanceof OrbitError)) return { ok: false, code: null, message, values: {} }
    return { ok: false, code: error.code, message, values: error.values }
  }
}

/** One port of the facade on the runtime's thread; owns what its other end made until that end has gone. */
class Facade implements Outpost {
  readonly #runtime: Runtime
  readonly #port: MessagePort
  readonly #mappings = new Set<number>()
  readonly #ended: Promise<void>
  #sayEnded!: () => void
  #calls = 0
  #closing = false

  constructor(runtime: Runtime, port: MessagePort, served: Served) {
    this.#runtime = runtime
    this.#port = port
    this.#ended = new Promise((resolve) => {
      this.#sayEnded = resolve
    })
    expose(this.#control(served), port as unknown as Endpoint)
    // Whoever owns the runtime keeps the thread alive, not those who may ask.
    port.unref()
    port.on('close', () => this.#left())
    runtime.attach(this)
  }

  lanesEnded(): void {
    this.#sayEnded()
    this.#closing = true
    this.#closeWhenAnswered()
  }

  #control(served: Served): Control {
    const call = <T>(of: () => Promise<T>) => this.#call(() => outcome(of))
    return {
      stats: () => call(() => served.stats()),
      metrics: () => call(() => served.metrics()),
      health: () => call(async () => served.health()),
      sync: (ssd) => call(() => served.sync({ ssd })),
      dropDram: () => call(() => served.dropDram()),
      drain: (limitMs) =>
        call(async () => {
          await served.close({ limitMs })
        }),
      adopt: (fd) => call(async () => this.#runtime.adopt(fd)),
      allocate: (bytes) => call(async () => this.#keep(await this.#runtime.allocate(bytes))),
      lend: (bytes) => call(async () => this.#keep(await this.#runtime.lend(bytes))),
      lendDevice: (pages) => call(async () => this.#keep(await this.#runtime.lendDevice(pages))),
      release: (mapping) => call(() => this.#release(mapping)),
      lanesEnded: () => this.#ended,
    }
  }

  async #call<T>(of: () => Promise<T>): Promise<T> {
    this.#calls++
    try {
      return await of()
    } finally {
      this.#calls--
      this.#closeWhenAnswered()
    }
  }

  /** comlink posts an answer in a later microtask of the same turn. */
  #closeWhenAnswered(): void {
    if (this.#closing && this.#calls === 0) setImmediate(() => this.#port.close())
  }

  #keep(mapping: number): number {
    this.#mappings.add(mapping)
    return mapping
  }

  /** Only what was made through this port. */
  async #release(mapping: number): Promise<void> {
    if (this.#mappings.delete(mapping)) await this.#runtime.release(mapping)
  }

  /** The other end has closed, or its thread has ended: its sessions end by themselves, its memory does here. */
  #left(): void {
    this.#runtime.detach(this)
    for (const mapping of [...this.#mappings]) void this.#release(mapping)
  }
}

/** A port to post to another thread, which takes it with wrapOrbitKV(). */
export function openFacade(runtime: Runtime, served: Served): MessagePort {
  const { port1, port2 } = new MessageChannel()
  new Facade(runtime, port1, served)
  return port2
}
