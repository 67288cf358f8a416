import type { DeviceName } from '../shared/base/device-name.js'
import type { StreamOptions } from './streams.js'

/** What cuFile is asked to be. */
export interface CuFileOptions {
  /** Path of the library; empty: `libcufile.so.0` as the loader finds it. */
  readonly library: string
  /** Refuse compatibility mode, in which cuFile moves the bytes through host memory itself. */
  readonly nativeOnly: boolean
  /** Folder for the library's log; it would write to the working directory otherwise. */
  readonly logFolder: string
}

/** What came of opening cuFile. */
export interface CuFileReport {
  readonly available: boolean
  readonly reason:
    | 'ok'
    | 'no-library'
    | 'no-symbol'
    /** Before 1.14 native-only cannot be enforced. */
    | 'too-old'
    /** The driver was open before us, so its mode is not ours. */
    | 'already-open'
    /** /proc says that nvidia-fs has devices, but there is no node: a failing open would close descriptor 0. */
    | 'no-node'
    | 'parameter-refused'
    | 'open-failed'
    /** The driver opened but does not hold to what was asked. */
    | 'compatible'
    /** The driver lacks operations on streams. */
    | 'no-streams'
  /** cuFile status of the call that failed; 0 when none did. */
  readonly code: number
  /** 1000 * major + 10 * minor; 0 when unknown. */
  readonly version: number
  /** Where the library was found. */
  readonly path: string
  /** The driver is open and may answer by host staging: correctness evidence only, never of native GDS. */
  readonly compatible: boolean
}

/** The library and the files that it knows, at the addon. */
export interface CuFileFunctions {
  /** Opens cuFile for this process, on main, before lanes start. Idempotent once it is open. Never throws. */
  openCuFile(options: CuFileOptions): CuFileReport
  /** Registers a shard's descriptor with cuFile. Returns 0, -EBADF or minus a cuFile status. */
  registerCuFileShard(file: number): number
  /** Deregisters every shard and closes the driver; nothing of it may be in flight. Returns 0 or minus a cuFile status. */
  closeCuFile(): number
}

/** Staging slots, at a port: what cuFile reads into and writes from. closeStream() closes one. */
export interface StagingMethods {
  /**
   * Opens a staging slot: `bytes` of device memory registered with cuFile, and a stream of its own. To copy() and
   * checksum() on that stream the slot is the pool: their offsets count from its first byte. cuFile must be open. `options`
   * are those of openStream().
   * Returns the stream's number, -errno or minus a cuFile status.
   */
  openStaging(device: DeviceName, bytes: number, options?: StreamOptions): number
  /**
   * Queues a read of `bytes` of a registered file at `fileOffset` to the start of a slot, then `count` CHECKSUM
   * descriptors over it as checksum() does. Completes once, of kind `stream`, when the stream has passed all of it:
   * the bytes that cuFile read, -errno or minus a cuFile status. Checksums mean something only after a full read.
   * Returns 0, -errno or minus a cuFile status; after a refusal no completion follows and nothing is under way.
   */
  stagingRead(
    stream: number,
    tag: number,
    file: number,
    fileOffset: number,
    bytes: number,
    checks: Float64Array,
    offset: number,
    count: number,
    resultBase: number,
  ): number
  /**
   * Zeroes a slot from `zeroFrom` to `stagingOffset + bytes`, gathers `count` COPY descriptors from pages into it, then
   * writes `bytes` from `stagingOffset` to a registered file. Completes and refuses as stagingRead does.
   *
   * `codeCount` HELD_CODE triples at `codes[codeOffset]` are gathered as well, from what stream `holder` holds: each with
   * zeroes behind it up to the next multiple of 512. -EINVAL: one is not held, has another length or no place in the slot;
   * -EXDEV: it is held on another device; -EOPNOTSUPP: the slot is the host's.
   */
  stagingWrite(
    stream: number,
    tag: number,
    file: number,
    fileOffset: number,
    stagingOffset: number,
    bytes: number,
    zeroFrom: number,
    copies: Float64Array,
    offset: number,
    count: number,
    codes?: Float64Array,
    codeOffset?: number,
    codeCount?: number,
    holder?: number,
  ): number
}
