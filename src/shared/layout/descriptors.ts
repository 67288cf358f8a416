/**
 * Descriptors that travel in lists. Every field is a float64 holding a non-negative integer below 2^53; the addon
 * copies a list once, then checks it, then uses the copy.
 *
 * A **granule** is a run of whole segments of one (group, rank) up to 1 MiB, or a piece of at most 1 MiB of a larger
 * segment: the unit of checksum, of pool allocation, and of one read or write. All segments in one granule have one
 * size, so its bytes are described by (bytes, segmentBytes, segmentStride): bytes = count * segmentStride, the
 * checksum covers the first segmentBytes of every stride, the rest of a stride is zero padding.
 */

/**
 * One read of one granule. `index` names it inside its batch; it comes back in the completion. `crc32` is NO_CRC for
 * bytes that are not to be checked.
 */
export const READ = {
  doubles: 8,
  index: 0,
  file: 1,
  fileOffsetBytes: 2,
  poolOffsetBytes: 3,
  bytes: 4,
  segmentBytes: 5,
  segmentStrideBytes: 6,
  crc32: 7,
} as const

/** One write of one granule; or one span of a write that has several. */
export const WRITE = { doubles: 2, poolOffsetBytes: 0, bytes: 1 } as const

/** Spans of one write at most: 1 KiB of native memory a place, and 1 MiB when each has 16 KiB. */
export const WRITE_SPANS_MAX = 64

/**
 * One copy between a granule in the pool and one engine page, through a copy template (see CopyTemplate):
 * items `firstItem … firstItem + itemCount - 1` of the template's granule.
 *
 * `storedBytes` is 0 for bytes that are copied as they are. Above 0 the granule's one item is *coded* by its ITEM_CODING:
 * decoded from exactly that many bytes, or encoded into room of that many.
 */
export const COPY = {
  doubles: 7,
  template: 0,
  granule: 1,
  page: 2,
  poolOffsetBytes: 3,
  firstItem: 4,
  itemCount: 5,
  storedBytes: 6,
} as const

/** One checksum of one granule in the pool. */
export const CHECKSUM = {
  doubles: 4,
  poolOffsetBytes: 0,
  bytes: 1,
  segmentBytes: 2,
  segmentStrideBytes: 3,
} as const

/** One run of bytes between two mappings of one device. */
export const MOVE = {
  doubles: 5,
  target: 0,
  targetOffsetBytes: 1,
  source: 2,
  sourceOffsetBytes: 3,
  bytes: 4,
} as const

/** One checksum of bytes of a mapping in device memory, shaped as a granule is. */
export const MAPPED_CHECKSUM = {
  doubles: 5,
  mapping: 0,
  offsetBytes: 1,
  bytes: 2,
  segmentBytes: 3,
  segmentStrideBytes: 4,
} as const

/**
 * One source of a restore on the explicit SSD route. When `poolOffsetBytes` is not NO_OFFSET the granule is in DRAM
 * and only copied; otherwise it is read from `file` into the lane's window first. `generation` groups the granules
 * of one stored generation; `store` is the index of the host-reader lane that owns the file; `firstItem` and
 * `itemCount` are those of COPY. `pair` is the index of the block in the client's request: a failure is reported by it.
 * Several sources may name one stored granule (other pages, other items): it is read once. `key` is equal for equal
 * keys (48 bits of the key digest): two generations with one `key` never share a reader batch, and different keys
 * that happen to agree only cost a batch. `encoded` is 1 when the `segmentBytes` that are stored are an item's coding,
 * which is decoded into the page, and 0 when they are its bytes.
 */
export const SOURCE = {
  doubles: 17,
  template: 0,
  granule: 1,
  page: 2,
  poolOffsetBytes: 3,
  store: 4,
  file: 5,
  fileOffsetBytes: 6,
  bytes: 7,
  segmentBytes: 8,
  segmentStrideBytes: 9,
  crc32: 10,
  generation: 11,
  firstItem: 12,
  itemCount: 13,
  pair: 14,
  key: 15,
  encoded: 16,
} as const

/**
 * One granule of a block that goes from engine pages to the SSD by way of GPU staging, and to `poolOffsetBytes` as its
 * copy in DRAM. `object` numbers the block inside its job: its granules follow one another in the list and in the file.
 * `code` is NO_CODE for bytes that come from the page as they are; else what is written is a coding that the job has made
 * before and holds: the one of its coded descriptor `code`, counted from 0.
 */
export const TARGET = {
  doubles: 10,
  template: 0,
  granule: 1,
  page: 2,
  poolOffsetBytes: 3,
  file: 4,
  fileOffsetBytes: 5,
  bytes: 6,
  object: 7,
  itemCount: 8,
  code: 9,
} as const

/**
 * One coding that goes from where encodeHeld() left it to a staging slot: the place of its descriptor in that job, an
 * offset in the slot, a multiple of 512, and exactly its bytes.
 */
export const HELD_CODE = { doubles: 3, index: 0, slotOffsetBytes: 1, bytes: 2 } as const

/** Stands for "no offset" in a descriptor. */
export const NO_OFFSET = -1
/** Stands for "no coding" in a TARGET. */
export const NO_CODE = -1
/** Stands for "no checksum: do not verify" in a descriptor. */
export const NO_CRC = -1

/**
 * One item of a copy template granule: `bytes` bytes at `granuleOffsetBytes` in the granule belong to page p at
 * `baseBytes + p * pageStrideBytes` of the mapping. `segmentStrideBytes` - `bytes` zero bytes of padding follow in
 * the granule when the copy is device to host.
 */
export const TEMPLATE_ITEM = {
  doubles: 7,
  mapping: 0,
  baseBytes: 1,
  pageStrideBytes: 2,
  pageCount: 3,
  granuleOffsetBytes: 4,
  bytes: 5,
  paddedBytes: 6,
} as const

/**
 * How one item of a template is coded: `format` is an ITEM_FORMAT, `scalar` an ITEM_SCALAR, `role` an ITEM_ROLE. `bits`,
 * `headDim` and `seed` (below 2^32, of the rotation's signs) are TurboQuant's, else 0.
 */
export const ITEM_CODING = {
  doubles: 6,
  format: 0,
  scalar: 1,
  role: 2,
  bits: 3,
  headDim: 4,
  seed: 5,
} as const

export const ITEM_FORMAT = { raw: 0, fp8: 1, turboquant: 2, ans: 3 } as const
/** What the engine's bytes are; `bytes` is anything else. */
export const ITEM_SCALAR = { bytes: 0, bf16: 1, fp16: 2, e4m3: 3 } as const
/** Which vectors an item holds; `packed`: a key and its value, one after the other. */
export const ITEM_ROLE = { none: 0, k: 1, v: 2, packed: 3 } as const
