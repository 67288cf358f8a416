import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type OrbitClient } from '../../../src/client/index.js'
import { eventually, ManagerChild, type ManagerEnd } from '../../support/manager-child.js'
import type { Draw } from './draw.js'
import { EngineAtWork, type EngineLanguage } from './engines.js'
import { Ledger } from './ledger.js'
import type { Results } from './results.js'

/**
 * Where one strand of a campaign happens: a folder with one Manager at a time, its engines, and the ledger of what the
 * engines were told. Managers come and go; engines and ledger outlive them.
 */
export class Field {
  readonly folder = mkdtempSync(join(tmpdir(), 'orbitkv-campaign-'))
  readonly socketPath = join(this.folder, 'run', 'manager.sock')
  readonly ledger = new Ledger()
  readonly engines: EngineAtWork[] = []
  readonly results: Results
  /** Epochs seen; every start has one of its own. */
  readonly #epochs = new Set<number>()
  readonly #teardowns: (() => unknown)[] = []
  #numbers = 0

  constructor(results: Results) {
    this.results = results
  }

  /** Starts a process and waits for nothing. */
  launch(route: Route, environment: readonly string[] = []): ManagerChild {
    const flags = [...SMALL, ...(route === 'uring' ? ['--ssd-read-path', 'uring'] : [])]
    const launcher = environment.length > 0 ? ['env', ...environment] : []
    return ManagerChild.launch(
      { teardown: (run) => void this.#teardowns.push(run) },
      { folder: this.folder, flags, launcher },
    )
  }

  /** Starts a Manager; its epoch is new. A start that does not come to serve is a failed restart. */
  async start(route: Route, environment: readonly string[] = []): Promise<{ manager: ManagerChild; epoch: number }> {
    const manager = this.launch(route, environment)
    const epoch = await manager.serving().catch((error: unknown) => {
      this.results.failedRestarts++
      throw error
    })
    if (this.#epochs.has(epoch)) throw new Error(`epoch ${epoch} came twice`)
    this.#epochs.add(epoch)
    return { manager, epoch }
  }

  /** An empty folder that lives as long as the field. */
  privateFolder(): string {
    return mkdtempSync(join(this.folder, 'points-'))
  }

  /** A new engine process; it looks for its Manager by itself. */
  hire(draw: Draw, language: EngineLanguage): EngineAtWork {
    const engine = new EngineAtWork(language, this.socketPath, draw.below(2 ** 31), ++this.#numbers, this.ledger)
    this.engines.push(engine)
    return engine
  }

  /** An engine that has been killed is nobody's any more. */
  strike(engine: EngineAtWork): void {
    this.engines.splice(this.engines.indexOf(engine), 1)
  }

  async registered(epoch: number): Promise<void> {
    await Promise.all(this.engines.map((engine) => engine.registered(epoch)))
  }

  /** Every engine leaves in order. */
  async dismiss(): Promise<void> {
    const codes = await Promise.all(this.engines.map((engine) => engine.leave()))
    for (const [i, code] of codes.entries()) {
      const failure = this.engines[i]?.failure
      if (failure !== null || code !== 0) throw new Error(`an engine ended with ${code}: ${failure}`)
    }
    this.engines.length = 0
  }

  /** SIGTERM with nobody left: everything is at rest, nothing leaks, exit code 0. */
  async rest(manager: ManagerChild): Promise<void> {
    await manager.atRest()
    checkDrained(await this.drained(manager, 'SIGTERM'))
  }

  /** Asks a Manager to end and measures how long its drain takes. */
  async drained(manager: ManagerChild, signal: NodeJS.Signals): Promise<ManagerEnd> {
    const startMs = performance.now()
    manager.signal(signal)
    const end = await manager.ended
    this.results.drained((performance.now() - startMs) / 1_000)
    return end
  }

  /** Ends what is left and takes the ledger's verdict. */
  async close(): Promise<void> {
    for (const engine of this.engines) await engine.kill()
    for (const teardown of this.#teardowns.reverse()) await teardown()
    rmSync(this.folder, { recursive: true })
    this.results.judged(this.ledger)
  }
}

/** How restores come from SSD. */
export const ROUTES = ['dram', 'uring'] as const
export type Route = (typeof ROUTES)[number]

/** Pool and SSD hold about what the engines publish, so that things are overwritten all the time. */
const SMALL = ['--pool-size', '16mb', '--ssd-cache-capacity', '8mb', '--log-level', 'info']

/** Throws unless a Manager ended by its own drain with nothing left. */
export function checkDrained({ exitCode, signal, drained, stderr, stdout }: ManagerEnd): void {
  const leaks = Object.keys(drained?.leaks ?? { 'no report': 1 })
  if (exitCode === 0 && leaks.length === 0 && drained?.unfinished === 0 && stderr === '') return
  throw new Error(`a drain ended with ${exitCode ?? signal}, leaks ${leaks.join()}: ${stderr}${stdout}`)
}

/** A session that watches how many others there are. */
export class Watcher {
  readonly #client: OrbitClient

  private constructor(client: OrbitClient) {
    this.#client = client
  }

  static async start(socketPath: string): Promise<Watcher> {
    return new Watcher(await connect({ socketPath, role: 'scheduler', engine: 'watcher', engineVersion: '1' }))
  }

  /** Waits until only `sessions` others are there; a session is there until nothing of it is left. Seconds. */
  async until(sessions: number, sinceMs: number): Promise<number> {
    let seen = 0
    await eventually(
      `${sessions} sessions`,
      async () => {
        seen = ((await this.#client.inspect('')).get('sessions') ?? Number.NaN) - 1
        return seen <= sessions
      },
      undefined,
      () => `${seen} are there`,
    )
    return (performance.now() - sinceMs) / 1_000
  }

  async close(): Promise<void> {
    await this.#client.close()
  }
}
