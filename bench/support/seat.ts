import type { Inbox } from '../../src/actors/runtime/inbox.js'
import type { Outbox } from '../../src/actors/runtime/outbox.js'
import { type LaneHandle, spawnLane } from '../../src/actors/runtime/spawn.js'
import { Actor, type Wiring } from '../../src/actors/runtime/wiring.js'
import type { Native } from '../../src/binding/surface.js'
import type { MessageCodec } from '../../src/shared/rings/codec.js'
import { PARK_WORD } from '../../src/shared/rings/control.js'
import { parkInJs } from '../../src/shared/rings/park.js'

/** A lane that says nothing for so long has died: its thread cannot tell while this one blocks. */
const SILENCE_MS_MAX = 20_000

/** Messages to a lane and from it. */
export interface LaneTalk<Request, Reply> {
  readonly requests: Outbox<Request>
  readonly replies: Inbox<Reply>
}

/**
 * The bench in the manager's seat: it sends to real lanes on real threads and sleeps in Atomics.wait until they answer,
 * as a lane does. No event loop and no timer is between a reply and the clock.
 */
export class BenchSeat {
  readonly #wiring: Wiring
  readonly #actor: Actor
  readonly #inboxes: Inbox<never>[] = []
  readonly #outboxes: Outbox<never>[] = []
  readonly #lanes: { readonly handle: LaneHandle; readonly stop: () => void }[] = []
  readonly #idle = () => this.#inboxes.every((inbox) => inbox.empty()) && this.#outboxes.every((out) => out.stalled())

  constructor(native: Native, wiring: Wiring, name: string) {
    this.#wiring = wiring
    this.#actor = new Actor(wiring.seat(name), (port) => native.wake(port))
  }

  /** Starts a lane. Lanes are stopped in the order in which they were started. */
  async lane<Request extends { readonly kind: string }, Reply>(
    name: string,
    entry: URL,
    params: object,
    codecs: { readonly requestCodec: MessageCodec<Request>; readonly replyCodec: MessageCodec<Reply> },
  ): Promise<LaneTalk<Request, Reply>> {
    const requests = this.#actor.outbox(name, codecs.requestCodec)
    const replies = this.#actor.inbox(name, codecs.replyCodec)
    this.#outboxes.push(requests as Outbox<never>)
    this.#inboxes.push(replies as Inbox<never>)
    const onDeath = ({ error }: { readonly error: unknown }) => {
      throw new Error(`lane ${name} died`, { cause: error })
    }
    const handle = spawnLane({ seat: this.#wiring.seat(name), entry, params, onDeath })
    const stop = () => {
      requests.send({ kind: 'stop' } as unknown as Request)
      requests.flush()
    }
    this.#lanes.push({ handle, stop })
    await handle.ready
    return { requests, replies }
  }

  /** Publishes what was sent, then takes replies of `talk` until `enough`. */
  await<Request, Reply>(talk: LaneTalk<Request, Reply>, each: (reply: Reply) => void, enough: () => boolean): void {
    let sleepsAtMs = performance.now() + this.#actor.spinUs / 1000
    for (;;) {
      talk.requests.flush()
      const taken = talk.replies.drain(64, each)
      if (enough()) return
      if (taken > 0) continue
      const sleptFrom = performance.now()
      if (sleptFrom < sleepsAtMs) continue
      sleepsAtMs = 0
      parkInJs(this.#actor.control.cells, PARK_WORD, this.#idle, SILENCE_MS_MAX)
      if (performance.now() - sleptFrom >= SILENCE_MS_MAX) throw new Error('a lane has not answered: it has died')
    }
  }

  async close(): Promise<void> {
    for (const { handle, stop } of this.#lanes) await handle.stop(stop)
  }
}
