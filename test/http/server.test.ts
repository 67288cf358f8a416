import { request } from 'node:http'
import { createConnection } from 'node:net'
import test from 'ava'
import { type HttpServer, type HttpSources, openHttpServer } from '../../src/http/server.js'
import { IoError } from '../../src/shared/base/errors.js'

interface Answer {
  readonly status: number
  readonly type: string | undefined
  readonly body: string
}

const SOURCES: HttpSources = {
  health: () => ({ live: true, body: { status: 'serving' } }),
  ready: () => true,
  metrics: async () => ({ contentType: 'text/plain; version=0.0.4', body: 'orbitkv_sessions 0\n' }),
}

async function serving(sources: Partial<HttpSources>, use: (server: HttpServer) => Promise<void>): Promise<void> {
  const server = await openHttpServer('127.0.0.1', 0, { ...SOURCES, ...sources })
  try {
    await use(server)
  } finally {
    await server.close()
  }
}

function ask(port: number, path: string, options: { method?: string; host?: string } = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = options.host === undefined ? {} : { host: options.host }
    const sent = request({ port, host: '127.0.0.1', path, method: options.method ?? 'GET', headers }, (response) => {
      let body = ''
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text
      })
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, type: response.headers['content-type'], body }),
      )
    })
    sent.on('error', reject).end()
  })
}

test('http: /health answers 200 while every part answers, and 503 with the same body otherwise', async (t) => {
  let live = true
  await serving({ health: () => ({ live, body: { status: 'serving', io: 'uring' } }) }, async ({ port }) => {
    const well = await ask(port, '/health')
    t.deepEqual(well, { status: 200, type: 'application/json', body: '{"status":"serving","io":"uring"}\n' })
    live = false
    t.deepEqual(await ask(port, '/health'), { ...well, status: 503 })
  })
})

test('http: /ready turns from 200 to 503 when the drain begins', async (t) => {
  let ready = true
  await serving({ ready: () => ready }, async ({ port }) => {
    t.like(await ask(port, '/ready'), { status: 200, body: '{"ready":true}\n' })
    ready = false
    t.like(await ask(port, '/ready?verbose'), { status: 503, body: '{"ready":false}\n' })
  })
})

test('http: /metrics serves the text and its type, and 404 when metrics are off', async (t) => {
  await serving({}, async ({ port }) => {
    t.deepEqual(await ask(port, '/metrics'), {
      status: 200,
      type: 'text/plain; version=0.0.4',
      body: 'orbitkv_sessions 0\n',
    })
  })
  await serving({ metrics: async () => null }, async ({ port }) => {
    t.is((await ask(port, '/metrics')).status, 404)
  })
})

test('http: a source that fails is a 500 with its message, and the next request is served', async (t) => {
  let calls = 0
  const metrics = async () => {
    if (calls++ === 0) throw new Error('the page is gone')
    return { contentType: 'text/plain', body: 'ok\n' }
  }
  await serving({ metrics }, async ({ port }) => {
    t.like(await ask(port, '/metrics'), { status: 500, body: '{"error":"the page is gone"}\n' })
    t.is((await ask(port, '/metrics')).status, 200)
  })
})

test('http: nothing changes state: every method but GET and HEAD is refused on every path', async (t) => {
  await serving({}, async ({ port }) => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      for (const path of ['/health', '/ready', '/metrics', '/drain']) {
        t.is((await ask(port, path, { method })).status, 405, `${method} ${path}`)
      }
    }
    const head = await ask(port, '/health', { method: 'HEAD' })
    t.deepEqual(head, { status: 200, type: 'application/json', body: '' })
  })
})

test('http: an unknown path is a 404 that names the known ones', async (t) => {
  await serving({}, async ({ port }) => {
    for (const path of ['/', '/healthz', '/metrics/', '/../health/x', '//health', '//']) {
      const { status, body } = await ask(port, path)
      t.is(status, 404, path)
      t.regex(body, /\/health, \/ready and \/metrics/)
    }
  })
})

test('http: a page that reached this listener under a foreign name gets nothing', async (t) => {
  await serving({}, async ({ port }) => {
    for (const host of ['evil.example', `evil.example:${port}`, '127.0.0.1.evil.example', '10.0.0.1']) {
      t.is((await ask(port, '/metrics', { host })).status, 421, host)
    }
    for (const host of ['localhost', `localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]) {
      t.is((await ask(port, '/metrics', { host })).status, 200, host)
    }
  })
})

test('http: an address that is taken is an IoError that names the flag', async (t) => {
  await serving({}, async ({ port }) => {
    const error = await t.throwsAsync(openHttpServer('127.0.0.1', port, SOURCES), { instanceOf: IoError })
    t.is(error?.code, 'io_open_failed')
    t.regex(error?.message ?? '', /EADDRINUSE.*--http-addr/)
  })
})

test('http: close() ends connections that are kept alive', async (t) => {
  const server = await openHttpServer('127.0.0.1', 0, SOURCES)
  const socket = createConnection(server.port, '127.0.0.1')
  const ended = new Promise<void>((resolve) => socket.on('close', () => resolve()))
  const answered = new Promise<void>((resolve) => socket.once('data', () => resolve()))
  socket.write('GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await answered
  await server.close()
  await ended
  await t.throwsAsync(ask(server.port, '/ready'), { code: 'ECONNREFUSED' })
})
