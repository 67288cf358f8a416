/** Byte units are powers of two everywhere: in flags, logs and metrics. */
export const KIB = 1024
export const MIB = 1024 * KIB
export const GIB = 1024 * MIB
export const TIB = 1024 * GIB

/** Smallest length, offset and address unit of direct I/O that the project relies on. */
export const SECTOR_BYTES = 512
/** Alignment of every allocation in the pinned pool, and of extents that cuFile may touch. */
export const PAGE_BYTES = 4096
/** Largest granule: the unit of checksum, of pool allocation and of one read or write. */
export const GRANULE_BYTES_MAX = MIB

/** Rounds `bytes` up to a multiple of `alignment` (a positive integer; not limited to 32 bits). */
export function alignUp(bytes: number, alignment: number): number {
  return Math.ceil(bytes / alignment) * alignment
}

/** Rounds `bytes` down to a multiple of `alignment`. */
export function alignDown(bytes: number, alignment: number): number {
  return Math.floor(bytes / alignment) * alignment
}

/** True for an integer that JavaScript holds exactly and that can be an offset or a length. */
export function isOffset(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0
}
