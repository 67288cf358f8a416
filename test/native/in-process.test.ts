import { fstatSync, readdirSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import test from 'ava'
import { COMPLETION } from '../../src/binding/completions.js'
import { loadNative } from '../../src/binding/load.js'
import { collect } from '../support/collect.js'
import { TestPort } from '../support/test-port.js'
import { NativeLane } from './open-lane.js'

const native = loadNative()
const PAGE = 4096

/** Completions until one of `kind` comes. */
function next(at: TestPort, kind: number): { tag: number; result: number } {
  for (let i = 0; i < 1000; i++) {
    const found = at.list(at.port.pump(0, 1, 10_000)).find((completion) => completion.kind === kind)
    if (found !== undefined) return found
  }
  throw new Error(`no completion of kind ${kind}`)
}

function codeOf(call: () => unknown): string | undefined {
  try {
    call()
  } catch (error) {
    return (error as { code?: string }).code
  }
  return undefined
}

const isOpen = (fd: number) => codeOf(() => fstatSync(fd)) === undefined

for (const io of ['uring', 'posix'] as const) {
  const runs = io === 'posix' || native.probe().available ? test.serial : test.serial.skip
  runs(`adopt (${io}): two ports speak over a pair, and each sees this process at the other end`, (t) => {
    const [left, right] = [new TestPort(native, { io }), new TestPort(native, { io })]
    const fds = readdirSync('/proc/self/fd').length
    const [a, b] = native.socketPair()
    const atLeft = left.port.adopt(a)
    const atRight = right.port.adopt(b)
    for (const peer of [left.port.peer(atLeft), right.port.peer(atRight)]) {
      t.deepEqual(peer, { uid: process.getuid?.() ?? -1, pid: process.pid })
    }
    const passed = native.createMemory(PAGE)
    t.is(left.port.send(atLeft, Uint8Array.of(1, 2, 3), 3, [passed]), 0)
    native.closeFd(passed)
    t.like(next(right, COMPLETION.frame), { tag: atRight, result: 3 })
    const frame = new Uint8Array(8)
    t.is(right.port.takeFrame(atRight, frame), 3)
    t.deepEqual([...frame.subarray(0, 3)], [1, 2, 3])
    const [received = -1] = right.port.takeFds(atRight)
    t.is(fstatSync(received).size, PAGE)
    native.closeFd(received)
    left.port.closeConnection(atLeft)
    t.like(next(right, COMPLETION.closed), { tag: atRight, result: 0 })
    right.close()
    left.close()
    t.true(readdirSync('/proc/self/fd').length <= fds, 'nothing stays open')
  })
}

test.serial('adopt: what is no connected UNIX stream is refused, and closed all the same', async (t) => {
  const at = new TestPort(native, { io: 'posix' })
  const refused = (fd: number) => {
    const code = codeOf(() => at.port.adopt(fd))
    t.false(isOpen(fd))
    return code
  }
  t.is(refused(native.createMemory(PAGE)), 'ENOTSOCK')
  t.is(refused(1_000_000), 'EBADF')
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { fd } = (server as Server & { _handle: { fd: number } })._handle
  // A copy of the listener's descriptor: the server keeps its own.
  const [a, b] = native.socketPair()
  const ports = [new TestPort(native, { io: 'posix' }), new TestPort(native, { io: 'posix' })]
  const [from, to] = [ports[0]?.port.adopt(a) ?? 0, ports[1]?.port.adopt(b) ?? 0]
  ports[0]?.port.send(from, Uint8Array.of(0), 1, [fd])
  if (ports[1] !== undefined) next(ports[1], COMPLETION.frame)
  ports[1]?.port.takeFrame(to, new Uint8Array(8))
  t.is(refused(ports[1]?.port.takeFds(to)[0] ?? -1), 'EPROTOTYPE')
  server.close()
  for (const port of ports) port.close()
  at.close()
  const [open, other] = native.socketPair()
  t.is(
    codeOf(() => at.port.adopt(open)),
    'EBADF',
    'a closed port',
  )
  t.false(isOpen(open))
  native.closeFd(other)
  t.throws(() => at.port.adopt(-1), { instanceOf: TypeError })
})

/** Copies a page of a mapping into the pool and returns it. */
function copied(lane: NativeLane, mapping: number): Uint8Array {
  const template = native.defineTemplate(Float64Array.of(mapping, 0, PAGE, 1, 0, PAGE, PAGE), Float64Array.of(0, 1))
  lane.poolBytes.fill(0, 0, PAGE)
  const queued = lane.port.copy(lane.stream, 1, 1, Float64Array.of(template, 0, 0, 0, 0, 1, 0), 0, 1)
  if (queued !== 0) throw new Error(`copy: ${queued}`)
  const [done] = lane.reap(1)
  if (done?.result !== 0) throw new Error(`copy: ${done?.result}`)
  native.releaseTemplate(template)
  return lane.poolBytes.slice(0, PAGE)
}

test.serial('shareBuffer: a buffer that JavaScript has forgotten stays in place until it is released', async (t) => {
  const lane = new NativeLane(native, 1 << 21)
  const expected = new Uint8Array(PAGE).fill(0x77)
  const lend = () => {
    const buffer = new SharedArrayBuffer(64 << 20)
    new Uint8Array(buffer).fill(0x11)
    const bytes = new Uint8Array(buffer, 4096, PAGE)
    bytes.set(expected)
    return native.shareBuffer(bytes)
  }
  const { rss } = process.memoryUsage()
  const { mapping, bytes } = lend()
  t.is(bytes, PAGE)
  await collect()
  t.deepEqual(copied(lane, mapping), expected)
  const borrowed = native.borrowMapping(mapping)
  t.deepEqual(borrowed, { mapping: borrowed.mapping, bytes: PAGE, device: 'host' })
  t.is(native.mappingsAlive(), 1, 'two names, one memory')
  native.releaseMapping(mapping)
  await collect()
  t.deepEqual(copied(lane, borrowed.mapping), expected, 'the other name holds it')
  native.releaseMapping(borrowed.mapping)
  t.is(native.mappingsAlive(), 0)
  t.is(
    codeOf(() => native.borrowMapping(borrowed.mapping)),
    'ENOENT',
  )
  await collect()
  t.true(process.memoryUsage().rss < rss + (32 << 20), 'the buffer went with its last name')
  lane.close()
})

test.serial('shareBuffer: only bytes of a SharedArrayBuffer, and templates stay inside them', (t) => {
  for (const bad of [new Uint8Array(8), new Int32Array(new SharedArrayBuffer(8)), new SharedArrayBuffer(8), null]) {
    t.throws(() => native.shareBuffer(bad as never), { instanceOf: TypeError })
  }
  t.throws(() => native.shareBuffer(new Uint8Array(new SharedArrayBuffer(0))), { instanceOf: TypeError })
  const { mapping } = native.shareBuffer(new Uint8Array(new SharedArrayBuffer(2 * PAGE), 0, PAGE))
  const beyond = () => native.defineTemplate(Float64Array.of(mapping, 1, PAGE, 1, 0, PAGE, PAGE), Float64Array.of(0, 1))
  t.is(codeOf(beyond), 'EINVAL', 'one byte behind what was lent')
  native.releaseMapping(mapping)
})
