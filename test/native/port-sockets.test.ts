import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { COMPLETION } from '../../src/binding/completions.js'
import { loadNative } from '../../src/binding/load.js'
import { DESCRIPTORS_MAX, FRAME_BYTES_MAX, LENGTH_WORD_BYTES } from '../../src/shared/layout/wire/limits.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { type Completed, TestPort } from '../support/test-port.js'

const native = loadNative()
const probe = native.probe()

const EAGAIN = -11
const EBADF = -9
const EPIPE = -32
const EMSGSIZE = -90
const ECONNRESET = -104
const BODY_MAX = FRAME_BYTES_MAX - LENGTH_WORD_BYTES
const PATIENCE_MS = 60_000

/** A port that serves one path, and what happened on it. */
class Served {
  readonly test: TestPort
  readonly path: string
  readonly listener: number
  readonly #target = new Uint8Array(FRAME_BYTES_MAX)
  readonly #waiting: Completed[] = []

  constructor(t: ExecutionContext, io: 'uring' | 'posix') {
    this.path = join(folderOf(t), 'orbitkv.sock')
    this.test = new TestPort(native, { io, depth: 64 })
    this.listener = this.test.port.listen(this.path)
    this.test.parkWord[0] = 2
    t.teardown(() => this.test.close())
  }

  /** The next completion of `kind`, sleeping as a lane does while node's own event loop runs in between. */
  async next(kind: number): Promise<Completed> {
    return await this.#find((completion) => completion.kind === kind, `no completion of kind ${kind}`)
  }

  /** The next completion, whatever it is. */
  async any(): Promise<Completed> {
    return await this.#find(() => true, 'no completion')
  }

  async #find(wanted: (completion: Completed) => boolean, otherwise: string): Promise<Completed> {
    const deadline = performance.now() + PATIENCE_MS
    for (;;) {
      const at = this.#waiting.findIndex(wanted)
      if (at >= 0) return this.#waiting.splice(at, 1)[0] as Completed
      if (performance.now() > deadline) throw new Error(otherwise)
      this.#waiting.push(...this.test.list(this.test.port.park(2000)))
      await new Promise(setImmediate)
    }
  }

  /** What is there without sleeping. */
  pending(): Completed[] {
    this.#waiting.push(...this.test.list(this.test.port.pump(0, 0, 0)))
    return this.#waiting
  }

  async accepted(): Promise<number> {
    const { tag, result, aux } = await this.next(COMPLETION.accepted)
    if (tag !== this.listener || result <= 0 || aux !== 0) throw new Error(`accepted ${tag} ${result} ${aux}`)
    return result
  }

  /** The next whole frame of a connection. */
  async frame(connection: number): Promise<Buffer> {
    const { tag, result } = await this.next(COMPLETION.frame)
    if (tag !== connection) throw new Error(`a frame of ${tag}`)
    return this.take(connection, result)
  }

  take(connection: number, expected: number): Buffer {
    const bytes = this.test.port.takeFrame(connection, this.#target)
    if (bytes !== expected) throw new Error(`takeFrame: ${bytes}, announced ${expected}`)
    return Buffer.from(this.#target.subarray(0, bytes))
  }
}

function frameOf(body: Uint8Array): Buffer {
  const frame = Buffer.alloc(LENGTH_WORD_BYTES + body.length)
  frame.writeUInt32LE(body.length)
  frame.set(body, LENGTH_WORD_BYTES)
  return frame
}

async function dial(t: ExecutionContext, path: string): Promise<Socket> {
  const socket = connect(path)
  socket.on('error', () => {})
  t.teardown(() => void socket.destroy())
  await once(socket, 'connect')
  return socket
}

/** A Python peer, which can pass descriptors; `script` has the connected socket `s` and what it needs imported. */
function python(t: ExecutionContext, path: string, script: string): ChildProcess {
  const head = `
import array, os, socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.connect(${JSON.stringify(path)})
def frame(body): return struct.pack('<I', len(body)) + body
`
  const child = spawn('python3', ['-c', head + script], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => void child.kill('SIGKILL'))
  return child
}

/** Descriptors of this process whose file has a name that begins so. */
function opened(name: string): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(name)
    } catch {
      // The folder itself was read by one that is closed by now.
      return false
    }
  }).length
}

async function outputOf(child: ChildProcess): Promise<string> {
  let text = ''
  child.stdout?.on('data', (part) => {
    text += part
  })
  await once(child, 'close')
  return text.trim()
}

for (const io of ['uring', 'posix'] as const) {
  const when = needs(io === 'posix' || probe.available, `io_uring: ${probe.reason}`)

  when(`sockets (${io}): the socket is private and goes with its listener`, (t) => {
    const served = new Served(t, io)
    t.is(statSync(served.path).mode & 0o777, 0o600)
    served.test.port.closeListener(served.listener)
    t.false(existsSync(served.path))
    t.throws(() => served.test.port.closeListener(served.listener), { code: 'EBADF' })
  })

  when(
    `sockets (${io}): frames that come in single bytes and frames that come together are the same frames`,
    async (t) => {
      const served = new Served(t, io)
      const socket = await dial(t, served.path)
      const connection = await served.accepted()
      const bodies = [Buffer.from('a'), Buffer.from('second'), Buffer.alloc(5000, 7)]
      for (const byte of frameOf(Buffer.from('slow'))) {
        socket.write(Buffer.of(byte))
        await new Promise(setImmediate)
        served.pending()
      }
      t.is((await served.frame(connection)).toString(), 'slow')
      socket.write(Buffer.concat(bodies.map(frameOf)))
      for (const body of bodies) t.deepEqual(await served.frame(connection), body)
      t.deepEqual(served.test.port.peer(connection), { uid: process.getuid?.() ?? -1, pid: process.pid })
    },
  )

  when(`sockets (${io}): the largest frame passes; the next length, and length 0, end the connection`, async (t) => {
    const served = new Served(t, io)
    const largest = Buffer.alloc(BODY_MAX, 9)
    for (const length of [BODY_MAX + 1, 0, 0xffffffff]) {
      const socket = await dial(t, served.path)
      const connection = await served.accepted()
      socket.write(frameOf(largest))
      t.true((await served.frame(connection)).equals(largest))
      const word = Buffer.alloc(4)
      word.writeUInt32LE(length)
      socket.write(word)
      t.like(await served.next(COMPLETION.closed), { tag: connection, result: EMSGSIZE })
      t.is(served.test.port.send(connection, Buffer.from('x'), 1, []), EPIPE)
      t.is(served.test.port.takeFrame(connection, new Uint8Array(8)), EAGAIN)
      served.test.port.closeConnection(connection)
      t.is(served.test.port.takeFrame(connection, new Uint8Array(8)), EBADF)
    }
  })

  when(`sockets (${io}): a peer that closes between frames ends well, one inside a frame does not`, async (t) => {
    const served = new Served(t, io)
    for (const [bytes, result] of [
      [frameOf(Buffer.from('whole')), 0],
      [frameOf(Buffer.from('broken')).subarray(0, 6), ECONNRESET],
      [Buffer.of(1, 0), ECONNRESET],
    ] as const) {
      const socket = await dial(t, served.path)
      const connection = await served.accepted()
      socket.end(bytes)
      if (result === 0) t.is((await served.frame(connection)).toString(), 'whole')
      t.like(await served.next(COMPLETION.closed), { tag: connection, result })
      served.test.port.closeConnection(connection)
    }
  })

  when(`sockets (${io}): a frame waits for its taker, and nothing behind it is read ahead without bound`, async (t) => {
    const served = new Served(t, io)
    const socket = await dial(t, served.path)
    const connection = await served.accepted()
    const body = Buffer.alloc(64 * 1024, 3)
    let written = 0
    while (socket.write(frameOf(body)) || written < 64) written++
    const first = await served.next(COMPLETION.frame)
    for (let i = 0; i < 20; i++) {
      await new Promise(setImmediate)
      t.deepEqual(served.pending(), [], 'one frame at a time')
    }
    t.true(socket.writableLength > 16 * body.length, 'the peer feels it')
    t.is(served.test.port.takeFrame(connection, new Uint8Array(16)), EMSGSIZE, 'too small a target takes nothing')
    t.true(served.take(connection, first.result).equals(body))
    for (let i = 0; i < written; i++) t.true((await served.frame(connection)).equals(body))
  })

  when(`sockets (${io}): a parked port wakes for a frame, and for one that waited behind another`, async (t) => {
    const served = new Served(t, io)
    const socket = await dial(t, served.path)
    const connection = await served.accepted()
    const times: number[] = []
    for (let round = 0; round < 5; round++) {
      socket.write(Buffer.concat([frameOf(Buffer.from('1')), frameOf(Buffer.from('2'))]))
      await served.frame(connection)
      const start = performance.now()
      const [second] = served.test.list(served.test.port.park(100_000))
      times.push(performance.now() - start)
      t.like(second, { kind: COMPLETION.frame, result: 1 })
      served.take(connection, 1)
    }
    t.true(Math.min(...times) < 95, 'a port that was not woken sleeps 100 ms every time')
    const peer = python(t, served.path, `s.send(frame(b'hello')); sys.stdin.read()`)
    const other = await served.accepted()
    t.is((await served.frame(other)).toString(), 'hello')
    peer.stdin?.end()
  })

  when(`sockets (${io}): descriptors come with their frame, in order, and to no other`, async (t) => {
    const served = new Served(t, io)
    const peer = python(
      t,
      served.path,
      `
files = [os.memfd_create(str(i)) for i in range(3)]
for i, fd in enumerate(files): os.ftruncate(fd, 100 + i)
socket.send_fds(s, [frame(b'none first') ], [])
socket.send_fds(s, [frame(b'two') + frame(b'none')[:2]], files[:2])
s.send(frame(b'none')[2:])
socket.send_fds(s, [frame(b'one')], files[2:])
s.recv(100)
`,
    )
    const connection = await served.accepted()
    const sizes: [string, number[]][] = []
    for (let i = 0; i < 4; i++) {
      const body = await served.frame(connection)
      const fds = served.test.port.takeFds(connection)
      sizes.push([body.toString(), fds.map((fd) => fstatSync(fd).size)])
      for (const fd of fds) closeSync(fd)
    }
    t.deepEqual(sizes, [
      ['none first', []],
      ['two', [100, 101]],
      ['none', []],
      ['one', [102]],
    ])
    t.is(served.test.port.send(connection, Buffer.from('bye'), 3, []), 0)
    await once(peer, 'exit')
  })

  when(`sockets (${io}): descriptors beyond the bound and untaken ones are closed`, async (t) => {
    const served = new Served(t, io)
    const peer = python(
      t,
      served.path,
      `
passed = os.memfd_create('passed')
socket.send_fds(s, [frame(b'many')[:5]], [passed] * 200)
socket.send_fds(s, [frame(b'many')[5:]], [passed] * 10)
socket.send_fds(s, [frame(b'untaken')], [passed] * 5)
socket.send_fds(s, [frame(b'unread')], [passed] * 5)
s.recv(100)
`,
    )
    const connection = await served.accepted()
    await served.frame(connection)
    const fds = served.test.port.takeFds(connection)
    t.is(fds.length, DESCRIPTORS_MAX)
    t.is(opened('/memfd:passed'), fds.length)
    t.deepEqual(served.test.port.takeFds(connection), [], 'handed over once')
    for (const fd of fds) closeSync(fd)
    await served.frame(connection)
    await served.next(COMPLETION.frame)
    served.test.port.closeConnection(connection)
    // By name: pipes of processes that have just ended come and go among all descriptors.
    t.is(opened('/memfd:passed'), 0)
    await once(peer, 'exit')
  })

  when(`sockets (${io}): sent frames and descriptors arrive in order, also through a full socket`, async (t) => {
    const served = new Served(t, io)
    const peer = python(
      t,
      served.path,
      `
sys.stdin.readline()
data, sizes = b'', []
while len(data) < 30 * 100004:
    part, fds, flags, _ = socket.recv_fds(s, 65536, 16, socket.MSG_CMSG_CLOEXEC)
    data += part
    sizes += [os.fstat(fd).st_size for fd in fds]
bodies = [data[at + 4:at + 100004] for at in range(0, len(data), 100004)]
print([b[0] for b in bodies], set(data[at:at + 4] for at in range(0, len(data), 100004)), sizes)
`,
    )
    const connection = await served.accepted()
    const fds = [1, 2, 3].map((pages) => native.createMemory(4096 * pages))
    const body = Buffer.alloc(100_000)
    for (let i = 0; i < 30; i++) {
      body[0] = i
      t.is(served.test.port.send(connection, body, body.length, i === 20 ? fds : []), 0)
    }
    for (const fd of fds) native.closeFd(fd)
    peer.stdin?.write('go\n')
    const finished = outputOf(peer)
    await served.next(COMPLETION.peerExited)
    const indices = Array.from({ length: 30 }, (_, i) => i).join(', ')
    t.is(await finished, `[${indices}] {b'\\xa0\\x86\\x01\\x00'} [4096, 8192, 12288]`)
  })

  when(`sockets (${io}): a peer that does not read is refused at 4 MiB, whole frames only`, async (t) => {
    const served = new Served(t, io)
    const socket = await dial(t, served.path)
    socket.pause()
    const connection = await served.accepted()
    const body = Buffer.alloc(BODY_MAX, 5)
    let sent = 0
    while (served.test.port.send(connection, body, body.length, []) === 0) sent++
    t.true(sent >= 4 && sent <= 6, `${sent} MiB taken`)
    t.is(served.test.port.send(connection, body, body.length, []), EAGAIN)
    let got = 0
    socket.on('data', (part) => {
      got += part.length
    })
    socket.resume()
    while (got < sent * FRAME_BYTES_MAX) {
      served.pending()
      await new Promise(setImmediate)
    }
    t.is(got, sent * FRAME_BYTES_MAX)
    t.is(served.test.port.send(connection, body, body.length, []), 0, 'and takes frames again')
  })

  when(`sockets (${io}): send refuses what is no frame`, async (t) => {
    const served = new Served(t, io)
    await dial(t, served.path)
    const connection = await served.accepted()
    const { port } = served.test
    t.is(port.send(connection, new Uint8Array(4), 0, []), EMSGSIZE)
    t.is(port.send(connection, new Uint8Array(FRAME_BYTES_MAX), FRAME_BYTES_MAX, []), EMSGSIZE)
    t.is(port.send(connection, new Uint8Array(4), 5, []), -22)
    t.is(port.send(connection, new Uint8Array(4), 4, [4711]), EBADF)
    t.is(port.send(connection, new Uint8Array(4), 4, [-1]), EBADF)
    t.is(port.send(connection, new Uint8Array(4), 4, new Array(DESCRIPTORS_MAX + 1).fill(0)), -22)
    t.is(port.send(4711, new Uint8Array(4), 4, []), EBADF)
    t.throws(() => port.peer(4711), { code: 'EBADF' })
  })

  when(`sockets (${io}): the death of a peer is seen, also when its socket lives on elsewhere`, async (t) => {
    const served = new Served(t, io)
    const peer = python(
      t,
      served.path,
      `
if os.fork() == 0:
    sys.stdout.close()
    s.recv(64)
    os._exit(0)
s.send(frame(str(os.getpid()).encode()))
sys.stdout.write('ready'); sys.stdout.flush()
os.read(os.eventfd(0), 8) if hasattr(os, 'eventfd') else __import__('time').sleep(60)
`,
    )
    const connection = await served.accepted()
    const pid = Number((await served.frame(connection)).toString())
    t.is(served.test.port.peer(connection).pid, pid)
    peer.kill('SIGKILL')
    t.like(await served.next(COMPLETION.peerExited), { tag: connection })
    t.false(
      served.pending().some(({ kind }) => kind === COMPLETION.closed),
      'the stream is still open',
    )
    // The heir waits on the stream and not on stdin: Node ends the stdin of a process the moment it hears of its death.
    t.is(served.test.port.send(connection, Buffer.from('leave'), 5, []), 0)
    t.like(await served.next(COMPLETION.closed), { tag: connection, result: 0 })
  })

  when(`sockets (${io}): a stream that ends does not hide the later end of its process`, async (t) => {
    const served = new Served(t, io)
    const peer = python(t, served.path, `s.close(); sys.stdin.read()`)
    const connection = await served.accepted()
    t.like(await served.next(COMPLETION.closed), { tag: connection, result: 0 })
    t.is(served.test.port.peer(connection).pid, peer.pid ?? -1)
    peer.stdin?.end()
    t.like(await served.next(COMPLETION.peerExited), { tag: connection })
    served.test.port.closeConnection(connection)
    served.test.port.closeConnection(connection)
  })

  when(`sockets (${io}): what a peer said before its end is taken before its end is told`, async (t) => {
    const served = new Served(t, io)
    const peer = python(t, served.path, `for word in (b'one', b'two', b'three'): s.send(frame(word))`)
    const ended = once(peer, 'exit')
    const connection = await served.accepted()
    await ended
    const told: (string | number)[] = []
    while (told.at(-1) !== COMPLETION.peerExited) {
      const { tag, kind, result } = await served.any()
      t.is(tag, connection)
      told.push(kind === COMPLETION.frame ? served.take(connection, result).toString() : kind)
    }
    t.deepEqual(told, ['one', 'two', 'three', COMPLETION.closed, COMPLETION.peerExited])
  })

  when(`sockets (${io}): two ports speak to each other; the connecting one sees who listens`, async (t) => {
    const served = new Served(t, io)
    const client = new TestPort(native, { io })
    t.teardown(() => client.close())
    const connection = client.port.connect(served.path)
    const accepted = await served.accepted()
    t.is(client.port.peer(connection).pid, process.pid)
    t.is(client.port.send(connection, Buffer.from('ping'), 4, []), 0)
    t.is((await served.frame(accepted)).toString(), 'ping')
    t.is(served.test.port.send(accepted, Buffer.from('pong!'), 5, []), 0)
    t.like(client.reap(1)[0], { tag: connection, kind: COMPLETION.frame, result: 5 })
    served.test.close()
    const target = new Uint8Array(16)
    t.is(client.port.takeFrame(connection, target), 5)
    t.like(client.reap(1)[0], { tag: connection, kind: COMPLETION.closed, result: 0 })
    t.throws(() => client.port.connect(served.path), { code: 'ENOENT' })
  })

  when(`sockets (${io}): closed ports leave no descriptor and no socket file`, async (t) => {
    const before = readdirSync('/proc/self/fd').length
    const path = join(folderOf(t), 's')
    for (let round = 0; round < 5; round++) {
      const server = new TestPort(native, { io })
      server.port.listen(path)
      const clients = Array.from({ length: 3 }, () => new TestPort(native, { io }))
      for (const client of clients) client.port.connect(path)
      t.deepEqual(
        server.reap(3).map(({ kind }) => kind),
        [COMPLETION.accepted, COMPLETION.accepted, COMPLETION.accepted],
      )
      for (const client of clients) client.close()
      server.close()
      t.false(existsSync(path))
    }
    t.is(readdirSync('/proc/self/fd').length, before)
  })
}

test('listen: refuses a path on which somebody answers, replaces one on which nobody does', async (t) => {
  const folder = folderOf(t)
  const path = join(folder, 's')
  const port = new TestPort(native, { io: 'posix' })
  t.teardown(() => port.close())
  const server = createServer()
  server.listen(path)
  await once(server, 'listening')
  t.throws(() => port.port.listen(path), { code: 'EADDRINUSE' })
  t.true(existsSync(path))
  server.close()
  await once(server, 'close')

  const stale = spawn('python3', [
    '-c',
    `import socket; s = socket.socket(socket.AF_UNIX); s.bind(${JSON.stringify(path)})`,
  ])
  await once(stale, 'exit')
  t.true(existsSync(path))
  const listener = port.port.listen(path)
  t.throws(() => port.port.listen(path), { code: 'EADDRINUSE' })
  port.port.closeListener(listener)
})

test('listen: leaves what is not a socket alone, and on close a socket that is not its own', (t) => {
  const folder = folderOf(t)
  const port = new TestPort(native, { io: 'posix' })
  t.teardown(() => port.close())
  writeFileSync(join(folder, 'file'), 'precious')
  symlinkSync(join(folder, 'file'), join(folder, 'link'))
  t.throws(() => port.port.listen(join(folder, 'file')), { code: 'EEXIST' })
  t.throws(() => port.port.listen(join(folder, 'link')), { code: 'EEXIST' })
  t.throws(() => port.port.listen(join(folder, 'x'.repeat(120))), { code: 'ENAMETOOLONG' })
  t.throws(() => port.port.listen(join(folder, 'missing', 's')), { code: 'ENOENT' })

  const path = join(folder, 's')
  const listener = port.port.listen(path)
  closeSync(openSync(join(folder, 'other'), 'w'))
  // Somebody moves another file to the name: it is not ours to remove.
  renameSync(join(folder, 'other'), path)
  port.port.closeListener(listener)
  t.true(existsSync(path))
})
