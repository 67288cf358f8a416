import { formatSize } from '../sizes.js'
import type { RequestResult } from './protocol.js'

/** The last line of `npm run demo -- --json`. */
export interface DemoReport {
  readonly ok: boolean
  readonly mismatches: number
  readonly ssdRestoredBytes: number
  readonly enginesKilled: number
  /** Ownership gauges that were not zero after the drain. */
  readonly gaugesAtRest: number
  readonly gaugesSeen: number
  /** What this machine could not show, and why. */
  readonly skipped: readonly string[]
  readonly requests: number
  readonly blocks: number
  readonly blocksFromDram: number
  readonly blocksFromSsd: number
  readonly blocksMissed: number
  readonly restoredBytes: number
  readonly restoreFailures: number
  readonly restoreP50Ms: number
  readonly restoreP99Ms: number
  readonly managerExitCode: number
  readonly seconds: number
  readonly io: string
  readonly route: string
  readonly engines: readonly string[]
}

/** Value below which `fraction` of the sorted list lies. */
export function quantile(sorted: readonly number[], fraction: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? 0
}

/** Adds up the results of all requests. */
export function summarize(results: readonly RequestResult[]) {
  const sum = (pick: (result: RequestResult) => number) => results.reduce((total, result) => total + pick(result), 0)
  const times = results
    .map(({ restoreUs }) => restoreUs)
    .filter((us) => us > 0)
    .sort((a, b) => a - b)
  return {
    requests: results.length,
    blocks: sum(({ blocks }) => blocks),
    blocksFromDram: sum(({ fromDram }) => fromDram),
    blocksFromSsd: sum(({ fromSsd }) => fromSsd),
    blocksMissed: sum(({ missed }) => missed),
    restoredBytes: sum(({ restoredBytes }) => restoredBytes),
    restoreFailures: sum(({ restoreFailures }) => restoreFailures),
    mismatches: sum(({ mismatches }) => mismatches),
    restoreP50Ms: Number((quantile(times, 0.5) / 1000).toFixed(2)),
    restoreP99Ms: Number((quantile(times, 0.99) / 1000).toFixed(2)),
  }
}

/** The closing table. */
export function tableOf(report: DemoReport): string {
  const share = (blocks: number) => `${((100 * blocks) / Math.max(1, report.blocks)).toFixed(1)} %`
  const rows: readonly (readonly [string, string])[] = [
    ['requests', `${report.requests} by ${report.engines.join(' and ')}`],
    ['blocks asked for', String(report.blocks)],
    ['  from DRAM', `${report.blocksFromDram} (${share(report.blocksFromDram)})`],
    ['  from SSD', `${report.blocksFromSsd} (${share(report.blocksFromSsd)})`],
    ['  computed and published', `${report.blocksMissed} (${share(report.blocksMissed)})`],
    ['bytes restored', formatSize(report.restoredBytes)],
    ['bytes read from SSD, verified', formatSize(report.ssdRestoredBytes)],
    ['query to restored, p50 / p99', `${report.restoreP50Ms} ms / ${report.restoreP99Ms} ms`],
    ['blocks with a wrong byte', String(report.mismatches)],
    ['engines killed in mid-restore', String(report.enginesKilled)],
    ['gauges left over after SIGTERM', `${report.gaugesAtRest} of ${report.gaugesSeen}`],
    ['Manager exit code', String(report.managerExitCode)],
    ['route, I/O', `${report.route}, ${report.io}`],
    ['time', `${report.seconds} s`],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `  ${name.padEnd(width)}   ${value}`).join('\n')
}
