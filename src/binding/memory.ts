import type { DeviceName } from '../shared/base/device-name.js'

/** Memory of a peer, or lent by somebody of this process, that is mapped here. */
export interface MappingReport {
  readonly mapping: number
  readonly bytes: number
  /** Where the memory is: copies through it run on streams of this device only. */
  readonly device: DeviceName
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

/** Memory that copies reach, of the host or of a device, at the addon. Each piece is a mapping until its last holder lets go. */
export interface MemoryFunctions {
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
}
