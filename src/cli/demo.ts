import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadNative } from '../binding/load.js'
import { describeProbe } from '../binding/probe.js'
import { CapabilityError, ConfigError, OrbitError } from '../shared/base/errors.js'
import { type CodecName, lossy } from '../shared/codec/setting.js'
import { EngineChild, type EngineCommandLine, ManagerChild } from './demo/children.js'
import { keyOf } from './demo/content.js'
import { type DemoOptions, HELP, parseDemo } from './demo/options.js'
import { relativeErrorMax } from './demo/oracle.js'
import type { EngineParams, RequestResult } from './demo/protocol.js'
import { type CodecReport, type DemoReport, summarize, tableOf } from './demo/report.js'
import { type DemoRequest, drawWorkload, readTrace } from './demo/workload.js'

const SEED = 20261129

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

/** UUID of the CUDA device that the demo's engines use. @throws CapabilityError cuda_unavailable */
function firstGpu(): string {
  const { devices, reason } = loadNative().cudaProbe()
  const [found] = devices.filter(({ failure }) => failure === null)
  if (found !== undefined) return found.uuid
  throw new CapabilityError(
    'cuda_unavailable',
    `Cannot run the demo with --device gpu: ${reason === '' ? 'the driver lists no device' : reason}; use --device host`,
  )
}

/** Pages in host memory need no CUDA device, but ANS does not start without one. */
function devicesFor(codec: CodecName): string {
  return codec === 'ans' ? 'all' : 'none'
}

/** What the Manager says of its codec before it ends; null without one. */
async function codecReportOf(name: CodecName, manager: ManagerChild): Promise<CodecReport | null> {
  if (name === 'none') return null
  return {
    name,
    logicalBytes: await manager.metric('orbitkv_storage_codec_bytes_total', 'kind="logical"'),
    storedBytes: await manager.metric('orbitkv_storage_codec_bytes_total', 'kind="stored"'),
    itemsRaw: await manager.metric('orbitkv_storage_codec_skips_total'),
    silent: (await manager.metric('orbitkv_storage_codec_silent_zero')) !== 0,
  }
}

/** A lossy codec that stored everything raw would be right and prove nothing; its errors over many vectors have bounds. */
function codecHolds(codec: CodecReport | null, errors: readonly [number, number]): boolean {
  if (codec === null) return true
  const max = relativeErrorMax(codec.name)
  const close = max === null || errors.every((error, part) => error > 0 && error <= (max[part] as number))
  return close && !codec.silent && (!lossy(codec.name) || codec.storedBytes < codec.logicalBytes)
}

function verdictOf(codec: CodecName): string {
  if (codec === 'fp8') return 'every restored value is the published one, rounded to E4M3'
  if (lossy(codec)) return 'every restored vector is within the error of its format, and every protected layer exact'
  return 'every restored byte is the byte that was published'
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

  /**
   * Kills the process in the middle of a restore and starts it again. False: it was not killed, because nothing of the
   * request is cached any more.
   */
  async killInRestore(id: number, request: DemoRequest): Promise<boolean> {
    const blocks = request.blocks.map((block) => keyOf(block).toString('hex'))
    const { event } = await this.#running().ask({ op: 'hang', id, blocks })
    if (event !== 'restoring') return false
    await this.#running().kill()
    await this.start()
    return true
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
  const device = options.device === 'gpu' ? firstGpu() : ''
  const python = device === '' ? pythonEngine() : 'Python engine: it has no framework that allocates GPU pages'
  if (typeof python === 'string') skipped.push(python)
  if (options.codec === 'ans' && device === '') {
    skipped.push('ANS: pages in host memory are stored as they are; see --device gpu')
  }
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
  if (requests.length === 0) throw new ConfigError('config_bad_value', 'Cannot replay an empty workload')
  const pages = Math.max(...requests.map(({ blocks }) => blocks.length))
  const manager = await ManagerChild.start(
    managerBinary(),
    [
      ...['--pool-size', options.pool, '--ssd-cache-path', cachePath, '--ssd-cache-capacity', options.ssd],
      ...['--bootstrap-socket', socketPath, '--http-addr', '127.0.0.1:0', '--ssd-io', io],
      ...['--storage-codec', options.codec, '--devices', device === '' ? devicesFor(options.codec) : device],
      ...(options.route === 'uring' ? ['--ssd-read-path', 'uring'] : []),
    ],
    logPath,
  )
  const params = { socketPath, ...options.shape, pages, codec: options.codec, device }
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
      // The newest prefix that was answered is one that the cache holds, unless the disk was too slow to write it.
      if (await engine.killInRestore(10_000_000 + index, later[Math.max(0, index - 2)] as DemoRequest)) enginesKilled++
    })
    for (const engine of engines) await engine.stop()
    const ssdRestoredBytes =
      (await manager.metric('orbitkv_ssd_restore_read_bytes_total')) +
      (await manager.metric('orbitkv_ssd_fill_bytes_total'))
    const codec = await codecReportOf(options.codec, manager)
    const end = await manager.stop()
    const totals = summarize(results)
    const gaugesAtRest = Object.keys(end.leaks).length
    return {
      ok:
        totals.mismatches === 0 &&
        gaugesAtRest === 0 &&
        end.gaugesSeen > 0 &&
        end.exitCode === 0 &&
        enginesKilled > 0 &&
        codecHolds(codec, totals.relativeErrors),
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
      device: options.device,
      codec,
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
    const options = parseDemo(process.argv.slice(2))
    if (options === null) return console.log(HELP)
    const report = await run(options)
    console.log(`\n${tableOf(report)}\n`)
    console.log(report.ok ? `  ${verdictOf(options.codec)}` : '  NOT OK')
    if (options.json) console.log(JSON.stringify(report))
    if (!report.ok) process.exitCode = 1
  } catch (error) {
    console.error(`demo: ${error instanceof OrbitError ? `${error.message} [${error.code}]` : String(error)}`)
    process.exitCode = 1
  }
}

void main()
