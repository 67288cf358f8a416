/** float64 of one submission: [op + 256 * flags, tag, file, fileOffset, poolOffset, bytes, segmentBytes, segmentStride, crc32] padded to 10. */
export const SUBMISSION_DOUBLES = 10

export const SUBMIT_READ = 0

export const SUBMIT_WRITE = 1

/** Flag: after a full read, check crc32 over the segments; a mismatch completes with -EBADMSG. */
export const SUBMIT_FLAG_VERIFY = 1
