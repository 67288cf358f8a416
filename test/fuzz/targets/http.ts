import { connect } from 'node:net'
import { type HttpSources, openHttpServer } from '../../../src/http/server.js'
import type { Breach } from '../target.js'
import { crash } from '../target.js'

/** Requests that mean something, and the beginnings of some that do not. */
export const HTTP_SEEDS: readonly Uint8Array[] = [
  'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
  'GET /metrics?x=%00 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nConnection: close\r\n\r\n',
  'HEAD /ready HTTP/1.0\r\n\r\n',
  'POST /instances/cleanup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc',
  'PUT / HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\na\r\n0\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: [::1]\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n',
].map((text) => Uint8Array.from(Buffer.from(text, 'latin1')))

const SOURCES: HttpSources = {
  health: () => ({ live: true, body: { status: 'live' } }),
  ready: () => true,
  metrics: () => Promise.resolve({ contentType: 'text/plain', body: 'a 1\n' }),
}

/** What a listener may answer: what it serves, what it refuses, and never that something of its own broke. */
const STATUSES = new Set([200, 400, 404, 405, 408, 413, 414, 417, 421, 431])

/** Sends bytes and an end; resolves with what came back. */
function exchange(port: number, bytes: Uint8Array): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connect(port, '127.0.0.1', () => socket.end(bytes))
    socket.setEncoding('latin1')
    socket.on('data', (part: string) => {
      text += part
    })
    // A listener that closes in the middle of what it is sent is within its rights.
    socket.on('error', () => {})
    socket.on('close', () => resolve(text))
  })
}

/**
 * The listener as it is, over TCP: whatever comes, each answer is one that it may give, only GET and HEAD ever get 200,
 * and /health answers afterwards.
 */
export async function openHttpTarget(weak: boolean) {
  const server = await openHttpServer('127.0.0.1', 0, SOURCES)
  return {
    async run(input: Uint8Array): Promise<Breach | null> {
      const text = await exchange(server.port, input)
      for (const [, status] of text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)) {
        // The weakness: a method that is not known passes for an error of the server's own.
        if (!STATUSES.has(weak && status === '405' ? 500 : Number(status))) return crash(`answered ${status}`)
      }
      const head = Buffer.from(input.subarray(0, 5)).toString('latin1')
      const reads = head.startsWith('GET ') || head.startsWith('HEAD ') || /^\s/.test(head)
      return text.startsWith('HTTP/1.1 200') && !reads ? crash(`'${head}' is served`) : null
    },
    async alive(): Promise<boolean> {
      return (await exchange(server.port, HTTP_SEEDS[0] as Uint8Array)).startsWith('HTTP/1.1 200')
    },
    close: () => server.close(),
  }
}
