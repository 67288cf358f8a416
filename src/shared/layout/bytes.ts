/** First byte of a sequence by the number of bytes that follow it. */
const LEADS = [0, 0xc0, 0xe0, 0xf0] as const

/** UTF-8 of a string. A lone surrogate becomes its own three bytes, so that different strings never meet. */
export function utf8Bytes(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length * 3)
  let length = 0
  for (const character of text) {
    const code = character.codePointAt(0) as number
    if (code < 0x80) bytes[length++] = code
    else {
      const tails = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3
      bytes[length++] = (LEADS[tails] as number) | (code >>> (6 * tails))
      for (let tail = tails - 1; tail >= 0; tail--) bytes[length++] = 0x80 | ((code >>> (6 * tail)) & 0x3f)
    }
  }
  return bytes.slice(0, length)
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
