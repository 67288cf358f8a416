import { spawnSync } from 'node:child_process'
import type { Load } from './io-loop.js'
import { Refusal } from './options.js'

/** Version of the installed fio. @throws Refusal when there is none. */
export function fioVersion(): string {
  const found = spawnSync('fio', ['--version'], { encoding: 'utf8' })
  if (found.error !== undefined || found.status !== 0) {
    throw new Refusal('Cannot compare with fio: it is not installed (Debian package fio: apt-get install fio)')
  }
  return found.stdout.trim()
}

interface FioSide {
  readonly total_ios: number
  readonly runtime: number
}

/** The same load by fio; operations a second, by its own count and clock. Its buffers are malloc's 4 KiB pages. */
export function fioRun(path: string, fileBytes: number, { bytes, depth, rw }: Load, ms: number): number {
  const words = [
    '--name=control',
    '--output-format=json',
    '--ioengine=io_uring',
    '--direct=1',
    '--norandommap',
    '--randrepeat=0',
    '--gtod_reduce=1',
    '--time_based',
    '--allow_file_create=0',
    `--rw=rand${rw}`,
    `--bs=${bytes}`,
    `--iodepth=${depth}`,
    `--size=${fileBytes}`,
    `--filename=${path}`,
    `--runtime=${ms}ms`,
  ]
  const ran = spawnSync('fio', words, { encoding: 'utf8' })
  if (ran.status !== 0) throw new Refusal(`fio ended with ${ran.status}: ${ran.stderr.trim() || ran.stdout.trim()}`)
  const report = JSON.parse(ran.stdout.slice(ran.stdout.indexOf('{'))) as { jobs: Record<'read' | 'write', FioSide>[] }
  const side = report.jobs[0]?.[rw]
  if (side === undefined || side.total_ios === 0) throw new Refusal('fio reported no operations')
  return (side.total_ios / side.runtime) * 1000
}
