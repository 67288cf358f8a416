import { formatName } from '../codec/format-name.js'
import { isCoding } from '../codec/setting.js'
import { ByteWriter, compareBytes, encodeUtf8 } from './bytes.js'
import { itemsOf, layersOf } from './granules.js'
import type { InstanceGeometry, LayerGeometry, RankGeometry } from './regions.js'

/**
 * The storage namespace: two instances share bytes only when every field of it is equal. Its digest is taken over a
 * byte stream in which every field has a tag and a length, so that no two different field lists give one stream.
 *
 *   "orbitkv-namespace" | version u32 | section plain: count u32, fields by tag | section geometry: groups, slots
 *   field = tag length u32 | tag | value length u32 | value
 */
export const NAMESPACE_VERSION = 3
/** Storage format of every slot without a codec. */
export const STORAGE_FORMAT = 'raw'

/** SHA-256 as a port: 32 bytes of digest. */
export type Sha256 = (bytes: Uint8Array) => Uint8Array

/** Tag to value: model, revision, engine, salt, and whatever else the engine names. */
export type PlainInputs = ReadonlyMap<string, Uint8Array>

/** Everything of the geometry that decides how stored bytes are to be read. */
export interface NamespaceGeometry {
  readonly pageFirst: boolean
  readonly groups: readonly { readonly kind: string; readonly blockTokens: number; readonly windowTokens: number }[]
  readonly slots: readonly NamespaceSlot[]
}

/** One (layer, tp) cell. */
export interface NamespaceSlot {
  readonly layer: string
  readonly group: number
  readonly tpRank: number
  readonly ppRank: number
  readonly segmentBytes: number
  readonly paddedBytes: number
  readonly split: boolean
  readonly dtype: string
  readonly kvRole: string
  readonly headDim: number
  readonly heads: number
  readonly storageFormat: string
}

/** The storage namespace of a sealed instance, 32 bytes. */
export function namespaceDigest(sha256: Sha256, plain: PlainInputs, instance: InstanceGeometry): Uint8Array {
  return sha256(namespaceStream(plain, namespaceGeometry(instance)))
}

/** The part that an engine can compute before anybody else has registered: its plain inputs alone. */
export function plainDigest(sha256: Sha256, plain: PlainInputs): Uint8Array {
  return sha256(namespaceStream(plain, { pageFirst: false, groups: [], slots: [] }))
}

/** The slots of an instance in stored order: group, then rank (tp, pp), then layer name. */
export function namespaceGeometry(instance: InstanceGeometry): NamespaceGeometry {
  const { pageFirst, groups, ranks } = instance
  const slots = groups.flatMap(({ group }) =>
    ranks.flatMap((rank) =>
      layersOf(rank, group).map((layer) => ({
        layer: layer.layer,
        group,
        tpRank: rank.tpRank,
        ppRank: rank.ppRank,
        segmentBytes: layer.segmentBytes,
        paddedBytes: layer.paddedBytes,
        split: layer.segments === 2,
        dtype: layer.dtype,
        kvRole: layer.kvRole,
        headDim: layer.headDim,
        heads: layer.heads,
        storageFormat: storageFormatOf(layer, rank),
      })),
    ),
  )
  return { pageFirst, groups, slots }
}

/** The forms of the layer's items, each once, in the order of the items. */
function storageFormatOf(layer: LayerGeometry, rank: RankGeometry): string {
  if (!isCoding(rank.codec)) return STORAGE_FORMAT
  return [...new Set(itemsOf(layer, rank).map(({ coding }) => formatName(coding)))].join('+')
}

/** The bytes under the digest. Exported for tests and for other implementations to be held against. */
export function namespaceStream(plain: PlainInputs, geometry: NamespaceGeometry): Uint8Array {
  const writer = new ByteWriter()
  writer.raw(encodeUtf8('orbitkv-namespace'))
  writer.u32(NAMESPACE_VERSION)
  const tagged = [...plain].map(([tag, value]) => ({ tag: encodeUtf8(tag), value }))
  tagged.sort((a, b) => compareBytes(a.tag, b.tag))
  writer.u32(tagged.length)
  for (const { tag, value } of tagged) field(writer, tag, value)
  number(writer, 'page_first', geometry.pageFirst ? 1 : 0)
  writer.u32(geometry.groups.length)
  for (const { kind, blockTokens, windowTokens } of geometry.groups) {
    text(writer, 'kind', kind)
    number(writer, 'block_tokens', blockTokens)
    number(writer, 'window_tokens', windowTokens)
  }
  writer.u32(geometry.slots.length)
  for (const slot of geometry.slots) writeSlot(writer, slot)
  return writer.done()
}

function writeSlot(writer: ByteWriter, slot: NamespaceSlot): void {
  text(writer, 'layer', slot.layer)
  number(writer, 'group', slot.group)
  number(writer, 'tp_rank', slot.tpRank)
  number(writer, 'pp_rank', slot.ppRank)
  number(writer, 'segment_bytes', slot.segmentBytes)
  number(writer, 'padded_bytes', slot.paddedBytes)
  number(writer, 'split', slot.split ? 1 : 0)
  text(writer, 'dtype', slot.dtype)
  text(writer, 'kv_role', slot.kvRole)
  number(writer, 'head_dim', slot.headDim)
  number(writer, 'heads', slot.heads)
  text(writer, 'storage_format', slot.storageFormat)
}

function field(writer: ByteWriter, tag: Uint8Array, value: Uint8Array): void {
  writer.u32(tag.length)
  writer.raw(tag)
  writer.u32(value.length)
  writer.raw(value)
}

function text(writer: ByteWriter, tag: string, value: string): void {
  field(writer, encodeUtf8(tag), encodeUtf8(value))
}

/** A number below 2^53 as eight bytes. */
function number(writer: ByteWriter, tag: string, value: number): void {
  const bytes = new ByteWriter()
  bytes.u64(value)
  field(writer, encodeUtf8(tag), bytes.done())
}
