/** Runs of digits, and what is between them. */
const PARTS = /\d+|\D+/g

/**
 * Order of names that count: runs of digits compare as numbers, everything else by UTF-16 code units; digits come before
 * anything else. Names that differ in leading zeros alone compare by code units, so that only equal names are equal.
 */
export function byNaturalName(a: string, b: string): number {
  const parts = a.match(PARTS) ?? []
  const others = b.match(PARTS) ?? []
  for (let i = 0; i < Math.min(parts.length, others.length); i++) {
    const order = byPart(parts[i] as string, others[i] as string)
    if (order !== 0) return order
  }
  return parts.length - others.length || byCodeUnits(a, b)
}

function byPart(a: string, b: string): number {
  const [first, second] = [isDigits(a), isDigits(b)]
  if (first && second) {
    const [x, y] = [withoutZeros(a), withoutZeros(b)]
    return x.length - y.length || byCodeUnits(x, y)
  }
  return first === second ? byCodeUnits(a, b) : first ? -1 : 1
}

function isDigits(part: string): boolean {
  const unit = part.charCodeAt(0)
  return unit >= 48 && unit <= 57
}

/** A number as its digits: names are long enough for more than 2^53. */
function withoutZeros(digits: string): string {
  return digits.replace(/^0+(?=\d)/, '')
}

function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
