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

/** One write of one granule. */
export const WRITE = { doubles: 2, poolOffsetBytes: 0, bytes: 1 } as const

/**
 * One copy between a granule in the pool and one engine page, through a copy template (see CopyTemplate):
 * items `firstItem … firstItem + itemCount - 1` of the template's granule.
 */
export const COPY = {
  doubles: 6,
  template: 0,
  granule: 1,
  page: 2,
  poolOffsetBytes: 3,
  firstItem: 4,
  itemCount: 5,
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
 * that happen to agree only cost a batch.
 */
export const SOURCE = {
  doubles: 16,
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
} as const

/**
 * One granule of a block that goes from engine pages to the SSD by way of GPU staging, and to `poolOffsetBytes` as its
 * copy in DRAM. `object` numbers the block inside its job: its granules follow one another in the list and in the file.
 */
export const TARGET = {
  doubles: 9,
  template: 0,
  granule: 1,
  page: 2,
  poolOffsetBytes: 3,
  file: 4,
  fileOffsetBytes: 5,
  bytes: 6,
  object: 7,
  itemCount: 8,
} as const

/** Stands for "no offset" in a descriptor. */
export const NO_OFFSET = -1
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
