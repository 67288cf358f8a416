import { releaseWorkspace } from '../../binding/codec-workspace.js'
import type { Port } from '../../binding/port.js'
import type { Native } from '../../binding/surface.js'
import { unreachable } from '../../shared/base/invariant.js'
import type { HostReaderRequest } from '../host-reader/messages.js'
import { writeSlotResult } from '../runtime/finish-slot.js'
import type { Outbox } from '../runtime/outbox.js'
import type { HostRestoreEffect, HostRestoreInput } from './machine.js'
import type { HostRestoreReply } from './messages.js'

/** Where the effects of a host-restore lane go. */
export interface HostRestoreSinks {
  readonly native: Native
  readonly port: Port
  readonly stream: number
  readonly client: Outbox<HostRestoreReply>
  /** By store. */
  readonly readers: readonly Outbox<HostReaderRequest>[]
}

const POOL_TO_PAGES = 0

/** Performs one effect; returns what it says at once (a fence word, a refusal), else null. */
export function perform(sinks: HostRestoreSinks, effect: HostRestoreEffect): HostRestoreInput | null {
  switch (effect.kind) {
    case 'ask-reader':
      sinks.readers[effect.store]?.send(effect.request)
      return null
    case 'copy': {
      const { tag, doubles, offset, count } = effect
      const result = sinks.port.copy(sinks.stream, tag, POOL_TO_PAGES, doubles, offset, count)
      // A part that was refused when it was queued will not complete: this is its completion.
      return result < 0 ? { kind: 'stream-completed', tag, result } : null
    }
    case 'decode': {
      const { tag, doubles, offset, count, resultBase } = effect
      const result = sinks.port.decode(sinks.stream, tag, doubles, offset, count, resultBase)
      return result < 0 ? { kind: 'stream-completed', tag, result } : null
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
