import { invariant } from '../../shared/base/invariant.js'
import type { MessageCodec } from '../../shared/rings/codec.js'
import { ActorControl, createControl, wakerOf } from '../../shared/rings/control.js'
import { type CounterLayout, CounterPage, createCounterPage } from '../../shared/rings/counter-page.js'
import { createRing, RingConsumer, type RingMemory, RingProducer } from '../../shared/rings/ring.js'
import { Inbox } from './inbox.js'
import { Outbox } from './outbox.js'

/** Sizes of one ring; see RING_CAPACITY and ARENA_DOUBLES for what is used otherwise. */
export interface RingSizes {
  readonly capacity?: number
  readonly arenaDoubles?: number
}

/** One direction between two actors, as one end sees it: plain, so that it can be posted to a worker. */
export interface Channel {
  readonly ring: RingMemory
  /** Control words of the actor at the other end. */
  readonly peerControl: SharedArrayBuffer
}

/** All that an actor owns in shared memory: plain, so that it can be posted to a worker. */
export interface Seat {
  readonly name: string
  /** How long the actor looks again before it sleeps, in microseconds. */
  readonly spinUs: number
  readonly control: SharedArrayBuffer
  readonly counters: SharedArrayBuffer
  /** By name of the sender. */
  readonly inbound: Readonly<Record<string, Channel>>
  /** By name of the receiver. */
  readonly outbound: Readonly<Record<string, Channel>>
}

interface OpenSeat extends Seat {
  readonly inbound: Record<string, Channel>
  readonly outbound: Record<string, Channel>
}

/**
 * Who has which ring to whom. Main builds it before any worker starts and keeps it for ever: native threads may hold
 * addresses of this memory as long as the process lives.
 */
export class Wiring {
  private readonly seats = new Map<string, OpenSeat>()
  private readonly spinUs: number

  /** `spinUs`: for every actor; see Lane.spinUs. */
  constructor(spinUs = 0) {
    this.spinUs = spinUs
  }

  /** Adds an actor. */
  actor(name: string, counters: CounterLayout): void {
    invariant(!this.seats.has(name), 'actors have names of their own', { name })
    this.seats.set(name, {
      name,
      spinUs: this.spinUs,
      control: createControl(),
      counters: createCounterPage(counters),
      inbound: {},
      outbound: {},
    })
  }

  /** Adds a ring from one actor to another. */
  connect(from: string, to: string, sizes: RingSizes = {}): void {
    const sender = this.seatOf(from)
    const receiver = this.seatOf(to)
    invariant(sender.outbound[to] === undefined, 'one ring joins a sender and a receiver', { from, to })
    const ring = createRing(sizes)
    sender.outbound[to] = { ring, peerControl: receiver.control }
    receiver.inbound[from] = { ring, peerControl: sender.control }
  }

  /** Adds rings both ways: requests to `server`, replies to `client`. */
  connectPair(client: string, server: string, requests: RingSizes = {}, replies: RingSizes = {}): void {
    this.connect(client, server, requests)
    this.connect(server, client, replies)
  }

  /** What the actor gets. */
  seat(name: string): Seat {
    return this.seatOf(name)
  }

  names(): string[] {
    return [...this.seats.keys()]
  }

  private seatOf(name: string): OpenSeat {
    const seat = this.seats.get(name)
    invariant(seat !== undefined, 'an actor is added before it is used', { name })
    return seat
  }
}

/** A seat taken: the actor's own ends of everything. One per actor for life, made on the actor's thread. */
export class Actor {
  readonly name: string
  readonly spinUs: number
  readonly control: ActorControl
  private readonly seat: Seat
  private readonly wakePort: ((port: number) => void) | null

  /** `wakePort` is the addon's `wake`; null where no addon is loaded, and then no peer may park natively. */
  constructor(seat: Seat, wakePort: ((port: number) => void) | null) {
    this.name = seat.name
    this.spinUs = seat.spinUs
    this.seat = seat
    this.control = new ActorControl(seat.control)
    this.wakePort = wakePort
  }

  /** Messages from `sender`. */
  inbox<M>(sender: string, codec: MessageCodec<M>): Inbox<M> {
    const channel = this.channelOf(this.seat.inbound, sender)
    return new Inbox(RingConsumer.attach(channel.ring, this.wakerOf(channel)), codec)
  }

  /** Messages to `receiver`. */
  outbox<M>(receiver: string, codec: MessageCodec<M>): Outbox<M> {
    const channel = this.channelOf(this.seat.outbound, receiver)
    return new Outbox(RingProducer.attach(channel.ring, this.wakerOf(channel)), codec)
  }

  counters(layout: CounterLayout): CounterPage {
    return new CounterPage(this.seat.counters, layout)
  }

  private wakerOf(channel: Channel) {
    return wakerOf(new ActorControl(channel.peerControl), this.wakePort)
  }

  private channelOf(channels: Readonly<Record<string, Channel>>, peer: string): Channel {
    const channel = channels[peer]
    invariant(channel !== undefined, 'actors talk over the rings that the wiring gave them', { name: this.name, peer })
    return channel
  }
}
