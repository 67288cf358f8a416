import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { ExecutionContext } from 'ava'
import { CONTENT_GAUGES } from '../../src/control/metrics/content-gauges.js'
import { HOST_IO } from './host-io.js'

/**
 * A real Manager process for tests: started with flags in a folder of the test, watched through its log and its HTTP
 * side, ended by the test or, whatever happens, by the test's teardown. ORBITKV_CACHE_MANAGER_BINARY names an installed
 * Manager to test instead of the one built here.
 */

/** What of a log line is looked at. */
export interface LogLine {
  readonly level?: number
  readonly msg?: string
  readonly http?: string
  readonly epoch?: number
  readonly unfinished?: number
  readonly leaks?: Readonly<Record<string, number>>
  readonly gauges?: Readonly<Record<string, number>>
  readonly [field: string]: unknown
}

export interface ManagerStart {
  /** Where socket and shard go unless flags say otherwise. Must not hold another running Manager. */
  readonly folder: string
  readonly flags?: readonly string[]
  /** What stands before the Manager's command line, such as setpriv or prlimit with their arguments. */
  readonly launcher?: readonly string[]
  /** File, not folder, of the only shard. null: no SSD tier. */
  readonly shard?: string | null
}

/** How a Manager ended. */
export interface ManagerEnd {
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  /** The line `drained`, when there was one. */
  readonly drained: LogLine | undefined
  readonly stdout: string
  readonly stderr: string
}

/**
 * How long a condition may take that must come true: no bound of the product, but what tells a loaded machine from a
 * hang.
 */
export const SETTLE_MS = 60_000

/** Managers of this process: they end with it, also when the runner ends it. */
const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** The Manager's command line without flags. */
export function managerCommand(): readonly [string, ...string[]] {
  const installed = process.env['ORBITKV_CACHE_MANAGER_BINARY']
  if (installed !== undefined && installed !== '') return [installed]
  return [process.execPath, fileURLToPath(new URL('../../src/cli/cache-manager.js', import.meta.url))]
}

/** The flags that every test Manager has unless the test gives its own. */
function defaultFlags({ folder, flags = [], shard }: ManagerStart): string[] {
  const socketFolder = join(folder, 'run')
  mkdirSync(socketFolder, { recursive: true, mode: 0o700 })
  const defaults: [string, string][] = [
    ['--bootstrap-socket', join(socketFolder, 'manager.sock')],
    ['--http-addr', '127.0.0.1:0'],
    ['--pool-size', '32mb'],
    ['--log-level', 'debug'],
  ]
  if (HOST_IO === 'posix') defaults.push(['--ssd-io', HOST_IO])
  if (shard !== null) {
    defaults.push(['--ssd-cache-path', shard ?? join(folder, 'shard.dat')], ['--ssd-cache-capacity', '64mb'])
  }
  return [...defaults.filter(([name]) => !flags.includes(name)).flat(), ...flags]
}

/** Checks `look` every few milliseconds until it holds. Rejects with what `describe` says after `limitMs`. */
export async function eventually(
  what: string,
  look: () => boolean | Promise<boolean>,
  limitMs = SETTLE_MS,
  describe: () => string = () => '',
): Promise<void> {
  const endMs = performance.now() + limitMs
  for (;;) {
    if (await look()) return
    if (performance.now() > endMs) throw new Error(`not within ${limitMs} ms: ${what} ${describe()}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

export class ManagerChild {
  readonly folder: string
  readonly socketPath: string
  readonly #child: ChildProcess
  readonly #lines: LogLine[] = []
  readonly #waiting: { readonly msg: string; readonly found: (line: LogLine) => void }[] = []
  #stdout = ''
  #stderr = ''
  readonly ended: Promise<ManagerEnd>
  #http = ''
  #fdsAtStart = 0

  private constructor(t: Pick<ExecutionContext, 'teardown'>, start: ManagerStart) {
    const [command, ...args] = [...(start.launcher ?? []), ...managerCommand(), ...defaultFlags(start)]
    this.folder = start.folder
    const at = args.indexOf('--bootstrap-socket')
    this.socketPath = args[at + 1] as string
    this.#child = spawn(command as string, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    running.add(this.#child)
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    if (this.#child.stdout !== null) createInterface({ input: this.#child.stdout }).on('line', (l) => this.#line(l))
    this.ended = new Promise((resolve) => {
      this.#child.on('error', (error) => {
        this.#stderr += String(error)
        resolve(this.#end(127, null))
      })
      this.#child.on('close', (code, signal) => {
        running.delete(this.#child)
        resolve(this.#end(code, signal))
      })
    })
    t.teardown(async () => {
      this.#child.kill('SIGKILL')
      await this.ended
    })
  }

  /** Starts a Manager and waits until it serves. Rejects with its output when it does not. */
  static async start(t: Pick<ExecutionContext, 'teardown'>, start: ManagerStart): Promise<ManagerChild> {
    const manager = new ManagerChild(t, start)
    await manager.serving()
    return manager
  }

  /** Starts a process and waits for nothing. */
  static launch(t: Pick<ExecutionContext, 'teardown'>, start: ManagerStart): ManagerChild {
    return new ManagerChild(t, start)
  }

  /** Waits until it serves; its epoch. Rejects with its output when it does not come to that. */
  async serving(): Promise<number> {
    const serving = await this.next('serving')
    this.#http = String(serving.http)
    this.#fdsAtStart = this.fdCount()
    return Number(serving.epoch)
  }

  /** Starts a Manager that must refuse; resolves when it has ended. */
  static async refused(t: Pick<ExecutionContext, 'teardown'>, start: ManagerStart): Promise<ManagerEnd> {
    const manager = new ManagerChild(t, start)
    const served = manager.next('serving').then(
      () => 'it started',
      () => 'it ended',
    )
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<string>((resolve) => {
      timer = setTimeout(() => resolve('it neither started nor ended'), SETTLE_MS)
    })
    const came = await Promise.race([served, manager.ended.then(() => 'it ended'), late])
    clearTimeout(timer)
    if (came === 'it ended') return await manager.ended
    const { stdout, stderr } = await manager.kill()
    throw new Error(`the Manager had to refuse, but ${came}:\n${stdout}${stderr}`)
  }

  get pid(): number {
    return this.#child.pid as number
  }

  get lines(): readonly LogLine[] {
    return this.#lines
  }

  get stderr(): string {
    return this.#stderr
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** The log line with a text, now or later. Rejects when the process ends first. */
  next(msg: string): Promise<LogLine> {
    const seen = this.#lines.find((line) => line.msg === msg)
    if (seen !== undefined) return Promise.resolve(seen)
    const found = new Promise<LogLine>((resolve) => this.#waiting.push({ msg, found: resolve }))
    const gone = this.ended.then((end) => {
      throw new Error(`the Manager ended (${end.exitCode ?? end.signal}) before '${msg}':\n${end.stdout}${end.stderr}`)
    })
    gone.catch(() => {})
    return Promise.race([found, gone])
  }

  /** Counters and gauges summed over their labels. */
  async metrics(): Promise<ReadonlyMap<string, number>> {
    const values = new Map<string, number>()
    for (const [, name, value] of (await this.get('/metrics')).body.matchAll(/^(\w+)(?:\{[^}]*\})? (\S+)$/gm)) {
      values.set(name as string, (values.get(name as string) ?? 0) + Number(value))
    }
    return values
  }

  /** One metric; throws when the Manager does not have it, so that a misspelled name never reads as zero. */
  async metric(name: string): Promise<number> {
    const value = (await this.metrics()).get(name)
    if (value === undefined) throw new Error(`the Manager has no metric ${name}`)
    return value
  }

  async get(path: string): Promise<{ readonly status: number; readonly body: string }> {
    if (!this.running) {
      const { exitCode, signal, stdout, stderr } = await this.ended
      throw new Error(`the Manager ended (${exitCode ?? signal}):\n${stdout}${stderr}`)
    }
    return await answerOf(`http://${this.#http}${path}`)
  }

  /** Names of all gauges that say that somebody owns something, with values other than zero. */
  async owned(): Promise<Record<string, number>> {
    const text = (await this.get('/metrics')).body
    const gauges = new Set([...text.matchAll(/^# TYPE (\w+) gauge$/gm)].map(([, name]) => name as string))
    if (!gauges.has('orbitkv_sessions')) throw new Error('the scrape has no orbitkv_sessions')
    const owned: Record<string, number> = {}
    for (const [name, value] of await this.metrics()) {
      if (gauges.has(name) && !CONTENT_GAUGES.has(name) && value !== 0) owned[name] = value
    }
    return owned
  }

  /** Open descriptors of the process. */
  fdCount(): number {
    return readdirSync(`/proc/${this.pid}/fd`).length
  }

  /** Waits until nobody owns anything and at most `fdsMore` descriptors are there beside those of the start. */
  async atRest(fdsMore = HTTP_FDS_MAX): Promise<void> {
    let owned: Record<string, number> = {}
    let fds = 0
    await eventually(
      'every ownership gauge is zero and every descriptor closed',
      async () => {
        owned = await this.owned()
        fds = this.fdCount() - this.#fdsAtStart
        return Object.keys(owned).length === 0 && fds <= fdsMore
      },
      SETTLE_MS,
      () => `${JSON.stringify(owned)}, ${fds} descriptors more than at the start`,
    )
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** SIGKILL; resolves when the process has ended. */
  async kill(): Promise<ManagerEnd> {
    this.#child.kill('SIGKILL')
    return await this.ended
  }

  /** SIGTERM, drain, end. */
  async stop(): Promise<ManagerEnd> {
    this.#child.kill('SIGTERM')
    return await this.ended
  }

  #line(text: string): void {
    this.#stdout += `${text}\n`
    let line: LogLine
    try {
      line = JSON.parse(text) as LogLine
    } catch {
      return
    }
    this.#lines.push(line)
    for (let i = this.#waiting.length - 1; i >= 0; i--) {
      if (this.#waiting[i]?.msg === line.msg) this.#waiting.splice(i, 1)[0]?.found(line)
    }
  }

  #end(exitCode: number | null, signal: NodeJS.Signals | null): ManagerEnd {
    const drained = this.#lines.find(({ msg }) => msg === 'drained')
    return { exitCode, signal, drained, stdout: this.#stdout, stderr: this.#stderr }
  }
}

/** One request on a connection of its own: one that is kept open may have been closed while the test computed. */
function answerOf(url: string): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: false }, (response) => {
      let body = ''
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }))
      response.on('error', reject)
    })
    request.on('error', reject)
  })
}

/** Connections of our own scrapes that the Manager may still keep alive. */
const HTTP_FDS_MAX = 2

/** Asserts that a Manager rests, drains on SIGTERM with nothing left, and exits with 0. */
export async function endsClean(t: ExecutionContext, manager: ManagerChild, fdsMore = HTTP_FDS_MAX): Promise<void> {
  await manager.atRest(fdsMore)
  const end = await manager.stop()
  t.is(end.exitCode, 0, `${end.stdout}${end.stderr}`)
  t.is(end.stderr, '')
  t.deepEqual(end.drained?.leaks, {})
  t.is(end.drained?.unfinished, 0)
  t.true(Object.keys(end.drained?.gauges ?? {}).length > 20, 'the closing report has the gauges')
}

/** Opens a folder, and those above it that are ours, to other users. */
export function openToOthers(folder: string): void {
  chmodSync(folder, 0o755)
}
