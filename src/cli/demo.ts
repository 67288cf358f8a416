import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadNative } from '../binding/load.js'
import { describeProbe } from '../binding/probe.js'
import { ConfigError, OrbitError } from '../shared/base/errors.js'
import { EngineChild, type EngineCommandLine, ManagerChild } from './demo/children.js'
import { keyOf, shapeOf } from './demo/content.js'
import type { EngineParams, RequestResult } from './demo/protocol.js'
import { type DemoReport, summarize, tableOf } from './demo/report.js'
import { type DemoRequest, drawWorkload, readTrace } from './demo/workload.js'
import { parseSize } from './sizes.js'

const HELP = `Usage: npm run demo -- [flags]

Starts a real Manager and two engine processes, replays a workload whose pages mostly come back from the SSD, kills an
engine in the middle of a restore, compares every restored byte, and prints a table.

  --json               end with one line of JSON
  --trace FILE         replay a trace of the Mooncake format instead of the demo's own workload
  --limit N            at most N requests of the trace (default: all)
  --block-bytes SIZE   bytes of one block (default 256kb; 64kb with --trace)
  --route dram|uring   how SSD pages travel: into DRAM during the query, or during the restore (default uring)
  --pool SIZE          DRAM of the Manager (default 256mb)
  --ssd SIZE           SSD capacity of the Manager (default 4gb)
  --dir FOLDER         where the SSD file lies (default: a new folder in TMPDIR)
`

interface DemoOptions {
  readonly json: boolean
  readonly trace: string | null
  readonly limit: number
  readonly blockBytes: number
  readonly route: string
  readonly pool: string
  readonly ssd: string
  readonly dir: string | null
}

const SEED = 20261129

function parse(argv: readonly string[]): DemoOptions | null {
  const values = new Map<string, string>()
  for (let i = 0; i < argv.length; i++) {
    const name = argv[i] as string
    if (name === '--help') return null
    if (name === '--json') values.set(name, 'true')
    else if (/^--(trace|limit|block-bytes|route|pool|ssd|dir)$/.test(name) && argv[i + 1] !== undefined) {
      values.set(name, argv[++i] as string)
    } else throw new ConfigError('config_unknown_flag', `Cannot run the demo with '${name}': --help lists the flags`)
  }
  const trace = values.get('--trace') ?? null
  const size = values.get('--block-bytes') ?? (trace === null ? '256kb' : '64kb')
  const blockBytes = parseSize(size)
  const limit = Number(values.get('--limit') ?? Number.MAX_SAFE_INTEGER)
  const route = values.get('--route') ?? 'uring'
  if (blockBytes === null || shapeOf(blockBytes) === null || blockBytes > 64 << 20) {
    throw new ConfigError(
      'config_bad_value',
      `Cannot use blocks of '${size}': a multiple of 4kb up to 64mb is expected, for example --block-bytes 256kb`,
    )
  }
  if (!Number.isSafeInteger(limit) || limit < 1 || (route !== 'dram' && route !== 'uring')) {
    throw new ConfigError(
      'config_bad_value',
      'Cannot use these flags: --limit is a number from 1, --route dram or uring',
    )
  }
  return {
    json: values.has('--json'),
    trace,
    limit,
    blockBytes,
    route,
    pool: values.get('--pool') ?? '256mb',
    ssd: values.get('--ssd') ?? '4gb',
    dir: values.get('--dir') ?? null,
  }
}

/** Where python3 finds the client, or why there is no Python engine. */
function pythonEngine(): EngineCommandLine | string {
  const version = spawnSync('python3', ['-c', 'import sys; print(sys.version_info >= (3, 10))'], { encoding: 'utf8' })
  if (version.status !== 0) return 'Python engine: python3 is not installed'
  if (version.stdout.trim() !== 'True') return 'Python engine: python3 is older than 3.10'
  for (const up of ['../../../python', '../../python']) {
    const folder = fileURLToPath(new URL(up, import.meta.url))
    if (!existsSync(join(folder, 'orbitkv', 'demo_engine.py'))) continue
    const env = { ...process.env, PYTHONPATH: folder }
    return { language: 'Python', command: 'python3', args: ['-m', 'orbitkv.demo_engine'], env }
  }
  return 'Python engine: the package in python/ is not part of this installation'
}

const TYPESCRIPT_ENGINE: EngineCommandLine = {
  language: 'TypeScript',
  command: process.execPath,
  args: [fileURLToPath(new URL('./demo/engine.js', import.meta.url))],
  env: process.env,
}

/** The Manager to start: an installed one named by ORBITKV_CACHE_MANAGER_BINARY, or the one beside this file. */
function managerBinary(): string[] {
  const installed = process.env['ORBITKV_CACHE_MANAGER_BINARY']
  if (installed !== undefined) return [installed]
  return [process.execPath, fileURLToPath(new URL('./cache-manager.js', import.meta.url))]
}

/** One engine's seat: its process comes and goes, its requests go on. */
class Engine {
  readonly name: string
  readonly line: EngineCommandLine
  readonly #params: Omit<EngineParams, 'instanceId'>
  #child: EngineChild | null = null

  constructor(name: string, line: EngineCommandLine, params: Omit<EngineParams, 'instanceId' | 'name'>) {
    this.name = name
    this.line = line
    this.#params = { ...params, name }
  }

  async start(): Promise<void> {
    this.#child = await EngineChild.start(this.line, {
      ...this.#params,
      instanceId: randomBytes(16).toString('hex'),
    })
  }

  async request(id: number, request: DemoRequest): Promise<RequestResult> {
    const blocks = request.blocks.map((block) => keyOf(block).toString('hex'))
    const event = await this.#running().ask({ op: 'request', id, blocks })
    if (event.event !== 'done') throw new Error(`Engine ${this.name} answered ${event.event}`)
    return event
  }

  /** Kills the process in the middle of a restore and starts it again. */
  async killInRestore(id: number, request: DemoRequest): Promise<void> {
    const blocks = request.blocks.map((block) => keyOf(block).toString('hex'))
    await this.#running().ask({ op: 'hang', id, blocks })
    await this.#running().kill()
    await this.start()
  }

  /** Ends the process at once, if there is one: when the demo itself failed. */
  kill(): void {
    void this.#child?.kill()
  }

  async sync(): Promise<void> {
    await this.#running().ask({ op: 'sync' })
  }

  async stop(): Promise<void> {
    const code = await this.#child?.stop()
    if (code !== 0) throw new Error(`Engine ${this.name} ended with code ${code}`)
  }

  #running(): EngineChild {
    if (this.#child === null) throw new Error(`Engine ${this.name} is not running`)
    return this.#child
  }
}

/** Draws a bar on standard error while it is a terminal. */
function progress(done: number, all: number, phase: string): void {
  if (!process.stderr.isTTY) return
  const width = 30
  const filled = Math.round((width * done) / all)
  const end = done === all ? '\n' : ''
  process.stderr.write(
    `\r  ${phase.padEnd(22)} [${'#'.repeat(filled)}${'.'.repeat(width - filled)}] ${done}/${all}${end}`,
  )
}

/** Closed loop: each engine takes the next request as soon as it has finished its last. */
async function replay(
  engines: readonly Engine[],
  requests: readonly DemoRequest[],
  phase: string,
  results: RequestResult[],
  before: (engine: Engine, index: number) => Promise<void> = async () => {},
): Promise<void> {
  let next = 0
  let done = 0
  await Promise.all(
    engines.map(async (engine) => {
      while (next < requests.length) {
        const index = next++
        await before(engine, index)
        results.push(await engine.request(results.length * 1000 + index, requests[index] as DemoRequest))
        progress(++done, requests.length, phase)
      }
    }),
  )
}

async function run(options: DemoOptions): Promise<DemoReport> {
  const started = Date.now()
  const skipped: string[] = []
  const probe = loadNative().probe()
  const io = probe.available ? 'uring' : 'posix'
  if (!probe.available) {
    skipped.push(`io_uring: ${describeProbe(probe)}`)
    console.error(`io_uring cannot be used here (${describeProbe(probe)}): the demo runs with --ssd-io posix`)
  }
  const python = pythonEngine()
  if (typeof python === 'string') skipped.push(python)
  const folder = options.dir ?? mkdtempSync(join(process.env['TMPDIR'] ?? tmpdir(), 'orbitkv-demo-'))
  mkdirSync(join(folder, 'run'), { recursive: true, mode: 0o700 })
  const socketPath = join(folder, 'run', 'demo.sock')
  const cachePath = join(folder, 'cache.bin')
  const logPath = join(folder, 'manager.log')
  const warm = options.trace === null ? 64 : 0
  const requests =
    options.trace === null
      ? drawWorkload({ seed: SEED, prefixes: warm, blocksPerPrefix: 64, requests: warm + 128 })
      : readTrace(options.trace, options.limit)
  const shape = shapeOf(options.blockBytes)
  if (shape === null || requests.length === 0)
    throw new ConfigError('config_bad_value', 'Cannot replay an empty workload')
  const pages = Math.max(...requests.map(({ blocks }) => blocks.length))
  const manager = await ManagerChild.start(
    managerBinary(),
    [
      ...['--pool-size', options.pool, '--ssd-cache-path', cachePath, '--ssd-cache-capacity', options.ssd],
      ...['--bootstrap-socket', socketPath, '--http-addr', '127.0.0.1:0', '--ssd-io', io],
      ...(options.route === 'uring' ? ['--ssd-read-path', 'uring'] : []),
    ],
    logPath,
  )
  const params = { socketPath, ...shape, pages }
  const engines = [
    new Engine('A', TYPESCRIPT_ENGINE, params),
    new Engine('B', typeof python === 'string' ? TYPESCRIPT_ENGINE : python, params),
  ]
  try {
    for (const engine of engines) await engine.start()
    const results: RequestResult[] = []
    if (warm > 0) {
      await replay(engines, requests.slice(0, warm), 'compute and publish', results)
      for (const engine of engines) await engine.sync()
    }
    const later = requests.slice(warm)
    const killAt = Math.floor(later.length / 2)
    let enginesKilled = 0
    await replay(engines, later, 'restore', results, async (engine, index) => {
      if (enginesKilled > 0 || index < killAt || engine.name !== 'A') return
      enginesKilled++
      // The newest prefix that was answered is one that the cache certainly holds.
      await engine.killInRestore(10_000_000, later[Math.max(0, index - 2)] as DemoRequest)
    })
    for (const engine of engines) await engine.stop()
    const ssdRestoredBytes =
      (await manager.metric('orbitkv_ssd_restore_read_bytes_total')) +
      (await manager.metric('orbitkv_ssd_fill_bytes_total'))
    const end = await manager.stop()
    const totals = summarize(results)
    const gaugesAtRest = Object.keys(end.leaks).length
    return {
      ok:
        totals.mismatches === 0 && gaugesAtRest === 0 && end.gaugesSeen > 0 && end.exitCode === 0 && enginesKilled > 0,
      ssdRestoredBytes,
      enginesKilled,
      gaugesAtRest,
      gaugesSeen: end.gaugesSeen,
      skipped,
      ...totals,
      managerExitCode: end.exitCode,
      seconds: Number(((Date.now() - started) / 1000).toFixed(1)),
      io,
      route: options.route,
      engines: engines.map(({ name, line }) => `engine ${name} (${line.language})`),
    }
  } catch (error) {
    for (const engine of engines) engine.kill()
    manager.kill()
    if (existsSync(logPath)) console.error(readFileSync(logPath, 'utf8').split('\n').slice(-20).join('\n'))
    throw error
  } finally {
    if (options.dir === null) rmSync(folder, { recursive: true, force: true })
  }
}

async function main(): Promise<void> {
  try {
    const options = parse(process.argv.slice(2))
    if (options === null) return console.log(HELP)
    const report = await run(options)
    console.log(`\n${tableOf(report)}\n`)
    console.log(report.ok ? '  every restored byte is the byte that was published' : '  NOT OK')
    if (options.json) console.log(JSON.stringify(report))
    if (!report.ok) process.exitCode = 1
  } catch (error) {
    console.error(`demo: ${error instanceof OrbitError ? `${error.message} [${error.code}]` : String(error)}`)
    process.exitCode = 1
  }
}

void main()
