import { encodeFrame } from '../../src/shared/layout/wire/frame.js'
import type { WireRequest } from '../../src/shared/layout/wire/messages.js'
import { EngineMemory } from './descriptors.js'
import { OUR_UID } from './limits.js'
import type { ManagerProcess } from './manager-process.js'
import { codes } from './process.js'
import { helloOf } from './registering.js'
import { ClientSession, expectReply, type SessionOwner } from './session.js'

/** How long a stranger that nobody turned away stays. */
const STAY_US = 600
const CROWD = 14

const RAW_REQUEST = 7
const scratch = new Uint8Array(4096)

/** A client that never registers anything: it does one thing, and then it is gone. */
class Stranger implements SessionOwner {
  readonly pid = 9
  readonly session: ClientSession
  readonly manager: ManagerProcess

  constructor(manager: ManagerProcess) {
    this.manager = manager
    this.session = new ClientSession(manager, this, OUR_UID)
  }

  deliver(run: () => void): void {
    run()
  }

  closed(): void {}

  /** Says hello; `then` when it was let in. Leaves by itself. */
  greet(then: () => void): void {
    this.session.request(helloOf(this.pid, 'worker'), (reply) => {
      expectReply('hello', reply, ['welcome'], codes('draining', 'capacity_sessions'))
      if (reply.kind === 'welcome') then()
    })
    this.manager.clock.after(STAY_US, () => this.session.hangUp())
  }

  /** Sends bytes that cost it its connection: whatever is said to them is an error (X1). */
  offend(bytes: Uint8Array, what: string): void {
    const refused = codes('frame_malformed', 'unknown_message', 'draining', 'session_closed')
    this.greet(() => this.session.raw(bytes, RAW_REQUEST, (reply) => expectReply(what, reply, [], refused)))
  }
}

function frameOf(message: WireRequest): Uint8Array {
  return scratch.slice(0, encodeFrame(scratch, RAW_REQUEST, message))
}

const PING = { kind: 'ping', seq: 5, slotsOutstanding: 0 } as const

/** A frame that ends before its last field. */
export function truncated(manager: ManagerProcess, b: number): void {
  const frame = frameOf(PING)
  new Stranger(manager).offend(frame.slice(0, 1 + (b % (frame.length - 1))), 'a frame that was cut')
}

/** A frame with bytes behind its last field. */
export function oversized(manager: ManagerProcess, b: number): void {
  const frame = frameOf(PING)
  const longer = new Uint8Array(frame.length + 1 + (b % 64))
  longer.set(frame)
  new Stranger(manager).offend(longer, 'a frame that was too long')
}

/** A message that only a Manager sends. */
export function wrongWay(manager: ManagerProcess): void {
  const frame = scratch.slice(0, encodeFrame(scratch, RAW_REQUEST, { kind: 'ack' }))
  new Stranger(manager).offend(frame, 'a reply from a client')
}

/** HELLO in a protocol of a later time. */
export function wrongVersion(manager: ManagerProcess): void {
  const stranger = new Stranger(manager)
  const hello = { ...helloOf(stranger.pid, 'worker'), protoMin: 90, protoMax: 99 }
  stranger.session.request(hello, (reply) => {
    expectReply('hello of version 90', reply, [], codes('version_mismatch', 'draining', 'capacity_sessions'))
    stranger.session.hangUp()
  })
  manager.clock.after(STAY_US, () => stranger.session.hangUp())
}

/** A request before HELLO. */
export function notGreeted(manager: ManagerProcess): void {
  const stranger = new Stranger(manager)
  stranger.session.request(PING, (reply) => {
    expectReply('ping before hello', reply, [], codes('not_greeted', 'draining', 'capacity_sessions'))
    stranger.session.hangUp()
  })
  manager.clock.after(STAY_US, () => stranger.session.hangUp())
}

/** A descriptor that no message asked for: it is closed, or it would be left at rest (D1). */
export function surplusDescriptor(manager: ManagerProcess): void {
  const stranger = new Stranger(manager)
  stranger.greet(() => {
    const opened = { kind: 'memory', memory: new EngineMemory('surplus', 64), sealed: true } as const
    const refused = codes('missing_descriptor', 'draining', 'session_closed')
    stranger.session.request(PING, (reply) => expectReply('ping with a descriptor', reply, [], refused), [opened])
  })
}

/** More connections at once than sessions are served. */
export function crowd(manager: ManagerProcess): void {
  for (let each = 0; each < CROWD; each++) new Stranger(manager).greet(() => {})
}
