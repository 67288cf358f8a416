/** Why io_uring cannot be used, or what it offers. */
export interface Probe {
  readonly available: boolean
  /** errno of the attempt, 0 when available. */
  readonly errno: number
  readonly reason: 'ok' | 'seccomp' | 'sysctl' | 'kernel' | 'memlock' | 'fdlimit' | 'unknown'
  readonly kernel: string
  /** Setup flags of the best rung of the ladder that this kernel takes. */
  readonly setupFlags: number
  readonly memlockBytes: number
}

/** What io_uring offers, at the addon. */
export interface ProbeFunctions {
  probe(): Probe
}

const CAUSES: Readonly<Record<Probe['reason'], string>> = {
  ok: 'io_uring is available',
  seccomp:
    'io_uring is refused by a system call filter (seccomp): containers do so by default; run without it, or use posix I/O',
  sysctl: 'io_uring is switched off by the sysctl kernel.io_uring_disabled; set it to 0, or use posix I/O',
  kernel: 'io_uring needs Linux 5.11 or later; use posix I/O here',
  memlock: 'io_uring got no locked memory; raise LimitMEMLOCK (ulimit -l), or use posix I/O',
  fdlimit: 'io_uring got no descriptor; raise LimitNOFILE (ulimit -n)',
  unknown: 'io_uring is not available',
}

/** One line for people: what io_uring offers here, or why it does not and what to do. */
export function describeProbe(probe: Probe): string {
  const host = `Linux ${probe.kernel}, locked memory ${describeLimit(probe.memlockBytes)}`
  if (probe.available) return `${CAUSES.ok} (${host}, setup flags 0x${probe.setupFlags.toString(16)})`
  return `${CAUSES[probe.reason]} (${host}, errno ${probe.errno})`
}

function describeLimit(bytes: number): string {
  return Number.isFinite(bytes) ? `${Math.floor(bytes / 1024)} KiB` : 'unlimited'
}
