import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { connect as connectSocket, type Socket } from 'node:net'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { errorCodeName } from '../../src/shared/base/errors.js'
import { plainDigest } from '../../src/shared/layout/namespace.js'
import { decodeReply, encodeFrame } from '../../src/shared/layout/wire/frame.js'
import type { MessageOf } from '../../src/shared/layout/wire/messages.js'
import { keysNamed, memoryBytesOf, registrationOf, SHAPE, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild } from '../support/manager-child.js'
import { needs } from '../support/needs.js'
import { asNobody, NOBODY_UID } from '../support/others.js'
import { HELLO, RawSession } from '../support/raw-session.js'

/**
 * Peers on the same host that mean harm, or behave as if they did: what they do is refused, or costs themselves alone.
 * frames.test.ts has what they may say, start.test.ts what may stand in the way of a start.
 */

const native = loadNative()
const nobody = asNobody()
const asOther = needs(!('missing' in nobody), 'missing' in nobody ? nobody.missing : '')
const withPython = needs(spawnSync('python3', ['--version']).status === 0, 'python3 is not installed')

function framed(message: Parameters<typeof encodeFrame>[2], request: number): Buffer {
  const target = new Uint8Array(1 << 16)
  const bytes = encodeFrame(target, request, message)
  const word = Buffer.alloc(4)
  word.writeUInt32LE(bytes)
  return Buffer.concat([word, target.subarray(0, bytes)])
}

/** A REGISTER of an instance that has no namespace inputs. */
function registerOf(instance: number): MessageOf<'register'> {
  const { memory, namespaceInputs, ...rest } = registrationOf(
    SHAPE,
    0,
    { bytes: 0 } as never,
    new Uint8Array(16).fill(instance),
  )
  return {
    kind: 'register',
    ...rest,
    canaries: [],
    namespaceInputs: [],
    claimedDigest: plainDigest((bytes) => createHash('sha256').update(bytes).digest(), new Map()),
    allocations: [{ kind: 'host_fd', bytes: memoryBytesOf(SHAPE) }],
  }
}

/** Publishes, queries and restores `rounds` times; every byte is right. */
async function goesOn(t: ExecutionContext, engine: TestEngine, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const keys = keysNamed(`${t.title} ${round % 8}`, 4)
    await engine.publish(keys)
    const found = await engine.find(keys)
    if (found.kind !== 'ready') throw new Error(`round ${round}: expected a lease, got ${found.kind}`)
    if ((await engine.restore(keys, found.lease)) > 0) throw new Error(`round ${round}: wrong bytes`)
  }
  t.pass()
}

// --- names in the file system --------------------------------------------------------------------------------------

interface Trap {
  readonly what: string
  readonly code: string
  /** Sets it; returns the file that must not change. */
  set(folder: string): string
}

const precious = (folder: string) => {
  writeFileSync(join(folder, 'precious'), 'precious')
  return join(folder, 'precious')
}
const runOf = (folder: string) => {
  mkdirSync(join(folder, 'run'), { mode: 0o700 })
  return join(folder, 'run')
}

const TRAPS: readonly Trap[] = [
  {
    what: 'X4: a socket path that is a symlink',
    code: 'path_refused',
    set: (folder) => {
      symlinkSync(precious(folder), join(runOf(folder), 'manager.sock'))
      return join(folder, 'precious')
    },
  },
  {
    what: 'X4: a socket folder that is a symlink',
    code: 'path_refused',
    set: (folder) => {
      mkdirSync(join(folder, 'elsewhere'), { mode: 0o700 })
      symlinkSync('elsewhere', join(folder, 'run'))
      return precious(folder)
    },
  },
  {
    what: 'X6: a lock that is a symlink',
    code: 'path_refused',
    set: (folder) => {
      symlinkSync(precious(folder), join(folder, 'shard.dat.lock'))
      return join(folder, 'precious')
    },
  },
  {
    what: 'X6: a lock that is a second name of another file',
    code: 'path_refused',
    set: (folder) => {
      linkSync(precious(folder), join(folder, 'shard.dat.lock'))
      return join(folder, 'precious')
    },
  },
  {
    what: 'X6: a lock that is a folder',
    code: 'path_refused',
    set: (folder) => {
      mkdirSync(join(folder, 'shard.dat.lock'))
      return precious(folder)
    },
  },
  {
    what: 'X6: a cache path that is a device',
    code: 'path_refused',
    set: (folder) => {
      symlinkSync('/dev/zero', join(folder, 'shard.dat'))
      return precious(folder)
    },
  },
]

/** What a start makes before it finds the trap. */
const OF_A_START = ['run', 'shard.dat', 'shard.dat.lock']

for (const { what, code, set } of TRAPS) {
  test.serial(`${what} is refused, and what it leads to stays as it is`, async (t) => {
    const folder = folderOf(t)
    const kept = set(folder)
    const before = readdirSync(folder)
    const end = await ManagerChild.refused(t, { folder })
    t.is(end.exitCode, 1, end.stdout + end.stderr)
    t.regex(end.stderr, new RegExp(`\\[${code}\\]\n$`))
    t.is(readFileSync(kept, 'utf8'), 'precious')
    const added = readdirSync(folder).filter((name) => !before.includes(name) && !OF_A_START.includes(name))
    t.deepEqual(added, [], 'nothing else is left behind')
    t.true(lstatSync(kept).isFile())
  })
}

asOther("X6: a lock that is another user's is refused, and not written to", async (t) => {
  const folder = folderOf(t)
  writeFileSync(join(folder, 'shard.dat.lock'), 'precious')
  chownSync(join(folder, 'shard.dat.lock'), NOBODY_UID, NOBODY_UID)
  const end = await ManagerChild.refused(t, { folder })
  t.regex(end.stderr, /another user's.*\[path_refused\]/)
  t.is(readFileSync(join(folder, 'shard.dat.lock'), 'utf8'), 'precious')
})

asOther('X4: another user cannot reach the socket; let in by a careless operator, it is refused by name', async (t) => {
  const folder = folderOf(t)
  const manager = await ManagerChild.start(t, { folder })
  const script = `
    const socket = require('net').connect(process.argv[1])
    const chunks = []
    socket.on('error', (error) => console.log(error.code))
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('close', (failed) => { if (!failed) console.log(Buffer.concat(chunks).toString('hex')) })
  `
  const launcher = 'command' in nobody ? nobody.command : []
  const [command, ...args] = [...launcher, process.execPath, '-e', script, manager.socketPath]
  const asks = () => spawnSync(command as string, args, { encoding: 'utf8' }).stdout.trim()
  t.is(asks(), 'EACCES', 'the folder is closed')
  chmodSync(folder, 0o755)
  chmodSync(join(folder, 'run'), 0o755)
  t.is(asks(), 'EACCES', 'the socket is closed')
  chmodSync(manager.socketPath, 0o666)
  const said = Buffer.from(asks(), 'hex')
  const { message } = decodeReply(said.subarray(4))
  t.is(message.kind === 'error' ? errorCodeName(message.code) : message.kind, 'peer_uid_refused')
  await endsClean(t, manager)
})

// --- memory that changes while it is looked at ---------------------------------------------------------------------

const RACES = 200

withPython(
  `X5: ${RACES} memory files that are cut short and sealed while they are registered are refused, or are what they seem`,
  async (t) => {
    const manager = await ManagerChild.start(t, { folder: folderOf(t) })
    const engine = await TestEngine.start(manager.socketPath, { salt: t.title })
    const register = framed(registerOf(9), 2).subarray(4).toString('hex')
    const script = `
import array, fcntl, os, socket, struct, sys, threading
def frame(s, body, fds=[]):
    s.sendmsg([struct.pack('<I', len(body)) + body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else [])
    n, = struct.unpack('<I', s.recv(4, socket.MSG_WAITALL))
    r = s.recv(n, socket.MSG_WAITALL)
    kind, = struct.unpack('<H', r[:2])
    return struct.unpack('<H', r[12:14])[0] if kind == 141 else -kind
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
frame(s, bytes.fromhex(sys.argv[2]))
codes = []
for race in range(int(sys.argv[4])):
    fd = os.memfd_create('racer', os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, int(sys.argv[5]))
    go = threading.Event()
    def cut():
        go.wait()
        for _ in range(race % 50): pass
        os.ftruncate(fd, 4096)
        fcntl.fcntl(fd, 1033, 6)
    thread = threading.Thread(target=cut)
    thread.start()
    go.set()
    codes.append(frame(s, bytes.fromhex(sys.argv[3]), [fd]))
    thread.join()
    os.close(fd)
print(codes)
`
    const hello = framed(HELLO, 1).subarray(4).toString('hex')
    const sizes = [String(RACES), String(memoryBytesOf(SHAPE))]
    const run = spawnSync('python3', ['-c', script, manager.socketPath, hello, register, ...sizes], {
      encoding: 'utf8',
    })
    t.is(run.stderr, '')
    const codes = (JSON.parse(run.stdout) as number[]).map(errorCodeName)
    t.is(codes.length, RACES)
    const refusals = new Set(codes)
    for (const code of ['memory_not_sealed', 'region_out_of_bounds'] as const) refusals.delete(code)
    t.deepEqual([...refusals], [], 'none was taken for more than it is')
    await goesOn(t, engine, 4)
    await engine.stop()
    await endsClean(t, manager)
  },
)

test.serial(
  'X2: pages that their owner rewrites while they are saved are stored as one copy that verifies',
  async (t) => {
    const manager = await ManagerChild.start(t, { folder: folderOf(t) })
    const shape = { salt: t.title, segmentBytes: 65_536, pages: 32 }
    const engine = await TestEngine.start(manager.socketPath, shape)
    const { memory, client } = engine.rank
    const pages = Uint32Array.from({ length: 16 }, (_, page) => page)
    for (let round = 0; round < 8; round++) {
      const keys = keysNamed(`${t.title} ${round}`, pages.length)
      let saving = true
      const saved = client.publish({ groups: [{ group: 0, layers: null, items: { keys, pages } }] }).finally(() => {
        saving = false
      })
      for (let value = 0; saving; value = (value + 1) & 0xff) {
        memory.view.fill(value)
        await turn()
      }
      await saved
      const copies: Buffer[] = []
      for (const tier of ['DRAM', 'SSD']) {
        if (tier === 'SSD') await engine.toSsd()
        const found = await engine.find(keys)
        if (found.kind !== 'ready') throw new Error(`${tier}: expected a lease, got ${found.kind}`)
        memory.view.fill(0)
        const pairs = Uint32Array.from({ length: 2 * pages.length }, (_, i) => i >> 1)
        await client.restore({ lease: found.lease, groups: [{ group: 0, pairs }] })
        copies.push(Buffer.from(memory.view))
      }
      t.true(copies[0]?.equals(copies[1] as Buffer), `round ${round}: what the SSD gives back is what DRAM held`)
    }
    await engine.stop()
    await endsClean(t, manager)
  },
)

test.serial('X2: a client that scribbles over its own slot words harms nobody, and leaves nothing', async (t) => {
  const manager = await ManagerChild.start(t, { folder: folderOf(t) })
  const engine = await TestEngine.start(manager.socketPath, { salt: t.title })
  const session = await RawSession.greeted(manager.socketPath)
  session.keptFds = []
  const memory = native.createMemory(memoryBytesOf(SHAPE))
  t.is(await session.codeOf(registerOf(7), [memory]), 'registered')
  t.is(session.keptFds.length, 3)
  const [own, managers] = session.keptFds as [number, number, number]
  const bytes = SHAPE.slotCount * 64
  const foreign = t.throws<NodeJS.ErrnoException>(() => writeSync(managers, Buffer.alloc(64), 0, 64, 0))
  t.true(['EPERM', 'EBADF'].includes(foreign?.code ?? ''), "the Manager's words are its own")
  let noise = 1
  const scribble = () => {
    const words = Buffer.alloc(bytes)
    for (let at = 0; at < bytes; at += 4) {
      noise = (Math.imul(noise, 1_103_515_245) + 12_345) >>> 0
      words.writeUInt32LE(noise, at)
    }
    writeSync(own, words, 0, bytes, 0)
  }
  for (let round = 0; round < 40; round++) {
    const keys = keysNamed(`${t.title} ${round}`, 4)
    const items = { keys, pages: Uint32Array.of(0, 1, 2, 3) }
    const fields = { slot: round % SHAPE.slotCount, generation: round + 1, fence: round % 2 }
    const asked = session.codeOf({
      kind: 'publish',
      ...fields,
      partialOk: false,
      groups: [{ group: 0, layers: null, items }],
    })
    scribble()
    t.true(['publishing', 'slot_busy', 'slot_stale_generation'].includes(await asked))
    scribble()
    t.is(await session.codeOf({ kind: 'cancel', slot: fields.slot, generation: fields.generation }), 'ack')
  }
  await goesOn(t, engine, 8)
  session.close()
  for (const fd of [...session.keptFds, memory]) native.closeFd(fd)
  await engine.stop()
  await endsClean(t, manager)
})

// --- too many and too much -----------------------------------------------------------------------------------------

/** A connection that says nothing, and what it was told until it was closed. */
interface Visitor {
  readonly socket: Socket
  readonly told: Buffer[]
  closed: boolean
}

/** Resolves once the Manager's listener took it; a full backlog is asked again. */
async function visit(socketPath: string): Promise<Visitor> {
  for (;;) {
    const socket = connectSocket(socketPath)
    const visitor: Visitor = { socket, told: [], closed: false }
    socket.on('data', (chunk) => visitor.told.push(chunk))
    socket.on('close', () => {
      visitor.closed = true
    })
    const refused = await new Promise<string | null>((resolve) => {
      socket.once('connect', () => resolve(null))
      socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    })
    socket.on('error', () => {})
    if (refused === null) return visitor
    if (refused !== 'EAGAIN') throw new Error(`a connection failed with ${refused}`)
    await turn()
  }
}

const VISITORS = 1_000
const SESSIONS_MAX = 64

test.serial(
  `D6: of ${VISITORS.toLocaleString('en')} connections as many as there is room for stay, the others are told why, and an engine is served throughout`,
  async (t) => {
    const launcher = ['prlimit', '--nofile=256']
    const manager = await ManagerChild.start(t, { folder: folderOf(t), launcher })
    const engine = await TestEngine.start(manager.socketPath, { salt: t.title })
    const room = SESSIONS_MAX - 2
    const visitors: Visitor[] = []
    for (let wave = 0; wave < 10; wave++) {
      const arrivals = Array.from({ length: VISITORS / 10 }, () => visit(manager.socketPath))
      visitors.push(...(await Promise.all(arrivals)))
      await goesOn(t, engine, 1)
    }
    await eventually('everybody beyond the cap is gone', () => {
      return visitors.filter(({ closed }) => closed).length === VISITORS - room
    })
    const told = visitors
      .filter(({ closed }) => closed)
      .map(({ told: chunks }) => {
        const { message } = decodeReply(Buffer.concat(chunks).subarray(4))
        return message.kind === 'error' ? errorCodeName(message.code) : message.kind
      })
    t.deepEqual([...new Set(told)], ['capacity_sessions'])
    await goesOn(t, engine, 4)
    for (const { socket } of visitors) socket.destroy()
    await eventually('all have gone', async () => (await engine.scheduler.inspect('')).get('sessions') === 2)
    const late = await TestEngine.start(manager.socketPath, { salt: t.title })
    await goesOn(t, late, 1)
    await late.stop()
    await engine.stop()
    await endsClean(t, manager)
  },
)

test.serial(
  'X9: beside a peer that never stops asking and one that only sends nonsense, an engine is served',
  async (t) => {
    const manager = await ManagerChild.start(t, { folder: folderOf(t) })
    const engine = await TestEngine.start(manager.socketPath, { salt: t.title })
    const asker = connectSocket(manager.socketPath)
    let answers = 0
    asker.on('data', (chunk) => {
      answers += chunk.length
    })
    asker.on('error', () => {})
    asker.write(framed(HELLO, 1))
    const question = framed({ kind: 'ping', seq: 1, slotsOutstanding: 0 }, 2)
    const questions = Buffer.concat(Array.from({ length: 2_000 }, () => question))
    const nonsense = Buffer.alloc(64, 0xee)
    nonsense.writeUInt32LE(60)
    let floods = 0
    let cut = 0
    let over = false
    const flood = async () => {
      while (!over) {
        if (asker.writableLength < 1 << 20) asker.write(questions)
        const liar = connectSocket(manager.socketPath)
        await new Promise<void>((resolve) => {
          liar.on('error', () => {})
          liar.resume()
          liar.on('close', () => {
            cut++
            resolve()
          })
          liar.write(nonsense)
        })
        floods++
      }
    }
    const flooding = flood()
    await goesOn(t, engine, 60)
    over = true
    await flooding
    t.true(floods > 0 && cut === floods, `${cut} of ${floods} liars were cut`)
    t.true(answers > 0 && !asker.destroyed, 'the asker was served, too')
    asker.destroy()
    await engine.stop()
    await endsClean(t, manager)
  },
)
