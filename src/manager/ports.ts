import type { DeviceName } from '../shared/base/device-name.js'

/** A session's completion slots: our number for them and the descriptors that go to the client. */
export interface SlotTable {
  readonly slots: number
  readonly clientFd: number
  readonly managerFd: number
  readonly eventFd: number
}

/** Engine memory as it is mapped here. */
export interface MappedMemory {
  readonly mapping: number
  /** What is really there. */
  readonly bytes: number
  readonly device: DeviceName
}

/**
 * What the Manager's machine asks of the world on the control path and needs an answer to at once. Each call is
 * deterministic for the machine: the loop binds it to the addon, the simulator to plain memory.
 */
export interface ManagerPorts {
  /** SHA-256 of bytes, 32 bytes. */
  sha256(bytes: Uint8Array): Uint8Array
  /** Maps a descriptor; null when it is not a memfd sealed against shrink and grow. The descriptor stays ours. */
  importMemory(fd: number): MappedMemory | null
  /** Another number for memory that is mapped in this process; null when there is none of that number. */
  borrowMapping(mapping: number): MappedMemory | null
  /**
   * Maps device memory that another process exported: `bytes` of its allocation from `offsetBytes`. `refused` says why
   * not: EINVAL (the bytes are not in the allocation, or it is no handle), EXDEV (a handle of this process), EOPNOTSUPP
   * (memory that has no such handle), ENODEV, ENOMEM; `text` is the driver's.
   */
  importDeviceMemory(
    uuid: string,
    handle: Uint8Array,
    offsetBytes: number,
    bytes: number,
  ): MappedMemory | { readonly refused: string; readonly text: string }
  releaseMapping(mapping: number): void
  /** Copies bytes out of a mapping, wherever it lies; null when its device cannot read them. Canaries only. */
  readMapping(mapping: number, offsetBytes: number, bytes: number): Uint8Array | null
  /** Defines a copy template, with an ITEM_CODING an item when some are coded; null when an item does not fit its mapping. */
  defineTemplate(items: Float64Array, granuleFirstItem: Float64Array, codings: Float64Array | undefined): number | null
  releaseTemplate(template: number): void
  /** Null when descriptors or memory are exhausted. */
  createSlots(count: number): SlotTable | null
  /** Our word of a slot: a lane that finishes an operation writes it before its reply reaches us. */
  slotWord(slots: number, slot: number): number
  releaseSlots(slots: number): void
  closeFd(fd: number): void
}
