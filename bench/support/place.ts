import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join } from 'node:path'

/** Where and in which company a run was made; part of every result. */
export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly kernel: string
  readonly node: string
  /** Average of the last minute, before the run. */
  readonly load: number
}

export function machine(): Machine {
  const [cpu] = cpus()
  return {
    cpu: cpu?.model ?? 'unknown',
    cores: cpus().length,
    kernel: release(),
    node: process.version,
    load: loadavg()[0] ?? 0,
  }
}

/** A folder of a run's own, gone when the run ends. */
export interface Folder {
  readonly path: string
  /** Type, source and options of the filesystem. */
  readonly filesystem: string
  remove(): void
}

export function freshFolder(dir: string): Folder {
  mkdirSync(dir, { recursive: true })
  const path = mkdtempSync(join(dir, 'orbitkv-bench-'))
  const remove = () => rmSync(path, { recursive: true, force: true })
  process.once('exit', remove)
  return { path, filesystem: filesystemOf(path), remove }
}

function filesystemOf(path: string): string {
  const columns = execFileSync('findmnt', ['-n', '-o', 'FSTYPE,SOURCE,OPTIONS', '-T', path], { encoding: 'utf8' })
  return columns.trim().replace(/\s+/g, ' ')
}
