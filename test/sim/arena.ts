import { must } from './violation.js'

const EBUSY = -16
const EINVAL = -22

/** A coding that a write takes from an arena, until it has taken it. */
export interface Reading {
  readonly code: Uint8Array
  end(): void
}

/**
 * The workspace in which one stream encodes, as binding/codecs.ts says: after encodeHeld() it is that job's until
 * releaseCodes(). Then its bytes are nobody's, and whoever reads them all the same finds others.
 *
 *   none ──begin──▶ coding ──made──▶ held ──release──▶ none
 *     ▲                └── failed ────────────────────────┘
 */
export class Arena {
  #state: 'none' | 'coding' | 'held' = 'none'
  /** By the place of its descriptor; null: refused, or stored as it is. */
  #codes: readonly (Uint8Array | null)[] = []
  #readers = 0

  get free(): boolean {
    return this.#state === 'none'
  }

  begin(): void {
    this.#state = 'coding'
  }

  made(codes: readonly (Uint8Array | null)[]): void {
    this.#state = 'held'
    this.#codes = codes
  }

  failed(): void {
    this.#state = 'none'
  }

  release(): number {
    if (this.#state === 'none') return EINVAL
    if (this.#state === 'coding' || this.#readers > 0) return EBUSY
    for (const code of this.#codes) code?.fill(0xdd)
    this.#codes = []
    this.#state = 'none'
    return 0
  }

  /** The coding that a triple names; null where the addon would refuse it. */
  read(index: number, bytes: number): Reading | null {
    const code = this.#state === 'held' ? (this.#codes[index] ?? null) : null
    if (code === null || code.length !== bytes) return null
    this.#readers++
    const end = () => {
      must(this.#readers > 0, 'O2', () => 'a coding is read by nobody')
      this.#readers--
    }
    return { code, end }
  }
}
