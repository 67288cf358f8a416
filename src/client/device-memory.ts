import type { Native } from '../binding/surface.js'

/** Pages of an engine on a CUDA device, as REGISTER names them: what exportDeviceMemory() of the addon gives. */
export interface DeviceMemory {
  /** The 64 raw bytes of the driver's IPC handle; it names the whole allocation. */
  readonly handle: Uint8Array
  /** Where our bytes begin in that allocation. */
  readonly offsetBytes: number
  readonly bytes: number
}

/** Device memory of this process that was allocated for an engine's pages. */
export interface OwnDeviceMemory extends DeviceMemory {
  /** Its mapping here: readMapping() and writeMapping() of the addon take it. */
  readonly mapping: number
  /** 16 bytes, for `device` of REGISTER. */
  readonly uuid: Uint8Array
  /** Frees it here; the driver keeps it for the Manager until that has unmapped it too. */
  close(): void
}

/** Allocates `bytes` on the device of a UUID (`GPU-…`). @throws Error of the driver. */
export function createDeviceMemoryOver(native: Native, uuid: string, bytes: number): OwnDeviceMemory {
  const { mapping } = native.allocateDeviceMemory(uuid, bytes)
  const { handle, offsetBytes } = native.exportDeviceMemory(mapping)
  return { mapping, handle, offsetBytes, bytes, uuid: uuidBytes(uuid), close: () => native.releaseMapping(mapping) }
}

/** The 16 bytes of a UUID as tools print it, with or without `GPU-`. @throws RangeError */
export function uuidBytes(text: string): Uint8Array {
  const digits = text.replace(/^GPU-/i, '').replaceAll('-', '')
  if (!/^[0-9a-f]{32}$/i.test(digits))
    throw new RangeError(`Cannot read UUID '${text}': 32 hexadecimal digits are needed`)
  return Uint8Array.from(digits.match(/../g) as string[], (pair) => Number.parseInt(pair, 16))
}
