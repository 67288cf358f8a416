import type { ErrorCode, ErrorValues } from '../base/errors.js'

/** The settings of an operator: `--ssd-backend`, `--ssd-read-path` (null: unset), and how many `--ssd-cache-path`. */
export interface SsdSettings {
  readonly backend: 'auto' | 'uring' | 'cufile' | null
  readonly readPath: 'uring' | 'cufile' | null
  readonly paths: number
}

/** One shard as it was created. */
export interface ShardFacts {
  readonly path: string
  readonly bytes: number
  /** f_type of statfs. */
  readonly filesystem: number
}

/**
 * How libcufile is opened. `native`: compatibility is switched off through the parameter API before the driver opens,
 * whatever the environment says. `configured`: NVIDIA's configuration and its environment variables decide.
 */
export type CufileMode = 'native' | 'configured'

/** What opening libcufile and registering the shards came to. */
export interface CufileFacts {
  readonly mode: CufileMode
  /** CuFileReport of binding/cufile.ts. */
  readonly report: {
    readonly available: boolean
    readonly reason: CufileReason
    /** cuFile status of the call that failed; 0 when none did. */
    readonly code: number
    /** major * 1000 + minor * 10: 1150 is 1.15; 0 when unknown. */
    readonly version: number
    /** The driver is open and may answer by copies through the host. */
    readonly compatible: boolean
  }
  /** The first shard that did not register, or null when all did, or none was tried. */
  readonly registration: { readonly path: string; readonly code: number } | null
  /** The first shard whose space could not be reserved, or null; asked only after every shard registered. */
  readonly reservation: { readonly path: string; readonly bytes: number; readonly reason: string } | null
}

/** What can keep libcufile from opening, and what it means for the choice. */
const CUFILE_CAUSES = {
  ok: 'native',
  'no-library': 'library',
  'no-symbol': 'library',
  'no-streams': 'library',
  'too-old': 'version',
  'no-node': 'driver',
  'open-failed': 'driver',
  'parameter-refused': 'driver',
  'already-open': 'compatibility',
  compatible: 'compatibility',
} as const satisfies Readonly<Record<string, SsdCause>>
export type CufileReason = keyof typeof CUFILE_CAUSES

/** Everything that the choice depends on. */
export interface SsdFacts {
  readonly settings: SsdSettings
  /** CUDA devices that are served. */
  readonly cudaDevices: number
  /** Why kernels for gather, scatter and checksums cannot be compiled; null when they can. */
  readonly kernelsFailure: string | null
  readonly shards: readonly ShardFacts[]
  /** null: libcufile was not opened. */
  readonly cufile: CufileFacts | null
}

/**
 * Where demand reads of what is only on the SSD go: `dram` reads into DRAM during the query, `uring` and `cufile` lease
 * during the query and read during the restore.
 */
export type ReadRoute = 'dram' | 'uring' | 'cufile'
/**
 * Where complete groups are written from: `uring` from DRAM in the background; `cufile` from engine pages, or from where a
 * codec made them.
 */
export type WriteRoute = 'uring' | 'cufile'

export interface SsdRoutes {
  readonly kind: 'routes'
  readonly backend: 'uring' | 'cufile'
  readonly readRoute: ReadRoute
  readonly writeRoute: WriteRoute
  /** `--ssd-read-path` names the read route: it is had or refused, for every rank. */
  readonly readsPinned: boolean
  /** After a cuFile failure new demand reads go by io_uring until restart. */
  readonly readsFallBack: boolean
  /** After a cuFile failure new writes go by io_uring until restart. */
  readonly writesFallBack: boolean
  /** `auto` wanted cuFile and has io_uring instead: a start-up fallback. */
  readonly fellBack: boolean
  /** What is known of the path that bytes take on cuFile; null without it. Never proof of native GDS by itself. */
  readonly evidence: 'native-only' | 'compatibility-allowed' | null
  /** Why, in one line, for logs and /health. */
  readonly reason: string
  /** The same in one word, for a metric's label. */
  readonly cause: SsdCause
}

export const SSD_CAUSES = [
  'chosen',
  'native',
  'configured',
  'no-device',
  'no-kernels',
  'filesystem',
  'shard-size',
  'library',
  'version',
  'driver',
  'compatibility',
  'registration',
  /** Not of a start: new cuFile work was stopped while the process ran. */
  'failed',
] as const
export type SsdCause = (typeof SSD_CAUSES)[number]

export type SsdSelection =
  /** There is no SSD tier. */
  | { readonly kind: 'off' }
  /** Everything before it qualifies: open libcufile so, register, reserve, and ask again. */
  | { readonly kind: 'open-cufile'; readonly mode: CufileMode }
  | SsdRoutes
  | { readonly kind: 'refused'; readonly code: ErrorCode; readonly message: string; readonly values: ErrorValues }

/** Filesystems that `auto` takes: qualified ones. Others need `--ssd-backend cufile`. */
export const FILESYSTEMS_NATIVE: ReadonlyMap<number, string> = new Map([
  [0xef53, 'ext4'],
  [0x58465342, 'xfs'],
])
/** The smallest shard that cuFile can be used on: one aligned extent. */
export const CUFILE_SHARD_BYTES_MIN = 4096
/** The first version with the parameter API, without which compatibility cannot be switched off from here. */
export const CUFILE_VERSION_NATIVE = 1140

interface Obstacle {
  readonly cause: SsdCause
  readonly why: string
}

/**
 * Which routes the SSD tier uses: all shards or none. Pure: the caller opens libcufile only when it is told to, so
 * `uring`, and everything that fails before, never does.
 *
 * `auto` takes cuFile when it is native as far as the driver can be made to promise, and io_uring otherwise. An explicit
 * setting is never replaced: it is had, or start-up is refused. Space that cannot be reserved is no missing capability:
 * it refuses start-up in both. See docs/decisions/0012-ssd-backend-selection.md.
 */
export function selectSsd(facts: SsdFacts): SsdSelection {
  const { settings, cufile } = facts
  const { readPath } = settings
  const backend = settings.backend ?? 'auto'
  if (settings.paths === 0) return withoutPath(settings)
  if (backend === 'uring') {
    if (readPath !== 'cufile') return uringRoutes(settings, 'chosen', '--ssd-backend uring')
    return refused('config_conflict', 'Cannot use --ssd-read-path cufile with --ssd-backend uring: drop one of them')
  }
  const obstacle = earlyObstacle(facts, backend === 'auto') ?? (cufile === null ? null : obstacleOf(cufile, backend))
  if (obstacle === null && cufile === null) {
    return { kind: 'open-cufile', mode: backend === 'auto' ? 'native' : 'configured' }
  }
  if (obstacle !== null || cufile === null) return withoutCufile(settings, obstacle as Obstacle)
  if (cufile.reservation !== null) {
    const { path, bytes, reason } = cufile.reservation
    return refused(
      'capacity_disk',
      `Cannot reserve ${bytes} bytes for shard ${path}: ${reason}; lower --ssd-cache-capacity or free space`,
      { path, bytes, reason },
    )
  }
  return cufileRoutes(settings, cufile)
}

function withoutPath({ backend, readPath }: SsdSettings): SsdSelection {
  if (backend === null && readPath === null) return { kind: 'off' }
  const flag = backend === null ? '--ssd-read-path' : '--ssd-backend'
  return refused('config_conflict', `Cannot use ${flag} without an SSD tier: give --ssd-cache-path`)
}

/** What stands in the way before libcufile is looked for. */
function earlyObstacle(facts: SsdFacts, auto: boolean): Obstacle | null {
  if (facts.cudaDevices === 0) return { cause: 'no-device', why: 'no CUDA device is served' }
  if (facts.kernelsFailure !== null) {
    return { cause: 'no-kernels', why: `kernels cannot be compiled: ${facts.kernelsFailure}` }
  }
  for (const { path, bytes, filesystem } of facts.shards) {
    if (bytes < CUFILE_SHARD_BYTES_MIN) {
      return { cause: 'shard-size', why: `shard ${path} has ${bytes} bytes, ${CUFILE_SHARD_BYTES_MIN} are needed` }
    }
    if (auto && !FILESYSTEMS_NATIVE.has(filesystem)) {
      return {
        cause: 'filesystem',
        why: `shard ${path} is on filesystem 0x${filesystem.toString(16)}, not ext4 or xfs`,
      }
    }
  }
  return null
}

/** What opening libcufile found. Policy concerns `auto` alone: who asks for cuFile takes what is configured. */
function obstacleOf({ mode, report, registration }: CufileFacts, backend: 'auto' | 'cufile'): Obstacle | null {
  if (!report.available) {
    const said = report.code === 0 ? '' : `, status ${report.code}`
    return {
      cause: CUFILE_CAUSES[report.reason],
      why: `libcufile ${versionText(report.version)}: ${report.reason}${said}`,
    }
  }
  if (backend === 'auto') {
    if (report.version < CUFILE_VERSION_NATIVE) {
      return {
        cause: 'version',
        why: `libcufile ${versionText(report.version)} cannot be kept from compatibility mode`,
      }
    }
    if (report.compatible || mode !== 'native') {
      return { cause: 'compatibility', why: 'the cuFile driver is open with compatibility mode allowed' }
    }
  }
  if (registration === null) return null
  return { cause: 'registration', why: `shard ${registration.path} does not register, status ${registration.code}` }
}

function versionText(version: number): string {
  return version === 0 ? '(no version)' : `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`
}

/** cuFile cannot be had: `auto` goes on with io_uring, unless reads were pinned to cuFile. */
function withoutCufile(settings: SsdSettings, { cause, why }: Obstacle): SsdSelection {
  const flag = settings.backend === 'cufile' ? '--ssd-backend cufile' : '--ssd-read-path cufile'
  if (settings.backend !== 'cufile' && settings.readPath !== 'cufile') {
    return { ...uringRoutes(settings, cause, why), fellBack: true }
  }
  return refused('cufile_unavailable', `Cannot use ${flag}: ${why}`, { cause })
}

function uringRoutes({ readPath }: SsdSettings, cause: SsdCause, reason: string): SsdRoutes {
  return {
    kind: 'routes',
    backend: 'uring',
    readRoute: readPath === 'uring' ? 'uring' : 'dram',
    writeRoute: 'uring',
    readsPinned: readPath !== null,
    readsFallBack: false,
    writesFallBack: false,
    fellBack: false,
    evidence: null,
    reason,
    cause,
  }
}

function cufileRoutes({ backend, readPath }: SsdSettings, cufile: CufileFacts): SsdRoutes {
  const auto = backend !== 'cufile'
  const { compatible } = cufile.report
  return {
    kind: 'routes',
    backend: 'cufile',
    readRoute: readPath ?? 'cufile',
    writeRoute: 'cufile',
    readsPinned: readPath !== null,
    readsFallBack: auto && readPath === null,
    writesFallBack: auto,
    fellBack: false,
    evidence: compatible ? 'compatibility-allowed' : 'native-only',
    reason: auto
      ? 'every shard registered with a driver that has compatibility mode off'
      : `--ssd-backend cufile; compatibility mode is ${compatible ? 'allowed' : 'off'}`,
    cause: auto ? 'native' : 'configured',
  }
}

function refused(code: ErrorCode, message: string, values: ErrorValues = {}): SsdSelection {
  return { kind: 'refused', code, message, values }
}
