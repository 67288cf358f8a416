import { invariant } from '../../base/invariant.js'

/**
 * Strict UTF-8, written out because this folder has no Node and no DOM types. Overlong forms, surrogates and code
 * points above U+10FFFF do not exist on the wire: two texts are equal exactly when their bytes are.
 */

/** Bytes of `text`, or -1 when it holds an unpaired surrogate. */
export function utf8Bytes(text: string): number {
  let bytes = 0
  for (let i = 0; i < text.length; i++) {
    const point = text.codePointAt(i) as number
    if (point >= 0xd800 && point <= 0xdfff) return -1
    if (point > 0xffff) i++
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4
  }
  return bytes
}

/** Writes `text` at `at`; the caller has checked the room with utf8Bytes. Returns the end. */
export function utf8Write(text: string, target: Uint8Array, at: number): number {
  let end = at
  for (const char of text) {
    const point = char.codePointAt(0) as number
    if (point < 0x80) {
      target[end++] = point
    } else if (point < 0x800) {
      target[end++] = 0xc0 | (point >> 6)
      target[end++] = 0x80 | (point & 0x3f)
    } else if (point < 0x10000) {
      target[end++] = 0xe0 | (point >> 12)
      target[end++] = 0x80 | ((point >> 6) & 0x3f)
      target[end++] = 0x80 | (point & 0x3f)
    } else {
      target[end++] = 0xf0 | (point >> 18)
      target[end++] = 0x80 | ((point >> 12) & 0x3f)
      target[end++] = 0x80 | ((point >> 6) & 0x3f)
      target[end++] = 0x80 | (point & 0x3f)
    }
  }
  invariant(end <= target.length, 'text fits where it was written', { end, bytes: target.length })
  return end
}

/** Smallest code point that a sequence of this many bytes may stand for. */
const LEAST = [0, 0, 0x80, 0x800, 0x10000]

/** The text of `bytes[start … end - 1]`, or null when those bytes are not UTF-8. */
export function utf8Read(bytes: Uint8Array, start: number, end: number): string | null {
  let text = ''
  for (let i = start; i < end; ) {
    const lead = bytes[i] as number
    const length = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 0
    if (length === 0 || i + length > end) return null
    let point = length === 1 ? lead : lead & (0x7f >> length)
    for (let k = 1; k < length; k++) {
      const next = bytes[i + k] as number
      if ((next & 0xc0) !== 0x80) return null
      point = (point << 6) | (next & 0x3f)
    }
    if (point < (LEAST[length] as number) || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return null
    text += String.fromCodePoint(point)
    i += length
  }
  return text
}

/** The longest prefix of `text`, whole characters only, of at most `bytesMax` bytes; unpaired surrogates become U+FFFD. */
export function clipText(text: string, bytesMax: number): string {
  let clipped = ''
  let bytes = 0
  for (const char of text) {
    const whole = utf8Bytes(char) < 0 ? '\ufffd' : char
    bytes += utf8Bytes(whole)
    if (bytes > bytesMax) break
    clipped += whole
  }
  return clipped
}
