#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import pino from 'pino'
import { type LaneDeath, type ManagerEvents, RunningManager } from '../control/manager-process.js'
import { type HttpServer, openHttpServer } from '../http/server.js'
import { OrbitError } from '../shared/base/errors.js'
import { type CodecName, lossy } from '../shared/codec/setting.js'
import { reasonsOf } from '../shared/layout/coded-layers.js'
import { describeFlags, type FlagValues, parseFlags } from './flags.js'
import { configOf, parseAddress } from './manager-config.js'
import { formatSize } from './sizes.js'

/** Exit codes: 0 drained clean, 1 refused to start or left something behind, 70 a part of the process failed. */
const EXIT_REFUSED = 1
const EXIT_BROKEN = 70

function versionText(): string {
  for (const up of ['../../package.json', '../../../package.json']) {
    try {
      const text = readFileSync(new URL(up, import.meta.url), 'utf8')
      return (JSON.parse(text) as { readonly version: string }).version
    } catch {}
  }
  return 'unknown'
}

/** The first SIGTERM or SIGINT from now on. A second one ends the process at once. */
function firstSignal(): Promise<string> {
  const names = ['SIGTERM', 'SIGINT'] as const
  return new Promise((resolve) => {
    const came = (name: string) => {
      for (const each of names) process.off(each, came)
      resolve(name)
    }
    for (const name of names) process.on(name, came)
  })
}

async function run(flags: FlagValues): Promise<number> {
  // Before anything is made: a signal that comes while the Manager starts drains it, too.
  const signalled = firstSignal()
  const log = pino({ level: flags['log-level'], base: null }, pino.destination({ dest: 1, sync: true }))
  const uid = process.getuid?.() ?? 0
  const http = parseAddress('http-addr', flags['http-addr'])
  const config = configOf(flags, uid, process.env['XDG_RUNTIME_DIR'])
  const died = (death: LaneDeath) => {
    log.fatal(
      { lane: death.name, exitCode: death.exitCode, err: death.error },
      'a lane ended: the process ends with it',
    )
    process.exit(EXIT_BROKEN)
  }
  const manager = await RunningManager.start(config, died, eventsTo(log, config.codec.name))
  const { report } = manager
  const server = await orDrain(
    manager,
    openHttpServer(http.host, http.port, {
      health: () => ({
        live: true,
        body: {
          status: manager.ready ? 'serving' : 'draining',
          epoch: report.epoch,
          io: report.io,
          ioUring: report.probe,
          pool: report.pool,
          shards: report.shards,
          ssd: healthOfSsd(manager),
          codec: healthOfCodec(report),
          cuda: healthOfCuda(report),
        },
      }),
      ready: () => manager.ready,
      metrics: async () =>
        flags['enable-prometheus'] === 'true'
          ? { contentType: manager.metrics.contentType, body: await manager.metrics.metrics() }
          : null,
    }),
  )
  log.info(
    {
      version: versionText(),
      socket: config.socketPath,
      http: `${server.address}:${server.port}`,
      epoch: report.epoch,
      io: report.io,
      pool: formatSize(report.pool.bytes),
      hugePages: formatSize(report.pool.hugePageBytes),
      ssd: report.shards.map((shard) => ({
        path: shard.path,
        capacity: formatSize(shard.bytes),
        device: shard.device,
      })),
      readRoute: report.routes?.readRoute,
      codec: config.codec.name,
      devices: report.devices.map(({ name, uuid }) => (uuid === '' ? name : `${name} ${uuid}`)),
    },
    'serving',
  )
  if (report.io === 'posix') log.warn('--ssd-io posix: reads and writes go through threads, not io_uring')
  warnOfLoss(config.codec.name, log)
  if (report.routes !== null) {
    const { kind: _, ...routes } = report.routes
    log[routes.fellBack ? 'warn' : 'info'](routes, 'ssd backend selected')
    if (routes.evidence === 'compatibility-allowed') {
      log.warn('cuFile may answer in compatibility mode: its bytes and times are no evidence of native GDS')
    }
  }
  return untilDrained(manager, server, signalled, flags['drain-timeout'], log)
}

/** What happens to routes while the Manager runs goes to the log. */
function eventsTo(log: pino.Logger, codec: CodecName): ManagerEvents {
  let warned = false
  return {
    ssdFellBack: (failure) =>
      log.error(failure, 'cuFile failed: new SSD work goes by io_uring until restart, named cuFile reads are misses'),
    rankByUring: () => {
      // Once: how many there are is in /health and orbitkv_ssd_uring_ranks.
      if (!warned) log.warn('a rank registered that cuFile does not reach: its SSD reads and writes go by io_uring')
      warned = true
    },
    codecChosen: (layers) =>
      log[layers.coded === 0 ? 'warn' : 'info'](
        { codec, layersCoded: layers.coded, layersRaw: Object.fromEntries(reasonsOf(layers)) },
        'an instance sealed: layers that the codec takes, and why it does not take the others',
      ),
  }
}

/** The selection of the start, where new work goes now, and what changed it; null without an SSD tier. */
function healthOfSsd(manager: RunningManager) {
  const { ssd } = manager
  if (ssd === null) return null
  const ranksByUring = manager.gauges().get('orbitkv_ssd_uring_ranks') ?? 0
  return { ...ssd.selected, now: ssd.now, failure: ssd.failure, ranksByUring }
}

/** How pages are stored, and what that runs on. */
function healthOfCodec({ config, nvcomp }: RunningManager['report']) {
  return { name: config.codec.name, budgetBytes: config.codecBudgetBytes, lossy: lossy(config.codec.name), nvcomp }
}

/** Whoever reads the log of a surprising answer should find this line. */
function warnOfLoss(codec: CodecName, log: pino.Logger): void {
  if (!lossy(codec)) return
  log.warn(
    { codec },
    'this storage codec loses precision: it is experimental, and its effect on the quality of answers is not qualified',
  )
}

/** What is known of the CUDA driver; UUIDs and reasons, for whoever asks why a device is not served. */
function healthOfCuda({ cuda, devices }: RunningManager['report']) {
  return { ...cuda, served: devices.flatMap(({ uuid, name }) => (uuid === '' ? [] : [{ name, uuid }])) }
}

/** What a start still needs after the Manager runs; when it fails, the Manager ends with it. */
async function orDrain<T>(manager: RunningManager, step: Promise<T>): Promise<T> {
  try {
    return await step
  } catch (error) {
    await manager.drain(0)
    throw error
  }
}

/** Waits for a signal or a client's DRAIN, drains, reports what is left. */
async function untilDrained(
  manager: RunningManager,
  server: HttpServer,
  signalled: Promise<string>,
  limitUs: number,
  log: pino.Logger,
): Promise<number> {
  const signal = await Promise.race([signalled, manager.drainAsked.then(() => 'DRAIN')])
  log.info({ signal }, 'draining')
  const { unfinished, leaks } = await manager.drain(limitUs)
  await server.close()
  const clean = unfinished === 0 && Object.keys(leaks).length === 0
  log[clean ? 'info' : 'error']({ unfinished, leaks, gauges: Object.fromEntries(manager.gauges()) }, 'drained')
  return clean ? 0 : EXIT_REFUSED
}

async function main(): Promise<void> {
  const argv = process.argv.slice(2)
  if (argv.includes('--help')) return console.log(describeFlags())
  if (argv.includes('--version')) return console.log(versionText())
  try {
    process.exitCode = await run(parseFlags(argv))
  } catch (error) {
    if (error instanceof OrbitError) {
      console.error(`orbitkv-cache-manager: ${error.message} [${error.code}]`)
      process.exitCode = EXIT_REFUSED
      return
    }
    // No refusal but a bug, such as a lane that died before the Manager served: a supervisor should try again.
    const report = error instanceof Error ? error.stack : String(error)
    console.error(`orbitkv-cache-manager: a part of the process failed before it served: ${report}`)
    process.exit(EXIT_BROKEN)
  }
}

void main()
