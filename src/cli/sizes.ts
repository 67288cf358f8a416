import { GIB, KIB, MIB, TIB } from '../shared/base/units.js'

const UNITS: Readonly<Record<string, number>> = { b: 1, kb: KIB, mb: MIB, gb: GIB, tb: TIB }
const TIMES: Readonly<Record<string, number>> = {
  ms: 1_000,
  s: 1_000_000,
  m: 60_000_000,
  h: 3_600_000_000,
  d: 86_400_000_000,
}

function parseWithUnit(text: string, units: Readonly<Record<string, number>>): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]+)$/i.exec(text.trim())
  if (match === null) return null
  const unit = units[(match[2] as string).toLowerCase()]
  if (unit === undefined) return null
  const value = Math.floor(Number(match[1]) * unit)
  return Number.isSafeInteger(value) ? value : null
}

/** Parses a size such as `512mb` or `1.5tb` (powers of two) to bytes; null when it is not one. */
export function parseSize(text: string): number | null {
  return parseWithUnit(text, UNITS)
}

/** Parses a duration such as `250ms`, `30s` or `5m` to microseconds; null when it is not one. */
export function parseDuration(text: string): number | null {
  return parseWithUnit(text, TIMES)
}

/** Writes bytes with the largest unit that leaves at least 1, two digits after the point at most. */
export function formatSize(bytes: number): string {
  for (const [unit, size] of [
    ['TiB', TIB],
    ['GiB', GIB],
    ['MiB', MIB],
    ['KiB', KIB],
  ] as const) {
    if (bytes >= size) return `${Number((bytes / size).toFixed(2))} ${unit}`
  }
  return `${bytes} B`
}
