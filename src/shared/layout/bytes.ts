import { invariant } from '../base/invariant.js'
import { utf8Bytes, utf8Write } from './wire/utf8.js'

/** UTF-8 of a text without lone surrogates, which no name that has passed the wire holds. */
export function encodeUtf8(text: string): Uint8Array {
  const length = utf8Bytes(text)
  invariant(length >= 0, 'a text to be digested is Unicode', { units: text.length })
  const bytes = new Uint8Array(length)
  utf8Write(text, bytes, 0)
  return bytes
}

/** Order of byte strings: first difference decides, a prefix comes first. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const shared = Math.min(a.length, b.length)
  for (let index = 0; index < shared; index++) {
    const difference = (a[index] as number) - (b[index] as number)
    if (difference !== 0) return difference
  }
  return a.length - b.length
}

/** Grows a byte string piece by piece. Integers are little endian. */
export class ByteWriter {
  private bytes = new Uint8Array(1024)
  private length = 0

  raw(piece: Uint8Array): void {
    const end = this.length + piece.length
    if (end > this.bytes.length) {
      const grown = new Uint8Array(Math.max(end, this.bytes.length * 2))
      grown.set(this.bytes)
      this.bytes = grown
    }
    this.bytes.set(piece, this.length)
    this.length = end
  }

  u32(value: number): void {
    this.raw(Uint8Array.of(value, value >>> 8, value >>> 16, value >>> 24))
  }

  /** An integer below 2^53 as eight bytes. */
  u64(value: number): void {
    this.u32(value % 2 ** 32)
    this.u32(Math.floor(value / 2 ** 32))
  }

  done(): Uint8Array {
    return this.bytes.slice(0, this.length)
  }
}
