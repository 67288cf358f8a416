import type { CodecName } from '../../shared/codec/setting.js'
import { formatSize } from '../sizes.js'
import type { RequestResult } from './protocol.js'

/** What the Manager counted of its codec. */
export interface CodecReport {
  readonly name: CodecName
  /** Of encoded items: as engines have them, and as they are stored. */
  readonly logicalBytes: number
  readonly storedBytes: number
  /** Items that the codec was given and that are stored raw. */
  readonly itemsRaw: number
  /** It coded items and counted no bytes. */
  readonly silent: boolean
}

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
  readonly device: string
  /** null without a codec. */
  readonly codec: CodecReport | null
  /** Mean square error over mean square of what TurboQuant restored, K and V; zeros with other codecs. */
  readonly relativeErrors: readonly [k: number, v: number]
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
    relativeErrors: [relative(results, 0), relative(results, 2)] as const,
    restoreP50Ms: Number((quantile(times, 0.5) / 1000).toFixed(2)),
    restoreP99Ms: Number((quantile(times, 0.99) / 1000).toFixed(2)),
  }
}

function relative(results: readonly RequestResult[], at: 0 | 2): number {
  const sum = (place: number) => results.reduce((total, { deviation }) => total + (deviation[place] ?? 0), 0)
  const power = sum(at + 1)
  return power === 0 ? 0 : Number((sum(at) / power).toPrecision(4))
}

function codecRows({ codec, relativeErrors }: DemoReport): (readonly [string, string])[] {
  if (codec === null) return []
  const { name, logicalBytes, storedBytes, itemsRaw } = codec
  const ratio = logicalBytes === 0 ? '' : `, ${((100 * storedBytes) / logicalBytes).toFixed(1)} %`
  const rows: (readonly [string, string])[] = [
    ['storage codec', name],
    ['  encoded bytes', `${formatSize(storedBytes)} for ${formatSize(logicalBytes)}${ratio}`],
    ['  items kept raw', String(itemsRaw)],
  ]
  const [k, v] = relativeErrors
  if (k > 0 || v > 0) rows.push(['  relative square error, K / V', `${k} / ${v}`])
  return rows
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
    ...codecRows(report),
    ['blocks with a wrong byte', String(report.mismatches)],
    ['engines killed in mid-restore', String(report.enginesKilled)],
    ['gauges left over after SIGTERM', `${report.gaugesAtRest} of ${report.gaugesSeen}`],
    ['Manager exit code', String(report.managerExitCode)],
    ['route, I/O, pages', `${report.route}, ${report.io}, ${report.device}`],
    ['time', `${report.seconds} s`],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `  ${name.padEnd(width)}   ${value}`).join('\n')
}
