import { createHash } from 'node:crypto'
import { endWithLostDevice } from '../binding/lost-device.js'
import type { Native } from '../binding/surface.js'
import type { ServedDevice } from './lanes/served-device.js'
import type { ManagerPorts } from './ports.js'

const ENODEV = 19

/**
 * The control-path questions of the machine, answered by the addon. One that finds a device lost throws: see
 * endWithLostDevice.
 */
export function nativePorts(native: Native, devices: readonly ServedDevice[]): ManagerPorts {
  const mayBeLost = (thrown: unknown): void => {
    const errno = (thrown as { readonly code?: unknown }).code === 'ENODEV' ? -ENODEV : 0
    for (const { name } of devices) endWithLostDevice(native, name, errno)
  }
  const orNull = <T>(open: () => T): T | null => {
    try {
      return open()
    } catch (thrown) {
      mayBeLost(thrown)
      return null
    }
  }
  return {
    sha256: (bytes) => createHash('sha256').update(bytes).digest(),
    importMemory: (fd) => orNull(() => native.importMemory(fd)),
    borrowMapping: (mapping) => orNull(() => native.borrowMapping(mapping)),
    importDeviceMemory: (uuid, handle, offsetBytes, bytes) => {
      try {
        return native.importDeviceMemory(uuid, handle, offsetBytes, bytes)
      } catch (thrown) {
        const { code } = thrown as { readonly code?: unknown }
        if (!(thrown instanceof Error) || typeof code !== 'string') throw thrown
        mayBeLost(thrown)
        return { refused: code, text: thrown.message }
      }
    },
    releaseMapping: (mapping) => native.releaseMapping(mapping),
    readMapping: (mapping, offsetBytes, bytes) =>
      orNull(() => {
        const copy = new Uint8Array(bytes)
        native.readMapping(mapping, offsetBytes, copy)
        return copy
      }),
    defineTemplate: (items, granuleFirstItem, codings) =>
      orNull(() =>
        codings === undefined
          ? native.defineTemplate(items, granuleFirstItem)
          : native.defineTemplate(items, granuleFirstItem, codings),
      ),
    releaseTemplate: (template) => native.releaseTemplate(template),
    createSlots: (count) => orNull(() => native.createSlots(count)),
    slotWord: (slots, slot) => native.slotManagerWord(slots, slot),
    releaseSlots: (slots) => native.releaseSlots(slots),
    closeFd: (fd) => native.closeFd(fd),
  }
}
