import { crc32 } from '../../src/shared/codec/crc32.js'
import { must } from './violation.js'

/** What the device wrote at one place of the pool, when it was asked for a coding. */
export interface Written {
  /** As long as the item: the item itself. */
  readonly storedBytes: number
  /** What it said: not always what the bytes have. */
  readonly crc: number
}

/**
 * What the device has encoded, by its place in the pool, and what was spoiled since: lengths that the Manager keeps are
 * held against it, and bytes that nobody spoiled are never called damaged.
 */
export class Codings {
  readonly #written = new Map<number, Written>()
  readonly #spoiled = new Set<number>()

  at(offsetBytes: number): Written | null {
    return this.#written.get(offsetBytes) ?? null
  }

  wrote(offsetBytes: number, written: Written): void {
    this.#written.set(offsetBytes, written)
    this.#spoiled.delete(offsetBytes)
  }

  /** Bytes at the place have become bad by themselves. */
  spoil(offsetBytes: number): void {
    this.#spoiled.add(offsetBytes)
  }

  spoiled(offsetBytes: number): boolean {
    return this.#spoiled.has(offsetBytes)
  }

  /** The place holds something else from now on. */
  forget(offsetBytes: number): void {
    this.#written.delete(offsetBytes)
    this.#spoiled.delete(offsetBytes)
  }

  /** A length and a checksum are taken for those of what lies there. */
  mustBe(offsetBytes: number, storedBytes: number, crc: number, itemBytes: number, what: string): void {
    const written = this.at(offsetBytes)
    const bytes = written?.storedBytes ?? itemBytes
    must(storedBytes === bytes, 'V1', () => `${what} is said to have ${storedBytes} stored bytes, it has ${bytes}`)
    if (written === null) return
    must(crc === written.crc, 'V1', () => `${what} has the checksum ${crc}, its encoding said ${written.crc}`)
  }
}

export function crcOf(bytes: Uint8Array): number {
  return crc32(bytes)
}
