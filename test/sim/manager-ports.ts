import { hash } from 'node:crypto'
import type { ManagerPorts } from '../../src/manager/ports.js'
import { GPU } from './limits.js'
import type { ManagerProcess } from './manager-process.js'

/** SHA-256 in one call: a registration takes many. */
export function sha256(bytes: Uint8Array): Uint8Array {
  return hash('sha256', bytes, 'buffer')
}

/** Whose fault the sender of a frame carries, as sessions of the simulator have it. */
interface Faulty {
  readonly slotsExhausted?: boolean
  /** Asked before each template: is there no memory for it? */
  readonly noTemplate?: () => boolean
}

/** What the Manager's machine asks of its host on the control path, over the simulated process. */
export function managerPorts(process: ManagerProcess): ManagerPorts {
  const { fds, device, slots, wire } = process
  const sender = () => (wire.current?.peer ?? {}) as Faulty
  return {
    sha256,
    importMemory: (fd) => {
      const opened = fds.at(fd)
      if (opened.kind !== 'memory' || !opened.sealed) return null
      return { mapping: device.map(opened.memory), bytes: opened.memory.bytes.length, device: 'host' }
    },
    // Engines of the simulator are processes of their own: they pass descriptors.
    borrowMapping: () => null,
    importDeviceMemory: (uuid, handle, offsetBytes, bytes) => {
      const memory = uuid === GPU.uuid ? process.exported.get(Buffer.from(handle).toString('hex')) : undefined
      if (memory === undefined) return { refused: 'EINVAL', text: 'it is no handle' }
      if (offsetBytes + bytes > memory.bytes.length) return { refused: 'EINVAL', text: 'it leaves the allocation' }
      return { mapping: device.map(memory), bytes, device: GPU.name }
    },
    releaseMapping: (mapping) => device.release(mapping),
    readMapping: (mapping, offsetBytes, bytes) => device.read(mapping, offsetBytes, bytes),
    defineTemplate: (items, granuleFirstItem, codings) =>
      sender().noTemplate?.() ? null : device.define(items, granuleFirstItem, codings),
    releaseTemplate: (template) => device.releaseTemplate(template),
    createSlots: (count) => (sender().slotsExhausted ? null : slots.create(count)),
    slotWord: (table, slot) => slots.managerWord(table, slot),
    releaseSlots: (table) => slots.release(table),
    closeFd: (fd) => fds.close(fd),
  }
}
