import { AsyncParker, type EventLoop } from '../../shared/rings/async-park.js'
import { PARK_WORD } from '../../shared/rings/control.js'
import { type LaneInbox, type LaneOutbox, TURN_MESSAGES_MAX } from './loop.js'
import type { Actor } from './wiring.js'

/** setInterval takes at most 2^31 - 1 ms; nothing ever happens on this timer, it only exists. */
const FOR_EVER_MS = 2 ** 31 - 1

function eventLoop(): EventLoop {
  let timer: NodeJS.Timeout | undefined
  return {
    hold: () => {
      timer ??= setInterval(() => {}, FOR_EVER_MS)
    },
    letGo: () => {
      clearInterval(timer)
      timer = undefined
    },
    later: (then) => {
      setImmediate(then)
    },
  }
}

/**
 * The actor of a thread with an event loop (main): its inboxes are drained whenever a peer publishes, its outboxes are
 * flushed by whoever sends and again when there is room. It holds the event loop alive between `open` and `close`.
 */
export class MainSeat {
  private readonly parker: AsyncParker
  private readonly outboxes: readonly LaneOutbox[]

  constructor(actor: Actor, inboxes: readonly LaneInbox[], outboxes: readonly LaneOutbox[]) {
    this.outboxes = outboxes
    const idle = (): boolean => inboxes.every((inbox) => inbox.empty()) && outboxes.every((outbox) => outbox.stalled())
    const turn = (): void => {
      for (const inbox of inboxes) {
        inbox.take(TURN_MESSAGES_MAX)
        inbox.release()
      }
      for (const outbox of outboxes) outbox.flush()
    }
    this.parker = new AsyncParker(actor.control.cells, PARK_WORD, idle, turn, eventLoop())
  }

  open(): void {
    this.parker.open()
  }

  /** After sending from an event handler: publishes, and asks to be woken for what found no room. */
  flush(): void {
    for (const outbox of this.outboxes) while (!outbox.flush() && !outbox.stalled());
  }

  close(): void {
    this.parker.close()
  }
}
