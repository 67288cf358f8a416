import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { IoError } from '../shared/base/errors.js'

/** What the HTTP side may ask: read-only questions, answered from counter pages and state that main already has. */
export interface HttpSources {
  /** Everything that is known about the parts; `live` says whether each part answers. */
  health(): { readonly live: boolean; readonly body: object }
  /** True from the moment engines may connect until the drain begins. */
  ready(): boolean
  /** Prometheus text and its content type, or null when metrics are off. */
  metrics(): Promise<{ readonly contentType: string; readonly body: string } | null>
}

export interface HttpServer {
  readonly address: string
  readonly port: number
  close(): Promise<void>
}

function answer(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) })
  response.end(body)
}

function answerJson(response: ServerResponse, status: number, body: object): void {
  answer(response, status, 'application/json', `${JSON.stringify(body)}\n`)
}

/**
 * A web page that a browser on this host has open may send requests here under a name of its own; such a request
 * carries that name in Host. Only names and addresses that mean this listener are served.
 */
function hostIsOurs(host: string | undefined, address: string): boolean {
  if (host === undefined) return true
  const name = host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
  const loopback = address === '127.0.0.1' || address === '::1'
  return name === address || name === 'localhost' || !loopback || name === '127.0.0.1' || name === '::1'
}

async function serve(sources: HttpSources, address: string, request: IncomingMessage, response: ServerResponse) {
  if (!hostIsOurs(request.headers.host, address)) {
    return answerJson(response, 421, { error: 'this listener has another name' })
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return answerJson(response, 405, { error: 'read only: what changes state goes through the UNIX socket' })
  }
  switch ((request.url ?? '/').split('?', 1)[0]) {
    case '/health': {
      const { live, body } = sources.health()
      return answerJson(response, live ? 200 : 503, body)
    }
    case '/ready': {
      const ready = sources.ready()
      return answerJson(response, ready ? 200 : 503, { ready })
    }
    case '/metrics': {
      const metrics = await sources.metrics()
      if (metrics === null) return answerJson(response, 404, { error: 'metrics are off (--enable-prometheus false)' })
      return answer(response, 200, metrics.contentType, metrics.body)
    }
    default:
      return answerJson(response, 404, { error: 'there is /health, /ready and /metrics' })
  }
}

/**
 * Serves /health, /ready and /metrics.
 * @throws IoError io_open_failed when the address cannot be bound.
 */
export function openHttpServer(address: string, port: number, sources: HttpSources): Promise<HttpServer> {
  const server: Server = createServer((request, response) => {
    serve(sources, address, request, response).catch((error: unknown) => {
      answerJson(response, 500, { error: error instanceof Error ? error.message : String(error) })
    })
  })
  server.requestTimeout = 5_000
  server.headersTimeout = 5_000
  server.maxConnections = 64
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(
        new IoError(
          'io_open_failed',
          `Cannot serve HTTP on ${address}:${port}: ${error.code ?? error.message}; choose another with --http-addr`,
          { address, port },
          error,
        ),
      )
    })
    server.listen(port, address, () => {
      const bound = server.address()
      resolve({
        address,
        port: typeof bound === 'object' && bound !== null ? bound.port : port,
        close: () =>
          new Promise((closed) => {
            server.close(() => closed())
            server.closeAllConnections()
          }),
      })
    })
  })
}
