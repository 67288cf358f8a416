/**
 * The typed face of native/: same names, same order as native/addon/surface.cc. Mechanical: it validates shapes that
 * memory safety needs and decides nothing. `null` means none; `undefined` here is always a bug. Offsets and lengths
 * are numbers below 2^53. Calls on the data path return a number (count, or -errno) and never throw; calls that open
 * things throw an Error with `code` ('EPERM', ...) and `errno`, which errors.ts turns into our classes.
 *
 * Process-wide things are named by small integers from one native registry: pools, files, mappings, templates, slot
 * tables, ports. They outlive the worker that made them until every operation that names them has completed.
 */

/** Why io_uring cannot be used, or what it offers. */
export interface Probe {
  readonly available: boolean
  /** errno of the attempt, 0 when available. */
  readonly errno: number
  readonly reason: 'ok' | 'seccomp' | 'sysctl' | 'kernel' | 'memlock' | 'fdlimit' | 'unknown'
  readonly kernel: string
  /** Setup flags of the best rung of the ladder that this kernel takes. */
  readonly setupFlags: number
  readonly memlockBytes: number
}

/** The pinned pool: anonymous, 2 MiB aligned, populated, not inherited by children, left out of core dumps. */
export interface PoolReport {
  readonly pool: number
  readonly bytes: number
  /** What the kernel gave, read back from smaps: bytes in huge pages. */
  readonly hugePageBytes: number
  readonly populateMs: number
}

/** One opened shard file. */
export interface ShardReport {
  readonly file: number
  readonly bytes: number
  /** Memory and offset alignment of direct I/O from statx, 0 when the filesystem does not say. */
  readonly directMemoryAlign: number
  readonly directOffsetAlign: number
  /** st_dev of the file, major:minor as text. */
  readonly device: string
  /** Filesystem magic as a number. */
  readonly filesystem: number
}

/** Memory of a peer, or lent by somebody of this process, that is mapped here. */
export interface MappingReport {
  readonly mapping: number
  readonly bytes: number
  /** Where the memory is: copies through it run on streams of this device only. */
  readonly device: DeviceName
}

/** A CUDA device of this host, as its driver names it. */
export interface CudaDevice {
  /** The N of openStream('cuda:N'): the driver's order in this process. */
  readonly ordinal: number
  /** `GPU-` and 36 characters, lower case. */
  readonly uuid: string
  readonly name: string
  /** Compute capability, major * 10 + minor: 90 for 9.0. */
  readonly architecture: number
  readonly multiprocessors: number
  readonly memoryBytes: number
  /** The sticky error that ended this device for this process, or null. */
  readonly failure: string | null
}

/** Whether the CUDA driver can be used, and what it offers. Both libraries are opened at run time and never linked. */
export interface CudaProbe {
  readonly available: boolean
  /** Why not, with every path that was tried; empty when available. */
  readonly reason: string
  /** What was opened; empty when nothing was. */
  readonly library: string
  /** As the driver counts: 13000 is 13.0. */
  readonly driverVersion: number
  readonly devices: readonly CudaDevice[]
  /** The run-time compiler: without it there are no kernels, and every copy goes by the copy engine. */
  readonly compiler: {
    readonly available: boolean
    readonly reason: string
    readonly library: string
    /** major * 1000 + minor * 10, as the driver counts. */
    readonly version: number
  }
}

export interface KernelReport {
  readonly name: string
  readonly bytes: number
  /** It was compiled before, with this source, these options, this compiler, for this architecture. */
  readonly cached: boolean
}

/** Device memory as an engine of another process exports it: what importDeviceMemory() takes. */
export interface DeviceExport {
  readonly uuid: string
  /** The 64 bytes of a CUipcMemHandle: it names the whole allocation. */
  readonly handle: Uint8Array
  /** Where the mapping starts in that allocation. */
  readonly offsetBytes: number
  readonly bytes: number
}

/** How a stream of a CUDA device carries copies; `auto` looks each job's shape up in a measured table. */
export type Transfer = 'auto' | 'direct' | 'kernel'

/** What openStream() may be told about a CUDA device's stream; everything has a measured default. */
export interface StreamOptions {
  readonly transfer?: Transfer
  /** Blocks of one copy kernel, 1 to 1024. */
  readonly blocks?: number
  /** Bytes that one warp of a copy kernel moves at a time: 512 to 2^20. */
  readonly tileBytes?: number
  /** Measure the device's time of each job by events: word 2 of its completion then has it in nanoseconds. */
  readonly timed?: boolean
  /** The kernel that moves inside a device; for measuring. */
  readonly gather?: Gather
  /** Where that kernel finds its descriptors; for measuring. */
  readonly descriptors?: Descriptors
  /** Where nvCOMP finds the arrays of a batch; for measuring. */
  readonly ansArrays?: AnsArrays
  /** Device memory that encode() may hold, and decode() as much again; 64 MiB by default, 0 for none. */
  readonly codecBudgetBytes?: number
}

/** By rounds of a block that fetches descriptors for all its warps (default), or each warp by itself. */
export type Gather = 'rounds' | 'warps'

/** In pinned memory of the host (default), or brought to the device by a stream beside the kernel's. */
export type Descriptors = 'mapped' | 'fed'

/**
 * In pinned memory of the host; copied to the device and what nvCOMP says copied back; or only copied to the device, what it
 * says goes to pinned memory. Without the option encoding is fed, and decoding split.
 */
export type AnsArrays = 'mapped' | 'fed' | 'split'

export interface StreamReport {
  readonly device: string
  readonly transfer: Transfer
  /** Whether kernels are loaded; a stream without them copies by the copy engine alone. */
  readonly kernels: boolean
  /** Why there are no kernels; empty when there are, and for the host. */
  readonly kernelsReason: string
  /** Whether the port's pool is registered with the driver (then copies are asynchronous and kernels reach it). */
  readonly poolRegistered: boolean
  readonly poolRegisterMs: number
  /** Jobs that went each way. */
  readonly directJobs: number
  readonly kernelJobs: number
}

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

/** The two sealed memfds of a session's completion slots. */
export interface SlotTableReport {
  readonly slots: number
  /** Descriptor of the client's words: the client writes, we read. */
  readonly clientFd: number
  /** Descriptor of the manager's words: read-only for the client (future writes sealed). */
  readonly managerFd: number
  /** Descriptor of the eventfd that hints at completions. */
  readonly eventFd: number
}

export interface PeerReport {
  readonly uid: number
  readonly pid: number
}

/** Completion kinds in word 3 of a completion: who reports. */
export const COMPLETION = {
  /** A read or write: result = bytes or -errno; aux = 0. -EBADMSG: the checksum differs. */
  io: 0,
  /**
   * A stream job of copies or checksums: result 0 or -errno (-EIO: the device refused this job; -ENODEV: the device is
   * lost for this process, see cudaProbe). aux: nanoseconds on the device of a timed stream, else 0.
   */
  stream: 1,
  /** A listener accepted: tag = listener, result = connection or -errno; aux = 0, or -errno: the peer's end is not seen. */
  accepted: 2,
  /** A whole frame waits: tag = connection, result = bytes of the frame without its length word. */
  frame: 3,
  /**
   * The stream ended: tag = connection, result = 0 (peer closed) or -errno (-EMSGSIZE: no such frame, -ECONNRESET:
   * inside a frame). The peer's process may live on: it is watched until closeConnection().
   */
  closed: 4,
  /** The peer process of a connection ended (pidfd): tag = connection. */
  peerExited: 5,
} as const

/** int32 words of one completion: [tag, result, aux, kind]. */
export const COMPLETION_WORDS = 4

/** float64 of one submission: [op + 256 * flags, tag, file, fileOffset, poolOffset, bytes, segmentBytes, segmentStride, crc32] padded to 10. */
export const SUBMISSION_DOUBLES = 10

export const SUBMIT_READ = 0
export const SUBMIT_WRITE = 1
/** Flag: after a full read, check crc32 over the segments; a mismatch completes with -EBADMSG. */
export const SUBMIT_FLAG_VERIFY = 1

export interface PortOptions {
  /** Submission entries in `submissions`; also the ring's depth. A power of two. */
  readonly depth: number
  /** SUBMISSION_DOUBLES float64 per entry, over a SharedArrayBuffer. */
  readonly submissions: Float64Array
  /** COMPLETION_WORDS int32 per entry, over a SharedArrayBuffer; a power of two of entries, at least 2 * depth. */
  readonly completions: Int32Array
  /** Where checksum jobs write their results, one uint32 a granule. */
  readonly results: Uint32Array
  /** This actor's park word (RUN 0, PARKED_JS 1, PARKED_NATIVE 2): int32 view whose element 0 is the word. */
  readonly parkWord: Int32Array
  /** The pool that offsets refer to, or -1. */
  readonly pool: number
  /** `uring`, or `posix` for hosts that forbid io_uring (threads with pread and pwrite, epoll to sleep). */
  readonly io: 'uring' | 'posix'
  /** Try to register the pool and files with the ring. What was got is in `Port.report()`. */
  readonly register: boolean
}

/** What codecWorkspace() reports, by place: bytes lent to jobs, bytes held on the device, allocations since the start. */
export const CODEC_WORKSPACE = { doubles: 3, reservedBytes: 0, heldBytes: 1, allocations: 2 } as const

/** Whether nvCOMP's batched ANS can be used. */
export interface NvcompReport {
  readonly available: boolean
  readonly reason: 'ok' | 'no-library' | 'no-symbol' | 'wrong-version'
  /** 1000 * major + 100 * minor + patch; 0 when unknown. */
  readonly version: number
  /** Where the library was found, or every path that was tried. */
  readonly path: string
}

export interface PortReport {
  readonly io: 'uring' | 'posix'
  readonly setupFlags: number
  readonly registeredBuffers: boolean
  readonly registeredFiles: boolean
}

/** Where a stream works: engine pages in shared memory, or a CUDA device by its ordinal. */
export type DeviceName = 'host' | `cuda:${number}`

/** An actor's place to submit, reap and sleep. Owned by the thread that opened it; only that thread calls it. */
export interface Port {
  /** Process-wide number of this port, for wake(). */
  readonly id: number
  report(): PortReport
  /**
   * Submits `count` entries from the start of `submissions`, reaps what is complete and writes completions from the
   * start of `completions`. Waits for `minComplete` completions at most `timeoutUs` microseconds (0: do not wait).
   * Returns the number of completions written, or -errno. At most `depth` reads and writes may be in flight: more
   * complete with -EBUSY. Waits are capped as in park().
   */
  pump(count: number, minComplete: number, timeoutUs: number): number
  /**
   * Sleeps until something native completes, the eventfd is written or `timeoutUs` passes (capped at 100,000), but
   * only while the park word is PARKED_NATIVE; then reaps as pump(0, 0, 0) does. Returns completions or -errno.
   * A loop over park() must call some JavaScript function each turn: V8 looks for terminate() at function entry, and in
   * a bare loop over native calls only after dozens of turns.
   */
  park(timeoutUs: number): number
  /** Reads and writes submitted and not reaped. */
  inFlight(): number
  /**
   * Opens a device stream owned by this port; `options` is for CUDA devices. The first stream of a CUDA device makes its
   * primary context, registers the port's pool with the driver and loads the kernels: tenths of a second, so open
   * streams while starting. Throws ENODEV with the reason when there is no such device or it is lost, ENOMEM when the
   * driver takes no more.
   */
  openStream(device: DeviceName, options?: StreamOptions): number
  streamReport(stream: number): StreamReport
  /** Fills `into` with what CODEC_WORKSPACE names of a stream's codec: zeroes where it has none. */
  codecWorkspace(stream: number, into: Float64Array): void
  /**
   * Queues copies on a stream: `count` COPY descriptors at `list[offset]`. direction 0 = pool to pages (H2D),
   * 1 = pages to pool (D2H). Small jobs on an idle stream may run inside the call. Completes once with `tag`.
   * Returns 0 or -errno (-EINVAL: a bad descriptor, -EAGAIN: 4096 jobs in flight; nothing was copied, no completion
   * follows). Jobs of a stream complete in order; -ECANCELED when the port closed before the job started.
   */
  copy(stream: number, tag: number, direction: 0 | 1, list: Float64Array, offset: number, count: number): number
  /**
   * Queues codings from pages to the pool: COPY descriptors of one item each with `storedBytes` of room, a multiple of 512
   * (descriptors.ts). Descriptor i writes two results from results[resultBase + 2 * i]: the bytes that are stored and
   * their CRC32. Fewer than the item's: its coding, zeroes up to the next multiple of 512 behind it. As many as the item's: the item
   * itself, where there was room. 0: neither fits or may be kept, and the room holds nothing of worth. An item whose
   * coding saves less than an eighth counts as one that has none. As copy().
   */
  encode(stream: number, tag: number, list: Float64Array, offset: number, count: number, resultBase: number): number
  /**
   * The other direction, from the `storedBytes` that encode() reported for a coding (raw items go by copy()). Result i is
   * 0, or 1: these bytes are no coding, and the page holds nothing of worth. On the stream of a staging slot the slot is the pool.
   * A job that the codec's workspace has no room for completes with -ENOMEM, and its bytes may be as good as ever.
   */
  decode(stream: number, tag: number, list: Float64Array, offset: number, count: number, resultBase: number): number
  /** Queues `count` CHECKSUM descriptors; result i goes to results[resultBase + i]. Completes once with `tag`. */
  checksum(stream: number, tag: number, list: Float64Array, offset: number, count: number, resultBase: number): number
  /**
   * Queues `count` MOVE descriptors at `list[offset]`: device memory to device memory of the stream's device, by one
   * kernel (or, without kernels, one copy each). As copy(). Runs of one job must not overlap.
   */
  move(stream: number, tag: number, list: Float64Array, offset: number, count: number): number
  /** Queues `count` MAPPED_CHECKSUM descriptors over memory of the stream's device; by a kernel. As checksum(). */
  checksumMapped(
    stream: number,
    tag: number,
    list: Float64Array,
    offset: number,
    count: number,
    resultBase: number,
  ): number
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
  ): number
  /**
   * Closes a stream with nothing in flight; a staging slot's buffer and stream are deregistered first. Returns 0,
   * -EBUSY (something is in flight), -EINVAL, or minus the cuFile status of a deregistration that failed: then the
   * driver may still use the memory, and the process must end.
   */
  closeStream(stream: number): number
  /** Sockets: binds, listens (mode 0600), accepts; completions carry `accepted`. Returns the listener number. Throws. */
  listen(path: string): number
  closeListener(listener: number): void
  /**
   * Connects to a listener; the connection then behaves as an accepted one (frames, descriptors, `closed`,
   * `peerExited` through the peer's pidfd). The caller checks peer(). Throws ENOENT, ECONNREFUSED, EACCES, EAGAIN.
   */
  connect(path: string): number
  /**
   * Takes over a connected UNIX stream socket, which the port closes, also when it throws (EBADF, ENOTSOCK, EPROTOTYPE,
   * ENOTCONN, EMFILE). The connection then behaves as an accepted one.
   */
  adopt(fd: number): number
  /** Credentials of a connection's peer. */
  peer(connection: number): PeerReport
  /** Copies the waiting frame (without its length word) into `target`; returns its bytes or -errno. */
  takeFrame(connection: number, target: Uint8Array): number
  /** Descriptors that came with the frame just taken, in order; they are the caller's now. */
  takeFds(connection: number): number[]
  /** Queues one frame (length word added) with descriptors (duplicated). -EAGAIN: the peer does not read (over 4 MiB queued). */
  send(connection: number, frame: Uint8Array, bytes: number, fds: readonly number[]): number
  /** Frees the number, also after `closed`. No completion follows, but one already reaped may name it. Idempotent. */
  closeConnection(connection: number): void
  /** Waits at most `maxMs` for what is in flight; what remains is quarantined. Returns what is still in flight. */
  drain(maxMs: number): number
  /** Drains, then closes the ring. Idempotent. */
  close(): void
}

/** How FP8 is converted: `avx512` needs AVX-512 F and BW, `avx512vbmi` VBMI too; `auto` is the widest of this processor. */
export type Fp8Variant = 'auto' | 'portable' | 'avx2' | 'avx512' | 'avx512vbmi'

/** How TurboQuant is computed: `avx512` needs AVX-512 F, BW, DQ and VL; `auto` is the widest of this processor. */
export type TurboquantVariant = 'auto' | 'portable' | 'avx2' | 'avx512'

/** Everything native. One object per thread; the registry behind it is one per process. */
export interface Native {
  probe(): Probe

  /**
   * Refuses (ENOMEM) when `bytes` is above what the cgroup limit or available memory allows; the message has both.
   * `pages`: `huge` by default; `ordinary` (4 KiB) is for benches, which compare on equal memory.
   */
  openPool(bytes: number, pages?: 'huge' | 'ordinary'): PoolReport
  closePool(pool: number): void
  /** Test and demo only: an external view of pool bytes for this thread. */
  poolView(pool: number, offset: number, bytes: number): Uint8Array

  /**
   * Creates a new inode beside `path` (random name, O_CREAT|O_EXCL|O_RDWR|O_DIRECT, 0600, no symlink in any
   * component), sizes it sparse, marks it as ours, and renames it over `path`, which must be absent or marked as ours.
   */
  openShard(path: string, bytes: number, direct: boolean): ShardReport
  /** Opens cuFile for this process, on main, before lanes start. Idempotent once it is open. Never throws. */
  openCuFile(options: CuFileOptions): CuFileReport
  /** Registers a shard's descriptor with cuFile. Returns 0, -EBADF or minus a cuFile status. */
  registerCuFileShard(file: number): number
  /** Deregisters every shard and closes the driver; nothing of it may be in flight. Returns 0 or minus a cuFile status. */
  closeCuFile(): number
  /** Allocates a shard's whole length on the disk. Returns 0 or -errno; after an error the file is cut to nothing. */
  reserveShard(file: number): number
  /** Takes the advisory lock `path`; returns a lock number. Throws EWOULDBLOCK when another process holds it. */
  lockPath(path: string): number
  unlockPath(lock: number): void
  /** Closes when nothing in flight names it. */
  closeShard(file: number): void

  /** memfd of `bytes`, sealed against shrink, grow and further seals; returns a descriptor. */
  createMemory(bytes: number): number
  /** Maps a descriptor that a peer passed; refuses (EPERM) what is not a memfd sealed against shrink and grow. */
  importMemory(fd: number): MappingReport
  /**
   * Makes bytes of a SharedArrayBuffer a mapping. This thread keeps the buffer in place until the mapping is released
   * and nothing queued or running names it; when the thread ends first, the mapping is revoked and copies are awaited.
   */
  shareBuffer(bytes: Uint8Array): MappingReport
  /** Another number for a mapping, released by itself. Throws ENOENT. */
  borrowMapping(mapping: number): MappingReport
  /** What the CUDA driver offers here. Loads it at the first call; cheap afterwards. Never throws. */
  cudaProbe(): CudaProbe
  /**
   * Compiles every kernel for an architecture (90 for 9.0), or takes it from the cache; needs the compiler and no
   * device. Throws ENODEV without a compiler, EINVAL with its log.
   */
  compileKernels(architecture: number): KernelReport[]
  /**
   * Maps device memory that another process exported by raw CUDA IPC: `bytes` bytes at `offsetBytes` of the allocation
   * that the 64-byte `handle` names, on the device with this UUID. Held like any mapping, and closed when its last
   * holder lets go. Throws ENODEV (no such device, device lost), EINVAL (not inside the allocation; not a handle),
   * EXDEV (a handle of this very process), EOPNOTSUPP (memory that cannot be exported this way: the message names
   * PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False), ENOMEM.
   */
  importDeviceMemory(uuid: string, handle: Uint8Array, offsetBytes: number, bytes: number): MappingReport
  /**
   * Makes device memory of this process a mapping, for embedded use: the owner keeps it allocated until the mapping has
   * ended. Throws as importDeviceMemory, and EINVAL for an address that is no device memory of this device.
   */
  adoptDeviceMemory(uuid: string, address: number, bytes: number): MappingReport
  /** Allocates device memory of our own as a mapping; freed when its last holder lets go. Throws ENODEV, ENOMEM. */
  allocateDeviceMemory(uuid: string, bytes: number): MappingReport
  /** What another process needs to import a mapping of device memory of this process. Throws EOPNOTSUPP, ENOENT. */
  exportDeviceMemory(mapping: number): DeviceExport
  /**
   * Reads or writes bytes of a mapping through its device and waits: for the canary of a registration and for tests,
   * never on a data path. Throws ENOENT, EINVAL (outside the mapping), EIO, ENODEV (device lost).
   */
  readMapping(mapping: number, offset: number, into: Uint8Array): void
  writeMapping(mapping: number, offset: number, from: Uint8Array): void
  /** Test, demo and embedded use: an external view of a mapping for this thread. Throws EOPNOTSUPP for device memory. */
  mappingView(mapping: number, offset: number, bytes: number): Uint8Array
  /**
   * Marks for release: retires the templates that name it; the memory is unmapped when no queued or running copy and
   * no view names it.
   */
  releaseMapping(mapping: number): void
  /** Mappings still held by anybody, released or not, each once: for gauges and tests. */
  mappingsAlive(): number
  /**
   * Defines a copy template: `granuleFirstItem[g] … granuleFirstItem[g + 1] - 1` are the TEMPLATE_ITEM indices of
   * granule g. Every item is checked against its mapping for every page. `codings`: one ITEM_CODING an item; none: all are
   * raw. Throws EINVAL with the item's number, also for a coding that its bytes cannot have.
   */
  defineTemplate(items: Float64Array, granuleFirstItem: Float64Array, codings?: Float64Array): number
  releaseTemplate(template: number): void

  /** The three descriptors are the caller's: send them, then close them. At most 65,536 slots. */
  createSlots(count: number): SlotTableReport
  /** The client's word of a slot: generation * 65536 + state, acquire load; -1 when it is 2^53 or more (a broken client). */
  slotClientWord(slots: number, index: number): number
  /** The client's fence word of a slot (acquire load); -1 when it is 2^53 or more. */
  slotFence(slots: number, index: number): number
  /** Our own word of a slot (acquire load), whichever thread wrote it; 0 before the first. */
  slotManagerWord(slots: number, index: number): number
  /**
   * Moves the manager's word of a slot to (generation, state) with a release store; payload words are untouched.
   * Throws EOVERFLOW for a generation of 2^37 or more, ENOENT for no such slot; so does slotFinish.
   */
  slotState(slots: number, index: number, generation: number, state: number): void
  /** Writes payload (with the client's op id) and CRC, then the word with a release store, then the eventfd. Terminal states only. */
  slotFinish(
    slots: number,
    index: number,
    generation: number,
    state: number,
    errorCode: number,
    firstFailed: number,
    bytes: number,
    admitUs: number,
    doneUs: number,
  ): void
  releaseSlots(slots: number): void

  /**
   * The client's side of a slot table: maps the client's words read-write and the manager's words read-only, after
   * checking that both are memfds sealed against shrink and grow and hold `count` lines (throws EPERM, EINVAL).
   * The descriptors stay the caller's. Returns a number of its own kind for the four calls below.
   */
  openSlots(clientFd: number, managerFd: number, count: number): number
  /** Writes op id and fence of a line, then the word (generation, SUBMITTED) with a release store. */
  slotSubmit(slots: number, index: number, generation: number, opId: number, fence: number): void
  /** Raises the fence word of a line with a release store: pages may be touched from `fence` on. */
  slotRaiseFence(slots: number, index: number, fence: number): void
  /** Sets the client's word of a line to (generation, FREE) with a release store. */
  slotFree(slots: number, index: number, generation: number): void
  /**
   * Acquire-loads the manager's word. A terminal one: copies the line, re-reads the word and checks the CRC, a few
   * times over; then fills `result` with [opId, errorCode, firstFailed, bytes, admitUs, doneUs, layers] and returns
   * the word. Otherwise returns the word and leaves `result` alone. -EAGAIN: word and payload did not agree.
   */
  slotPoll(slots: number, index: number, result: Float64Array): number
  closeSlots(slots: number): void

  /**
   * CRC32 (IEEE) of bytes, continuing from `crc` (0 to start). `vpclmul` needs AVX2, `vpclmul512` AVX-512. `auto` is
   * the widest of this processor; throws EOPNOTSUPP for one that it lacks.
   */
  crc32(bytes: Uint8Array, crc: number, variant: 'auto' | 'portable' | 'pclmul' | 'vpclmul' | 'vpclmul512'): number
  /** The variants of this processor, narrowest first. */
  crc32Variants(): string[]

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

  /**
   * Opens nvCOMP 5.3 (other versions have another ABI or other streams: refused), on main, before lanes start. `library`:
   * its path, or empty for `libnvcomp.so.5` as the loader finds it. Idempotent once it is open. Never throws.
   */
  openNvcomp(library: string): NvcompReport

  /** Two connected UNIX stream sockets, for adopt(); each sees this process as its peer. The descriptors are the caller's. */
  socketPair(): [number, number]
  openPort(options: PortOptions): Port
  /** Wakes a port that is parked natively, from any thread. */
  wake(port: number): void
  /** Wakes every open port: for the exit handler of the main thread. */
  wakeAll(): void
  /** Drains and closes everything of this process at most `maxMs`: for the exit handler of the main thread. */
  shutdown(maxMs: number): void

  closeFd(fd: number): void
  /** CLOCK_MONOTONIC in microseconds, with a fraction. Slots carry it as nanoseconds. */
  monotonicUs(): number
}
