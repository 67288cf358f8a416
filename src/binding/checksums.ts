/** CRC32 on the processor, at the addon. */
export interface ChecksumFunctions {
  /**
   * CRC32 (IEEE) of bytes, continuing from `crc` (0 to start). `vpclmul` needs AVX2, `vpclmul512` AVX-512. `auto` is
   * the widest of this processor; throws EOPNOTSUPP for one that it lacks.
   */
  crc32(bytes: Uint8Array, crc: number, variant: 'auto' | 'portable' | 'pclmul' | 'vpclmul' | 'vpclmul512'): number
  /** The variants of this processor, narrowest first. */
  crc32Variants(): string[]
}
