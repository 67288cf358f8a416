import { ProtocolError } from '../../base/errors.js'
import { FRAME_BYTES_MAX, LENGTH_WORD_BYTES } from './limits.js'

/**
 * Where a frame is being read or written. The reader checks every bound before it touches or allocates anything and
 * says what was wrong and where; the writer refuses values that the reader would refuse.
 */

/** Reads a frame front to back. Views that it hands out alias `bytes`. */
export class WireReader {
  readonly bytes: Uint8Array
  /** Message and field being read, for errors. */
  message = 'frame'
  field = 'header'
  at = 0
  readonly #view: DataView

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get remainingBytes(): number {
    return this.bytes.length - this.at
  }

  /** @throws ProtocolError frame_malformed, always. */
  refuse(what: string, value: string | number = ''): never {
    throw new ProtocolError(
      'frame_malformed',
      `Cannot read field ${this.field} of a ${this.message} frame at byte ${this.at}: ${what}`,
      { message: this.message, field: this.field, atByte: this.at, frameBytes: this.bytes.length, value },
    )
  }

  /** Moves past `bytes` bytes and returns where they start. */
  advance(bytes: number): number {
    if (bytes > this.remainingBytes) this.refuse(`${bytes} bytes needed, ${this.remainingBytes} left`, bytes)
    const start = this.at
    this.at += bytes
    return start
  }

  u8(): number {
    return this.#view.getUint8(this.advance(1))
  }
  u16(): number {
    return this.#view.getUint16(this.advance(2), true)
  }
  u32(): number {
    return this.#view.getUint32(this.advance(4), true)
  }
  u64(): number {
    const start = this.advance(8)
    const high = this.#view.getUint32(start + 4, true)
    if (high >= 0x200000) this.refuse('an integer above 2^53 - 1', high)
    return high * 0x100000000 + this.#view.getUint32(start, true)
  }
  f64(): number {
    const value = this.#view.getFloat64(this.advance(8), true)
    if (!Number.isFinite(value)) this.refuse('a number that is not finite')
    return value
  }
  /** A view, not a copy: it dies with the frame's buffer. */
  span(bytes: number): Uint8Array {
    const start = this.advance(bytes)
    return this.bytes.subarray(start, start + bytes)
  }
}

/** Writes a frame front to back into memory of the caller. */
export class WireWriter {
  readonly target: Uint8Array
  at = 0
  readonly #view: DataView
  readonly #end: number

  constructor(target: Uint8Array) {
    this.target = target
    this.#view = new DataView(target.buffer, target.byteOffset, target.byteLength)
    this.#end = Math.min(target.length, FRAME_BYTES_MAX - LENGTH_WORD_BYTES)
  }

  /** Moves past `bytes` bytes and returns where they start. @throws ProtocolError frame_too_large */
  advance(bytes: number): number {
    const start = this.at
    if (start + bytes > this.#end) {
      throw new ProtocolError('frame_too_large', `Cannot write a frame of over ${this.#end} bytes: split the request`, {
        bytesMax: this.#end,
      })
    }
    this.at += bytes
    return start
  }

  /** Refuses a value that a peer would refuse. @throws RangeError */
  #integer(value: number, max: number): number {
    if (!Number.isSafeInteger(value) || value < 0 || value > max) {
      throw new RangeError(`Cannot write ${value}: an integer from 0 to ${max} is needed`)
    }
    return value
  }

  u8(value: number): void {
    this.#view.setUint8(this.advance(1), this.#integer(value, 0xff))
  }
  u16(value: number): void {
    this.#view.setUint16(this.advance(2), this.#integer(value, 0xffff), true)
  }
  u32(value: number): void {
    this.#view.setUint32(this.advance(4), this.#integer(value, 0xffffffff), true)
  }
  u64(value: number): void {
    const whole = this.#integer(value, Number.MAX_SAFE_INTEGER)
    const start = this.advance(8)
    this.#view.setUint32(start, whole % 0x100000000, true)
    this.#view.setUint32(start + 4, Math.floor(whole / 0x100000000), true)
  }
  f64(value: number): void {
    if (!Number.isFinite(value)) throw new RangeError(`Cannot write ${value}: numbers on the wire are finite`)
    this.#view.setFloat64(this.advance(8), value, true)
  }
  span(bytes: Uint8Array): void {
    this.target.set(bytes, this.advance(bytes.length))
  }
}
