/** float64 of one submission: [op + 256 * flags, tag, file, fileOffset, poolOffset, bytes, segmentBytes, segmentStride, crc32] padded to 10. */
export const SUBMISSION_DOUBLES = 10

export const SUBMIT_READ = 0

export const SUBMIT_WRITE = 1

/**
 * One write of several spans of the pool, one after the other in the file: poolOffset says how many, bytes is their sum.
 * Entry i has the WRITE descriptors from spans[i * WRITE_SPANS_MAX * WRITE.doubles] on (descriptors.ts). All are copied and
 * checked before any of it is done: inside the pool, of whole sectors of 512 bytes, aligned as the file wants; else -EINVAL.
 */
export const SUBMIT_WRITE_SPANS = 2

/** Flag: after a full read, check crc32 over the segments; a mismatch completes with -EBADMSG. */
export const SUBMIT_FLAG_VERIFY = 1
