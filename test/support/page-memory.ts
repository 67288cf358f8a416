import { loadNative } from '../../src/binding/load.js'
import {
  createDeviceMemory,
  createEngineMemory,
  type DeviceMemory,
  type EngineMemory,
  type Registration,
} from '../../src/client/index.js'

/**
 * Pages of a test engine, wherever they lie. `view` is what the test looks at: of host memory the pages themselves, of
 * device memory a copy that `flush` and `fetch` move there and back.
 */
export interface PageMemory {
  readonly device: Registration['device']
  readonly registered: EngineMemory | DeviceMemory
  readonly view: Uint8Array
  /** What the test wrote is in the pages when this returns. */
  flush(): void
  /** The view shows the pages as they are now. */
  fetch(): void
  close(): void
}

/** `device`: UUID of a CUDA device, or empty for host memory. */
export function createPageMemory(device: string, bytes: number): PageMemory {
  if (device === '') {
    const memory = createEngineMemory(bytes)
    const nothing = () => {}
    return {
      device: { kind: 'host', uuid: new Uint8Array(16) },
      registered: memory,
      view: memory.view,
      flush: nothing,
      fetch: nothing,
      close: () => memory.close(),
    }
  }
  const native = loadNative()
  const memory = createDeviceMemory(device, bytes)
  const view = new Uint8Array(bytes)
  return {
    device: { kind: 'cuda', uuid: memory.uuid },
    registered: memory,
    view,
    flush: () => native.writeMapping(memory.mapping, 0, view),
    fetch: () => native.readMapping(memory.mapping, 0, view),
    close: () => memory.close(),
  }
}
