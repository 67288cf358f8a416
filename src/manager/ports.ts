/** A session's completion slots: our number for them and the descriptors that go to the client. */
export interface SlotTable {
  readonly slots: number
  readonly clientFd: number
  readonly managerFd: number
  readonly eventFd: number
}

/**
 * What the Manager's machine asks of the world on the control path and needs an answer to at once. Each call is
 * deterministic for the machine: the loop binds it to the addon, the simulator to plain memory.
 */
export interface ManagerPorts {
  /** SHA-256 of bytes, 32 bytes. */
  sha256(bytes: Uint8Array): Uint8Array
  /** Maps a descriptor; null when it is not a memfd sealed against shrink and grow. The descriptor stays ours. */
  importMemory(fd: number): { readonly mapping: number; readonly bytes: number } | null
  /** Another number for memory that is mapped in this process; null when there is none of that number. */
  borrowMapping(mapping: number): { readonly mapping: number; readonly bytes: number } | null
  releaseMapping(mapping: number): void
  /** Copies bytes out of a mapping: canaries only. */
  readMapping(mapping: number, offsetBytes: number, bytes: number): Uint8Array
  /** Defines a copy template; null when an item does not fit its mapping. */
  defineTemplate(items: Float64Array, granuleFirstItem: Float64Array): number | null
  releaseTemplate(template: number): void
  /** Null when descriptors or memory are exhausted. */
  createSlots(count: number): SlotTable | null
  /** Our word of a slot: a lane that finishes an operation writes it before its reply reaches us. */
  slotWord(slots: number, slot: number): number
  releaseSlots(slots: number): void
  closeFd(fd: number): void
}
