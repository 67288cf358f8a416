import type { Native } from '../binding/surface.js'

/** Pages of an engine on the host device: sealed shared memory that REGISTER passes to the Manager. */
export interface EngineMemory {
  readonly fd: number
  readonly bytes: number
  /** The whole of it, for this thread. Do not touch pages that an operation owns. */
  readonly view: Uint8Array
  /** Drops our mapping and descriptor; the Manager's mapping of the same memory lives until it has drained. */
  close(): void
}

/** Pages of an engine in the Manager's own process: nothing is passed, both sides use one mapping. */
export interface LocalMemory {
  /** Number of the mapping in this process. */
  readonly mapping: number
  readonly bytes: number
}

/** Creates `bytes` bytes of zeros, sealed against shrinking and growing. @throws Error of the system call. */
export function createEngineMemoryOver(native: Native, bytes: number): EngineMemory {
  const fd = native.createMemory(bytes)
  const { mapping } = native.importMemory(fd)
  return {
    fd,
    bytes,
    view: native.mappingView(mapping, 0, bytes),
    close() {
      native.releaseMapping(mapping)
      native.closeFd(fd)
    },
  }
}
