import type { WireReader, WireWriter } from './cursor.js'
import { KEY_BYTES } from './limits.js'
import { utf8Bytes, utf8Read, utf8Write } from './utf8.js'

/**
 * The vocabulary of the frame table: each field knows how it is written, how it is read strictly, how few bytes it
 * can take (so that a count is refused before anything is allocated for it) and how it is drawn in the documents.
 */
export interface Field<T> {
  /** Fewest bytes that a value takes; at least 1 for anything that may stand in a list. */
  readonly bytesMin: number
  /** The bytes in words, for docs/internals/protocol.md. */
  readonly drawn: string
  /** Fields of a record, in order; of a variant, the kind and then the record of each kind. */
  readonly shape?: Readonly<Record<string, Field<unknown>>>
  /** What a list repeats. */
  readonly item?: Field<unknown>
  write(writer: WireWriter, value: T): void
  read(reader: WireReader): T
}

/** The value of a field. */
export type ValueOf<F> = F extends Field<infer T> ? T : never

function number(
  drawn: string,
  bytesMin: number,
  write: (writer: WireWriter, value: number) => void,
  read: (reader: WireReader) => number,
): Field<number> {
  return { drawn, bytesMin, write, read }
}

export const u8 = number(
  'u8',
  1,
  (w, v) => w.u8(v),
  (r) => r.u8(),
)
export const u16 = number(
  'u16',
  2,
  (w, v) => w.u16(v),
  (r) => r.u16(),
)
export const u32 = number(
  'u32',
  4,
  (w, v) => w.u32(v),
  (r) => r.u32(),
)
/** A u64 that JavaScript holds exactly: below 2^53, refused otherwise. */
export const u64 = number(
  'u64',
  8,
  (w, v) => w.u64(v),
  (r) => r.u64(),
)
export const f64 = number(
  'f64',
  8,
  (w, v) => w.f64(v),
  (r) => r.f64(),
)

/** One of 0 and 1. */
export const bool: Field<boolean> = {
  drawn: 'u8 0|1',
  bytesMin: 1,
  write: (w, v) => w.u8(v ? 1 : 0),
  read: (r) => {
    const value = r.u8()
    if (value > 1) r.refuse(`${value} is neither 0 nor 1`, value)
    return value === 1
  },
}

/** A number of `field` that lies between two bounds, both allowed. */
export function between(field: Field<number>, min: number, max: number): Field<number> {
  return {
    drawn: `${field.drawn} ${min}..${max}`,
    bytesMin: field.bytesMin,
    write: (w, v) => {
      if (v < min || v > max) throw new RangeError(`Cannot write ${v}: ${min} to ${max} is allowed`)
      field.write(w, v)
    },
    read: (r) => {
      const value = field.read(r)
      if (value < min || value > max) r.refuse(`${value} is not from ${min} to ${max}`, value)
      return value
    },
  }
}

/** One of a closed set of words, as its number. The order of `words` is part of the protocol. */
export function choice<const W extends readonly string[]>(words: W): Field<W[number]> {
  return {
    drawn: `u8 ${words.map((word, i) => `${i} ${word}`).join(', ')}`,
    bytesMin: 1,
    write: (w, v) => {
      const index = words.indexOf(v)
      if (index < 0) throw new RangeError(`Cannot write ${v}: one of ${words.join(', ')} is needed`)
      w.u8(index)
    },
    read: (r) => {
      const index = r.u8()
      const word = words[index]
      if (word === undefined) return r.refuse(`${index} is not one of ${words.length} choices`, index)
      return word
    },
  }
}

/** Exactly `length` bytes. Reading gives a view. */
export function bytes(length: number): Field<Uint8Array> {
  return {
    drawn: `${length} bytes`,
    bytesMin: length,
    write: (w, v) => {
      if (v.length !== length) throw new RangeError(`Cannot write ${v.length} bytes: ${length} are needed`)
      w.span(v)
    },
    read: (r) => r.span(length),
  }
}

/** u16 length, then at most `lengthMax` bytes. Reading gives a view. */
export function blob(lengthMax: number): Field<Uint8Array> {
  return {
    drawn: `u16 n <= ${lengthMax}, n bytes`,
    bytesMin: 2,
    write: (w, v) => {
      if (v.length > lengthMax) throw new RangeError(`Cannot write ${v.length} bytes: at most ${lengthMax} are allowed`)
      w.u16(v.length)
      w.span(v)
    },
    read: (r) => {
      const length = r.u16()
      if (length > lengthMax) r.refuse(`${length} bytes, ${lengthMax} allowed`, length)
      return r.span(length)
    },
  }
}

/** u16 length in bytes, then strict UTF-8 of at most `bytesMax` bytes. */
export function text(bytesMax: number): Field<string> {
  return {
    drawn: `u16 n <= ${bytesMax}, n bytes UTF-8`,
    bytesMin: 2,
    write: (w, v) => {
      const length = utf8Bytes(v)
      if (length < 0) throw new RangeError('Cannot write text: it holds an unpaired surrogate')
      if (length > bytesMax)
        throw new RangeError(`Cannot write ${length} bytes of text: at most ${bytesMax} are allowed`)
      w.u16(length)
      utf8Write(v, w.target, w.advance(length))
    },
    read: (r) => {
      const length = r.u16()
      if (length > bytesMax) r.refuse(`${length} bytes of text, ${bytesMax} allowed`, length)
      const start = r.advance(length)
      const value = utf8Read(r.bytes, start, r.at)
      if (value === null) return r.refuse('text is not UTF-8')
      return value
    },
  }
}

function refuseCount(reader: WireReader, count: number, bytesEach: number, countMax: number): void {
  if (count > countMax) reader.refuse(`${count} items, ${countMax} allowed`, count)
  if (count * bytesEach > reader.remainingBytes) {
    reader.refuse(`${count} items of at least ${bytesEach} bytes in ${reader.remainingBytes} bytes`, count)
  }
}

/** u32 count, then the items. The count is held against the bytes that remain before any item is read. */
export function list<T>(item: Field<T>, countMax: number): Field<readonly T[]> {
  return {
    drawn: `u32 n <= ${countMax}, then n times`,
    item,
    bytesMin: 4,
    write: (w, v) => {
      if (v.length > countMax) throw new RangeError(`Cannot write ${v.length} items: at most ${countMax} are allowed`)
      w.u32(v.length)
      for (const each of v) item.write(w, each)
    },
    read: (r) => {
      const count = r.u32()
      refuseCount(r, count, item.bytesMin, countMax)
      const items: T[] = []
      for (let i = 0; i < count; i++) items.push(item.read(r))
      return items
    },
  }
}

/** u32 count, then keys of 32 bytes without gaps. One view for all of them. */
export const keys: Field<Uint8Array> = {
  drawn: `u32 n, n * ${KEY_BYTES} bytes`,
  bytesMin: 4,
  write: (w, v) => {
    if (v.length % KEY_BYTES !== 0)
      throw new RangeError(`Cannot write keys: ${v.length} is not a multiple of ${KEY_BYTES}`)
    w.u32(v.length / KEY_BYTES)
    w.span(v)
  },
  read: (r) => {
    const count = r.u32()
    refuseCount(r, count, KEY_BYTES, Number.MAX_SAFE_INTEGER)
    return r.span(count * KEY_BYTES)
  },
}

function writeNumbers(writer: WireWriter, values: Uint32Array): void {
  for (const value of values) writer.u32(value)
}

function readNumbers(reader: WireReader, length: number): Uint32Array {
  const values = new Uint32Array(length)
  for (let i = 0; i < length; i++) values[i] = reader.u32()
  return values
}

/** u32 count, then that many u32. A copy: the frame gives no alignment. */
export const numbers: Field<Uint32Array> = {
  drawn: 'u32 n, n * u32',
  bytesMin: 4,
  write: (w, v) => {
    w.u32(v.length)
    writeNumbers(w, v)
  },
  read: (r) => {
    const count = r.u32()
    refuseCount(r, count, 4, Number.MAX_SAFE_INTEGER)
    return readNumbers(r, count)
  },
}

/** u32 count of pairs, then two u32 a pair: flat, element 2i and 2i + 1 belong together. */
export const pairs: Field<Uint32Array> = {
  drawn: 'u32 n, n * (u32, u32)',
  bytesMin: 4,
  write: (w, v) => {
    if (v.length % 2 !== 0) throw new RangeError(`Cannot write pairs: ${v.length} numbers are not pairs`)
    w.u32(v.length / 2)
    writeNumbers(w, v)
  },
  read: (r) => {
    const count = r.u32()
    refuseCount(r, count, 8, Number.MAX_SAFE_INTEGER)
    return readNumbers(r, count * 2)
  },
}

/** Keys, and the page of each: `pages[i]` belongs to key i. */
export interface KeyedPages {
  readonly keys: Uint8Array
  readonly pages: Uint32Array
}

/** u32 count, all keys, all pages: one count, so that neither can be short of the other. */
export const keyedPages: Field<KeyedPages> = {
  drawn: `u32 n, n * ${KEY_BYTES} bytes, n * u32`,
  bytesMin: 4,
  write: (w, v) => {
    if (v.keys.length !== v.pages.length * KEY_BYTES) {
      throw new RangeError(`Cannot write ${v.keys.length} bytes of keys with ${v.pages.length} pages`)
    }
    w.u32(v.pages.length)
    w.span(v.keys)
    writeNumbers(w, v.pages)
  },
  read: (r) => {
    const count = r.u32()
    refuseCount(r, count, KEY_BYTES + 4, Number.MAX_SAFE_INTEGER)
    return { keys: r.span(count * KEY_BYTES), pages: readNumbers(r, count) }
  },
}

/** u8 0 for null, or 1 and the value. */
export function optional<T>(field: Field<T>): Field<T | null> {
  return {
    drawn: `u8 0, or u8 1 and ${field.drawn}`,
    bytesMin: 1,
    write: (w, v) => {
      bool.write(w, v !== null)
      if (v !== null) field.write(w, v)
    },
    read: (r) => (bool.read(r) ? field.read(r) : null),
  }
}

type Variants = Record<string, Field<object>>

/** A value whose further fields depend on its `kind`. */
export type VariantOf<V extends Variants> = {
  [K in keyof V]: { readonly kind: K } & ValueOf<V[K]>
}[keyof V]

/** u8 of the kind, then the record of that kind. The order of `kinds` is part of the protocol. */
export function variant<V extends Variants>(kinds: V): Field<VariantOf<V>> {
  const names = Object.keys(kinds)
  const kind = choice(names)
  return {
    shape: { kind, ...kinds },
    drawn: 'variant',
    bytesMin: kind.bytesMin + Math.min(...Object.values(kinds).map(({ bytesMin }) => bytesMin)),
    write: (w, v) => {
      kind.write(w, v.kind as string)
      kinds[v.kind]?.write(w, v)
    },
    read: (r) => {
      const name = kind.read(r)
      return { kind: name, ...kinds[name]?.read(r) } as VariantOf<V>
    },
  }
}

/** Fields one after another, without padding, in the order of the shape. */
export function record<S extends Record<string, Field<unknown>>>(
  shape: S,
): Field<{ readonly [K in keyof S]: ValueOf<S[K]> }> & { readonly shape: S } {
  const fields = Object.entries(shape)
  type Value = { readonly [K in keyof S]: ValueOf<S[K]> }
  return {
    shape,
    drawn: 'record',
    bytesMin: fields.reduce((sum, [, field]) => sum + field.bytesMin, 0),
    write: (w, v) => {
      for (const [name, field] of fields) field.write(w, v[name])
    },
    read: (r) => {
      const value: Record<string, unknown> = {}
      for (const [name, field] of fields) {
        r.field = name
        value[name] = field.read(r)
      }
      return value as Value
    },
  }
}
