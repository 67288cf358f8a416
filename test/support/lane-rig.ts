import { feed } from '../../src/actors/runtime/loop.js'
import { MainSeat } from '../../src/actors/runtime/main-seat.js'
import type { Outbox } from '../../src/actors/runtime/outbox.js'
import { type LaneDeath, type LaneEnd, type LaneHandle, spawnLane } from '../../src/actors/runtime/spawn.js'
import { Actor, type Wiring } from '../../src/actors/runtime/wiring.js'
import type { Native } from '../../src/binding/surface.js'
import type { MessageCodec } from '../../src/shared/rings/codec.js'

/** One lane to spawn, and how main talks to it. */
export interface LaneSpec<Request, Reply> {
  readonly name: string
  readonly entry: URL
  readonly params: object
  readonly requests: MessageCodec<Request>
  readonly replies: MessageCodec<Reply>
}

/** A lane by its name, its params.ts and its messages.ts. */
export function laneSpec<Request, Reply>(
  name: string,
  entry: URL,
  params: object,
  codecs: { readonly requestCodec: MessageCodec<Request>; readonly replyCodec: MessageCodec<Reply> },
): LaneSpec<Request, Reply> {
  return { name, entry, params, requests: codecs.requestCodec, replies: codecs.replyCodec }
}

type Kinded = { readonly kind: string }

/** A lane on its thread, as the test on main (in the manager's place) sees it. */
export interface RiggedLane<Request, Reply> {
  send(request: Request): void
  /** The next reply of that kind, in order of arrival. */
  reply<Kind extends string>(kind: Kind): Promise<Reply & { kind: Kind }>
}

/** Real lanes on real threads around main, which plays the manager. Wiring is made by the test; `main` is its name. */
export class LaneRig {
  readonly deaths: LaneDeath[] = []
  readonly #wiring: Wiring
  readonly #actor: Actor
  readonly #inboxes: ReturnType<typeof feed>[] = []
  readonly #outboxes: Outbox<never>[] = []
  readonly #lanes: { handle: LaneHandle; stop: () => void }[] = []
  readonly #pending: { spec: LaneSpec<never, never>; stop: () => void }[] = []
  #main: MainSeat | null = null
  #dead: (error: Error) => void = () => {}
  readonly #died = new Promise<never>((_, reject) => {
    this.#dead = reject
  })

  constructor(native: Native, wiring: Wiring, main: string) {
    this.#wiring = wiring
    this.#actor = new Actor(wiring.seat(main), (port) => native.wake(port))
    this.#died.catch(() => {})
  }

  /** Adds a lane; it is spawned by `open`. */
  lane<Request extends Kinded, Reply extends Kinded>(spec: LaneSpec<Request, Reply>): RiggedLane<Request, Reply> {
    const outbox = this.#actor.outbox(spec.name, spec.requests)
    const received: Reply[] = []
    let changed: () => void = () => {}
    const inbox = this.#actor.inbox(spec.name, spec.replies)
    this.#inboxes.push(
      feed(inbox, (reply) => {
        received.push(keep(reply))
        changed()
      }),
    )
    this.#outboxes.push(outbox as Outbox<never>)
    const send = (request: Request) => {
      outbox.send(request)
      this.#main?.flush()
    }
    const stop = () => send({ kind: 'stop' } as unknown as Request)
    this.#pending.push({ spec: spec as unknown as LaneSpec<never, never>, stop })
    const next = async (kind: string): Promise<Reply> => {
      for (;;) {
        const at = received.findIndex((reply) => reply.kind === kind)
        if (at >= 0) return received.splice(at, 1)[0] as Reply
        const arrival = new Promise<void>((resolve) => {
          changed = resolve
        })
        await Promise.race([arrival, this.#died])
      }
    }
    return { send, reply: <Kind extends string>(kind: Kind) => next(kind) as Promise<Reply & { kind: Kind }> }
  }

  async open(): Promise<void> {
    this.#main = new MainSeat(this.#actor, this.#inboxes, this.#outboxes)
    this.#main.open()
    for (const { spec, stop } of this.#pending) {
      const onDeath = (death: LaneDeath) => {
        this.deaths.push(death)
        this.#dead(new Error(`lane ${death.name} died: ${death.error}`, { cause: death.error }))
      }
      const handle = spawnLane({ seat: this.#wiring.seat(spec.name), entry: spec.entry, params: spec.params, onDeath })
      this.#lanes.push({ handle, stop })
    }
    const ready = Promise.all(this.#lanes.map(({ handle }) => handle.ready))
    await Promise.race([ready, this.#died])
  }

  /** Stops the lanes one after the other, in the order given when they were added. */
  async close(): Promise<LaneEnd[]> {
    const ends: LaneEnd[] = []
    for (const { handle, stop } of this.#lanes) ends.push(await handle.stop(stop))
    this.#main?.close()
    return ends
  }

  /** After a failure: ends what still runs, so that the failure is reported and not a hanging process. */
  async abandon(): Promise<void> {
    for (const { handle } of this.#lanes) await handle.terminate()
    this.#main?.close()
  }
}

/** A reply whose list is the reader's to keep. */
function keep<Reply>(reply: Reply): Reply {
  const { list } = reply as { list?: { doubles: Float64Array; offset: number; length: number } }
  if (list === undefined) return reply
  const doubles = list.doubles.slice(list.offset, list.offset + list.length)
  return { ...reply, list: { doubles, offset: 0, length: list.length } }
}
