import { connect as connectSocket, type Socket } from 'node:net'
import { loadNative } from '../../src/binding/load.js'
import { NativeLink } from '../../src/client/native-link.js'
import { type ErrorCode, errorCodeName } from '../../src/shared/base/errors.js'
import { decodeReply, encodeFrame } from '../../src/shared/layout/wire/frame.js'
import { FRAME_BYTES_MAX, PROTO_MAX, PROTO_MIN } from '../../src/shared/layout/wire/limits.js'
import type { MessageOf, WireMessage, WireReply } from '../../src/shared/layout/wire/messages.js'
import { eventually } from './manager-child.js'

/** A peer that says whatever a test wants, with whatever descriptors: what no client of ours would send. */

export const HELLO: MessageOf<'hello'> = {
  kind: 'hello',
  protoMin: PROTO_MIN,
  protoMax: PROTO_MAX,
  role: 'worker',
  pid: process.pid,
  bootNonce: 1,
  engine: 'raw',
  engineVersion: '1',
  adapterVersion: '',
}

/** A session over frames: the length word is right, everything behind it is the test's. */
export class RawSession {
  readonly native = loadNative()
  readonly #link: NativeLink
  readonly #target = new Uint8Array(FRAME_BYTES_MAX)
  readonly #replies: { readonly request: number; readonly message: WireReply }[] = []
  #request = 0
  closed = false
  /** Where the descriptors of replies go, for a test that wants to misuse them. null: they are closed. */
  keptFds: number[] | null = null

  private constructor(socketPath: string, uids: readonly number[]) {
    this.#link = new NativeLink(this.native, (port) => port.connect(socketPath), uids)
  }

  /** Connects without a word. */
  static open(socketPath: string, uids: readonly number[] = [process.getuid?.() ?? 0]): RawSession {
    return new RawSession(socketPath, uids)
  }

  static async greeted(socketPath: string, role: 'worker' | 'scheduler' = 'worker'): Promise<RawSession> {
    const session = RawSession.open(socketPath)
    const reply = await session.ask({ ...HELLO, role })
    if (reply.kind !== 'welcome') throw new Error(`HELLO was answered with ${reply.kind}`)
    return session
  }

  /** Sends a message; returns its reply. */
  async ask(message: WireMessage, fds: readonly number[] = []): Promise<WireReply> {
    const request = ++this.#request
    const bytes = encodeFrame(this.#target, request, message)
    this.sendBytes(this.#target.subarray(0, bytes), fds)
    return await this.reply(request)
  }

  /** As ask; the error code of the reply, or the reply's kind. */
  async codeOf(message: WireMessage, fds: readonly number[] = []): Promise<ErrorCode | WireReply['kind']> {
    const reply = await this.ask(message, fds)
    return reply.kind === 'error' ? errorCodeName(reply.code) : reply.kind
  }

  /** Sends what stands behind a length word. */
  sendBytes(frame: Uint8Array, fds: readonly number[] = []): number {
    return this.#link.send(frame, frame.length, fds)
  }

  /** The reply to a request. Rejects when the Manager closed before it. */
  async reply(request: number): Promise<WireReply> {
    let found: WireReply | undefined
    await eventually(`a reply to request ${request}`, () => {
      this.poll()
      found = this.#replies.find((reply) => reply.request === request)?.message
      if (found === undefined && this.closed) throw new Error(`closed before a reply to request ${request}`)
      return found !== undefined
    })
    return found as WireReply
  }

  /** Waits until the Manager has closed. */
  async end(): Promise<void> {
    await eventually('the Manager closes the session', () => {
      this.poll()
      return this.closed
    })
  }

  poll(): void {
    this.#link.poll((event) => {
      if (event.kind !== 'frame') {
        this.closed = true
        return
      }
      if (this.keptFds !== null) this.keptFds.push(...event.fds)
      else for (const fd of event.fds) this.native.closeFd(fd)
      this.#replies.push(decodeReply(event.frame.slice()))
    })
  }

  close(): void {
    this.#link.close()
  }
}

/** A stream of bytes without any framing. Resolves with what the Manager sent until it closed. */
export async function sendStream(socketPath: string, bytes: Uint8Array, end: boolean): Promise<Buffer> {
  return await new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const socket: Socket = connectSocket(socketPath, () => {
      if (end) socket.end(bytes)
      else socket.write(bytes)
    })
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE' || error.code === 'ECONNRESET') resolve(Buffer.concat(chunks))
      else reject(error)
    })
    socket.on('close', () => resolve(Buffer.concat(chunks)))
  })
}
