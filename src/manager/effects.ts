import type { DramWorkerRequest } from '../actors/dram-worker/messages.js'
import type { HostReaderRequest } from '../actors/host-reader/messages.js'
import type { HostRestoreRequest } from '../actors/host-restore/messages.js'
import type { Outbox } from '../actors/runtime/outbox.js'
import type { SsdWorkerRequest } from '../actors/ssd-worker/messages.js'
import type { WritebackRequest } from '../actors/writeback/messages.js'
import type { Port } from '../binding/port.js'
import type { Native } from '../binding/surface.js'
import { unreachable } from '../shared/base/invariant.js'
import type { ControlReply, ManagerEffect } from './messages.js'

/** Where the manager's effects go. */
export interface ManagerSinks {
  readonly native: Native
  readonly port: Port
  readonly readers: readonly Outbox<HostReaderRequest>[]
  readonly writers: readonly Outbox<WritebackRequest>[]
  /** By device, as the next. */
  readonly dram: readonly Outbox<DramWorkerRequest>[]
  readonly restore: readonly Outbox<HostRestoreRequest>[]
  /** Null where a device has no ssd-worker. */
  readonly ssd: readonly (Outbox<SsdWorkerRequest> | null)[]
  readonly main: Outbox<ControlReply>
}

const EAGAIN = -11

/** Performs one effect. A connection whose peer does not read is named in `stuck`, for the machine to end. */
export function perform(sinks: ManagerSinks, effect: ManagerEffect, stuck: number[]): void {
  switch (effect.kind) {
    case 'send':
      if (sinks.port.send(effect.connection, effect.frame, effect.frame.length, effect.fds) === EAGAIN) {
        stuck.push(effect.connection)
      }
      // The port sends copies; what was sent is the peer's, what was not has nobody to go to.
      for (const fd of effect.fds) sinks.native.closeFd(fd)
      return
    case 'close-connection':
      sinks.port.closeConnection(effect.connection)
      return
    case 'to-host-reader':
      sinks.readers[effect.store]?.send(effect.request)
      return
    case 'to-writeback':
      sinks.writers[effect.store]?.send(effect.request)
      return
    case 'to-dram-worker':
      sinks.dram[effect.device]?.send(effect.request)
      return
    case 'to-host-restore':
      sinks.restore[effect.device]?.send(effect.request)
      return
    case 'to-ssd-worker':
      sinks.ssd[effect.device]?.send(effect.request)
      return
    case 'slot-state':
      sinks.native.slotState(effect.slots, effect.slot, effect.generation, effect.state)
      return
    case 'slot-finish':
      sinks.native.slotFinish(
        effect.slots,
        effect.slot,
        effect.generation,
        effect.state,
        effect.errorCode,
        effect.firstFailed,
        effect.bytes,
        effect.admitUs,
        effect.doneUs,
      )
      return
    case 'release-slots':
      sinks.native.releaseSlots(effect.slots)
      return
    case 'control':
      sinks.main.send(effect.reply)
      return
    default:
      unreachable(effect)
  }
}
