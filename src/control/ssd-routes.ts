import { chmodSync, mkdirSync, mkdtempSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { CudaProbe } from '../binding/devices.js'
import { opening } from '../binding/errors.js'
import type { Native } from '../binding/surface.js'
import type { ServedDevice } from '../manager/lanes/served-device.js'
import type { DeviceName } from '../shared/base/device-name.js'
import { errorOf } from '../shared/base/error-of.js'
import { invariant } from '../shared/base/invariant.js'
import {
  type CufileFacts,
  type CufileMode,
  type SsdFacts,
  type SsdRoutes,
  selectSsd,
} from '../shared/routing/ssd-selection.js'
import { type ResolvedConfig, ssdSettings } from './config.js'
import type { OpenShards } from './shards.js'

/** The routes of a start, and cuFile when they use it. */
export interface ChosenRoutes {
  readonly routes: SsdRoutes
  /** Closes cuFile once every lane has ended. 0, or -errno or minus a status: something of it is still in use. */
  close(): number
}

/** What is known before anything is opened. */
function factsOf(config: ResolvedConfig, cuda: CudaProbe, cudaDevices: number, shards: SsdFacts['shards']): SsdFacts {
  const { compiler } = cuda
  const host = hostStaging()
  return {
    settings: ssdSettings(config),
    cudaDevices: cudaDevices + (host ? 1 : 0),
    kernelsFailure: compiler.available || (host && cudaDevices === 0) ? null : compiler.reason,
    shards,
    cufile: null,
  }
}

/**
 * Refuses what no shard could change, before one is made.
 * @throws ConfigError, CapabilityError cufile_unavailable
 */
export function checkRoutes(config: ResolvedConfig, cuda: CudaProbe, cudaDevices: number): void {
  const selection = selectSsd(factsOf(config, cuda, cudaDevices, []))
  if (selection.kind === 'refused') throw errorOf(selection.code, selection.message, selection.values)
}

/**
 * Decides how the SSD tier is used. libcufile is opened only when the choice asks for it, and closed again when it does
 * not qualify. Null: there is no SSD tier.
 * @throws ConfigError, CapabilityError cufile_unavailable, CapacityError capacity_disk
 */
export function chooseRoutes(
  native: Native,
  config: ResolvedConfig,
  cuda: CudaProbe,
  cudaDevices: number,
  shards: OpenShards,
): ChosenRoutes | null {
  const places = shards.reports.map(({ path, bytes, filesystem }) => ({ path, bytes, filesystem }))
  const facts = factsOf(config, cuda, cudaDevices, places)
  const first = selectSsd(facts)
  const opened = first.kind === 'open-cufile' ? openCufile(native, first.mode, config.socketPath, shards) : null
  const selection = opened === null ? first : selectSsd({ ...facts, cufile: opened.facts })
  switch (selection.kind) {
    case 'off':
      return null
    case 'refused':
      opened?.close()
      throw errorOf(selection.code, selection.message, selection.values)
    case 'routes':
      if (opened === null || selection.backend === 'cufile')
        return { routes: selection, close: () => opened?.close() ?? 0 }
      opened.close()
      return { routes: selection, close: () => 0 }
    default:
      invariant(false, 'cuFile is opened once', { kind: selection.kind })
  }
}

/** The devices whose pages the cuFile route serves: they have an ssd-worker. */
export function stagingDevices(devices: readonly ServedDevice[], routes: SsdRoutes): readonly DeviceName[] {
  if (routes.backend !== 'cufile') return []
  return devices.map(({ name }) => name).filter((name) => name !== 'host' || hostStaging())
}

/**
 * For tests on machines without a GPU: host memory is a device of the cuFile route, over whatever library
 * ORBITKV_CUFILE_LIBRARY names.
 */
function hostStaging(): boolean {
  return process.env['ORBITKV_CUFILE_HOST_STAGING'] === '1'
}

/** libcufile as a start has opened it, and what that came to. */
interface OpenedCufile {
  readonly facts: CufileFacts
  /** As ChosenRoutes. */
  close(): number
}

function openCufile(native: Native, mode: CufileMode, socketPath: string | null, shards: OpenShards): OpenedCufile {
  const log = cufileLog(socketPath)
  const facts = registerAll(native, mode, log.folder, shards)
  const close = () => {
    const code = facts.report.available ? native.closeCuFile() : 0
    log.remove()
    return code
  }
  return { facts, close }
}

/** Opens the driver, registers every shard, then reserves their space: each step only when the one before held. */
function registerAll(native: Native, mode: CufileMode, logFolder: string, shards: OpenShards): CufileFacts {
  const report = native.openCuFile({
    library: process.env['ORBITKV_CUFILE_LIBRARY'] ?? '',
    nativeOnly: mode === 'native',
    logFolder,
  })
  const facts = { mode, report, registration: null, reservation: null }
  if (!report.available) return facts
  for (const { file, path } of shards.reports) {
    const code = native.registerCuFileShard(file)
    if (code !== 0) return { ...facts, registration: { path, code } }
  }
  // A driver that cannot be kept from compatibility mode is not used by auto: nothing is reserved for it.
  if (mode === 'native' && report.compatible) return facts
  for (const [i, { file, path, bytes }] of shards.reports.entries()) {
    const result = native.reserveShard(file)
    if (result === 0) continue
    const left = shards.reports.slice(0, i).flatMap((each) => cutBack(each.path))
    const reason = [`errno ${-result}`, ...left].join('; ')
    return { ...facts, reservation: { path, bytes, reason } }
  }
  return facts
}

/** Gives back the space of a shard that was reserved before another failed; what failed, if anything. */
function cutBack(path: string): string[] {
  try {
    truncateSync(path, 0)
    return []
  } catch (thrown) {
    return [`${path} keeps its space: ${thrown instanceof Error ? thrown.message : String(thrown)}`]
  }
}

/**
 * The library writes a log into the working directory unless it is told another; ours is private to this user. Beside
 * the socket it stays for whoever asks; without one it goes with the runtime.
 */
function cufileLog(socketPath: string | null): { readonly folder: string; remove(): void } {
  if (socketPath === null) {
    const folder = opening('folder', () => mkdtempSync(join(tmpdir(), 'orbitkv-cufile-')))
    return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) }
  }
  const folder = join(dirname(socketPath), 'cufile-log')
  opening('folder', () => {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    chmodSync(folder, 0o700)
  })
  return { folder, remove: () => {} }
}
