import { loadNative } from '../../binding/load.js'
import {
  createDeviceMemory,
  createEngineMemory,
  type DeviceMemory,
  type EngineMemory,
  type Registration,
} from '../../client/index.js'

/** Pages of a demo engine, in shared memory or on a CUDA device; the engine reads and writes them through this alone. */
export interface Pages {
  readonly device: Registration['device']
  readonly memory: EngineMemory | DeviceMemory
  /** A copy of bytes of the pages. */
  read(offsetBytes: number, bytes: number): Uint8Array
  write(offsetBytes: number, from: Uint8Array): void
  close(): void
}

/** `uuid`: of a CUDA device, or empty for host memory. */
export function createPages(uuid: string, bytes: number): Pages {
  return uuid === '' ? hostPages(bytes) : devicePages(uuid, bytes)
}

function hostPages(bytes: number): Pages {
  const memory = createEngineMemory(bytes)
  return {
    device: { kind: 'host', uuid: new Uint8Array(16) },
    memory,
    read: (at, length) => new Uint8Array(memory.view.subarray(at, at + length)),
    write: (at, from) => memory.view.set(from, at),
    close: () => memory.close(),
  }
}

function devicePages(uuid: string, bytes: number): Pages {
  const native = loadNative()
  const memory = createDeviceMemory(uuid, bytes)
  return {
    device: { kind: 'cuda', uuid: memory.uuid },
    memory,
    read: (at, length) => {
      const copy = new Uint8Array(length)
      native.readMapping(memory.mapping, at, copy)
      return copy
    },
    write: (at, from) => native.writeMapping(memory.mapping, at, from),
    close: () => memory.close(),
  }
}
