import { releaseWorkspace } from '../../binding/codec-workspace.js'
import type { Port } from '../../binding/port.js'
import type { Native } from '../../binding/surface.js'
import { unreachable } from '../../shared/base/invariant.js'
import { writeSlotResult } from '../runtime/finish-slot.js'
import type { Outbox } from '../runtime/outbox.js'
import type { DramWorkerEffect, DramWorkerInput } from './machine.js'
import type { DramWorkerReply } from './messages.js'

/** Where the effects of a dram-worker go. */
export interface DramWorkerSinks {
  readonly native: Native
  readonly port: Port
  readonly stream: number
  readonly client: Outbox<DramWorkerReply>
}

/** Performs one effect; returns what it says at once (a fence word, a refusal), else null. */
export function perform(sinks: DramWorkerSinks, effect: DramWorkerEffect): DramWorkerInput | null {
  switch (effect.kind) {
    case 'copy': {
      const { tag, direction, doubles, offset, count } = effect
      return refusal(tag, sinks.port.copy(sinks.stream, tag, direction, doubles, offset, count))
    }
    case 'checksum':
    case 'encode':
    case 'decode': {
      const { kind, tag, doubles, offset, count, resultBase } = effect
      return refusal(tag, sinks.port[kind](sinks.stream, tag, doubles, offset, count, resultBase))
    }
    case 'poll-fence':
      return { kind: 'fence-read', job: effect.job, value: sinks.native.slotFence(effect.slots, effect.slot) }
    case 'finish-slot':
      writeSlotResult(sinks.native, effect)
      return null
    case 'release-workspace':
      releaseWorkspace(sinks.port, sinks.stream)
      return null
    case 'reply':
      sinks.client.send(effect.reply)
      return null
    default:
      return unreachable(effect)
  }
}

/** A part that was refused when it was queued will not complete: this is its completion. */
function refusal(tag: number, result: number): DramWorkerInput | null {
  return result < 0 ? { kind: 'stream-completed', tag, result } : null
}
