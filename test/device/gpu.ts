import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import type { CudaDevice } from '../../src/binding/devices.js'
import { loadNative } from '../../src/binding/load.js'
import { folderOf } from '../support/folder.js'
import { type GateManager, gateManager } from '../support/gate-manager.js'
import { ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'

/** What the tests of this folder need: one CUDA device that works, and io_uring. */
const probe = loadNative().cudaProbe()
const device = probe.devices.find(({ failure }) => failure === null)

/** Why this machine has no device to test; empty when it has one. */
export const NO_GPU = device === undefined ? (probe.reason === '' ? 'no CUDA device' : probe.reason.slice(0, 120)) : ''

/** The device under test. @throws when there is none: only tests that need one may ask. */
export function gpu(): CudaDevice {
  if (device === undefined) throw new Error(NO_GPU)
  return device
}

export const testOnGpu = needs(device !== undefined, NO_GPU)

/** The ways that pages go to the SSD and come back: flags, and what stands before the command line. */
export interface Route {
  readonly name: string
  readonly flags: readonly string[]
  readonly launcher: readonly string[]
  /** Counter of bytes that this route reads from the SSD. */
  readonly readBytes: string
}

/** cuFile that answers through host memory: evidence of correct bytes, never of native GDS. */
export const COMPATIBLE = ['env', 'CUFILE_ALLOW_COMPAT_MODE=true', 'CUFILE_FORCE_COMPAT_MODE=true'] as const

export const URING_ROUTES: readonly Route[] = [
  {
    name: 'io_uring into DRAM',
    flags: ['--ssd-backend', 'uring'],
    launcher: [],
    readBytes: 'orbitkv_ssd_fill_bytes_total',
  },
  {
    name: 'io_uring during the restore',
    flags: ['--ssd-backend', 'uring', '--ssd-read-path', 'uring'],
    launcher: [],
    readBytes: 'orbitkv_ssd_restore_read_bytes_total',
  },
]

export const CUFILE_ROUTE: Route = {
  name: 'cuFile in compatibility mode',
  flags: ['--ssd-backend', 'cufile'],
  launcher: COMPATIBLE,
  readBytes: 'orbitkv_ssd_cufile_read_bytes_total',
}

/** Folder on a disk for shards: ORBITKV_DEVICE_DISK, or the system's for temporary files. */
export function diskFolder(t: ExecutionContext): string {
  const folder = process.env['ORBITKV_DEVICE_DISK']
  if (folder === undefined || folder === '') return folderOf(t)
  process.env['TMPDIR'] = folder
  mkdirSync(folder, { recursive: true })
  return folderOf(t)
}

/** Descriptors that the driver opens for itself once memory of other processes has been mapped, and keeps. */
const DRIVER_FDS_MAX = 32

export interface DeviceManager extends GateManager {
  readonly folder: string
}

/** A Manager that serves the device, with an SSD tier on a disk. */
export async function startManager(
  t: ExecutionContext,
  route: Pick<Route, 'flags' | 'launcher'>,
  flags: readonly string[] = [],
): Promise<DeviceManager> {
  const folder = diskFolder(t)
  const usual = [
    ['--devices', 'all'],
    ['--pool-size', '256mb'],
    ['--ssd-cache-capacity', '512mb'],
  ].filter(([name]) => !flags.includes(name as string))
  const manager = await ManagerChild.start(t, {
    folder,
    flags: [...route.flags, ...usual.flat(), ...flags],
    launcher: route.launcher,
    ...(flags.includes('--ssd-cache-path') ? { shard: null } : { shard: join(folder, 'shard.dat') }),
  })
  return { ...gateManager(t, manager, DRIVER_FDS_MAX), folder }
}
