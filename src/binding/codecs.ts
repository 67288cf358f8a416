/** What codecWorkspace() reports, by place: bytes lent to jobs, bytes held on the device, allocations since the start. */
export const CODEC_WORKSPACE = { doubles: 3, reservedBytes: 0, heldBytes: 1, allocations: 2 } as const

/** A stream's codings, at a port. */
export interface CodecMethods {
  /** Fills `into` with what CODEC_WORKSPACE names of a stream's codec: zeroes where it has none. */
  codecWorkspace(stream: number, into: Float64Array): void
  /**
   * Gives back what a stream's codec holds: the next coding gets memory of its own anew. 0, also where it has none; -EBUSY
   * while a coding is in flight or held: then nothing was given back. Never waits for one.
   */
  releaseCodecWorkspace(stream: number): number
  /**
   * Queues codings from pages to the pool: COPY descriptors of one item each with `storedBytes` of room, a multiple of 512
   * (descriptors.ts). Descriptor i writes two results from results[resultBase + 2 * i]: the bytes that are stored and
   * their CRC32. Fewer than the item's: its coding, zeroes up to the next multiple of 512 behind it. As many as the item's: the item
   * itself, where there was room. 0: neither fits or may be kept, and the room holds nothing of worth. An item whose
   * coding saves less than an eighth counts as one that has none. As copy().
   */
  encode(stream: number, tag: number, list: Float64Array, offset: number, count: number, resultBase: number): number
  /**
   * encode(), whose codings also stay where the device made them until releaseCodes(), for stagingWrite(). They have to fit
   * there together: -E2BIG, when they do not or the processor would make some; then nothing was done. Until the
   * release encode() and encodeHeld() of this stream are -EBUSY. After a completion below 0 nothing is held.
   * -EOPNOTSUPP: this stream has no workspace (the host, a staging slot).
   */
  encodeHeld(stream: number, tag: number, list: Float64Array, offset: number, count: number, resultBase: number): number
  /** Lets go of what a stream holds. 0; -EBUSY: it is not made yet, or a write still reads it; -EINVAL: it holds nothing. */
  releaseCodes(stream: number): number
  /**
   * The other direction, from the `storedBytes` that encode() reported for a coding (raw items go by copy()). Result i is
   * 0, or 1: these bytes are no coding, and the page holds nothing of worth. On the stream of a staging slot the slot is the pool.
   * A job that the codec's workspace has no room for completes with -ENOMEM, and its bytes may be as good as ever.
   */
  decode(stream: number, tag: number, list: Float64Array, offset: number, count: number, resultBase: number): number
}

/** How FP8 is converted: `avx512` needs AVX-512 F and BW, `avx512vbmi` VBMI too; `auto` is the widest of this processor. */
export type Fp8Variant = 'auto' | 'portable' | 'avx2' | 'avx512' | 'avx512vbmi'

/** How TurboQuant is computed: `avx512` needs AVX-512 F, BW, DQ and VL; `auto` is the widest of this processor. */
export type TurboquantVariant = 'auto' | 'portable' | 'avx2' | 'avx512'

/** Codings on the processor, at the addon: every variant, for tests and benches. */
export interface CodecFunctions {
  /**
   * Encodes 16-bit values as FP8 E4M3FN, rounding to nearest, ties to even: `codes` has half the bytes of `values`.
   * False when a value is not finite or outside [-448, 448]: then `codes` means nothing. All variants give the same
   * bytes; throws EOPNOTSUPP for one that this processor lacks, EINVAL for other shapes.
   */
  fp8Encode(values: Uint8Array, codes: Uint8Array, source: 'bf16' | 'fp16', variant: Fp8Variant): boolean
  /** The other direction, exact. False when a code is NaN, which no encoder writes: then `values` means nothing. */
  fp8Decode(codes: Uint8Array, values: Uint8Array, source: 'bf16' | 'fp16', variant: Fp8Variant): boolean
  /** The variants of this processor, narrowest first. */
  fp8Variants(): string[]
  /**
   * Encodes whole vectors of an ITEM_CODING of format turboquant; `stored` has exactly the bytes that they take. False when
   * a vector cannot be coded (a value, range or norm is not finite or leaves FP16's range): then `stored` means nothing. All
   * variants give the same bytes; throws EOPNOTSUPP for one that this processor lacks, TypeError for other shapes.
   */
  turboquantEncode(values: Uint8Array, stored: Uint8Array, coding: Float64Array, variant: TurboquantVariant): boolean
  /** The other direction. False when a norm, scale or minimum is not finite, which no encoder writes. */
  turboquantDecode(stored: Uint8Array, values: Uint8Array, coding: Float64Array, variant: TurboquantVariant): boolean
  /** The variants of this processor, narrowest first. */
  turboquantVariants(): string[]
}

/** Whether nvCOMP's batched ANS can be used. */
export interface NvcompReport {
  readonly available: boolean
  readonly reason: 'ok' | 'no-library' | 'no-symbol' | 'wrong-version'
  /** 1000 * major + 100 * minor + patch; 0 when unknown. */
  readonly version: number
  /** Where the library was found, or every path that was tried. */
  readonly path: string
}

/** nvCOMP, at the addon. */
export interface NvcompFunctions {
  /**
   * Opens nvCOMP 5.3 (other versions have another ABI or other streams: refused), on main, before lanes start. `library`:
   * its path, or empty for `libnvcomp.so.5` as the loader finds it. Idempotent once it is open. Never throws.
   */
  openNvcomp(library: string): NvcompReport
}
