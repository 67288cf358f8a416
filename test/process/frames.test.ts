import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { connect as connectSocket } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { connect } from '../../src/client/index.js'
import { type ErrorCode, errorCodeName } from '../../src/shared/base/errors.js'
import { decodeReply, encodeFrame } from '../../src/shared/layout/wire/frame.js'
import type { MessageOf } from '../../src/shared/layout/wire/messages.js'
import { keysNamed, memoryBytesOf, registrationOf, SHAPE, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild, SETTLE_MS } from '../support/manager-child.js'
import { needs } from '../support/needs.js'
import { HELLO, RawSession, sendStream } from '../support/raw-session.js'

/**
 * X1 and X3 against a real Manager: whatever a peer sends is refused with a typed error or a closed connection, and
 * changes nothing: what is owned is the same before and after, no descriptor stays, other engines go on.
 */

const native = loadNative()
const atTheEnd: (() => unknown)[] = []
const teardown = (run: () => unknown) => void atTheEnd.push(run)
let manager: ManagerChild
/** An engine that is there all the time, with two leases' worth of published keys. */
let engine: TestEngine
const KEYS = keysNamed('frames', 4)

test.before(async () => {
  manager = await ManagerChild.start({ teardown }, { folder: folderOf({ teardown } as unknown as ExecutionContext) })
  engine = await TestEngine.start(manager.socketPath, { salt: 'frames' })
  await engine.publish(KEYS)
  await engine.rank.client.sync(true)
})
test.after('the Manager of this file drains and exits with 0', async (t) => {
  const found = await engine.find(KEYS)
  t.is(found.kind, 'ready')
  if (found.kind === 'ready') t.is(await engine.restore(KEYS, found.lease), 0, 'the bystander has all its bytes')
  await engine.stop()
  await endsClean(t as never, manager)
})
test.after.always(async () => {
  for (const run of atTheEnd.reverse()) await run()
})

/** Waits until the bystander alone is there, and nothing of what anybody asked for is on its way. */
async function alone(): Promise<void> {
  await eventually('the bystander is alone', async () => {
    const seen = await engine.scheduler.inspect('')
    return seen.get('sessions') === 2 && seen.get('operationsOpen') === 0 && seen.get('leases') === 0
  })
}

/** Runs `body`; afterwards everything owned, and every descriptor, is as before. */
async function changesNothing(t: ExecutionContext, body: () => Promise<void>): Promise<void> {
  const image = async () => JSON.stringify([...(await engine.scheduler.inspect(''))])
  const before = await image()
  const fds = manager.fdCount()
  await body()
  let after = ''
  await eventually(
    'the Manager is as it was',
    async () => {
      after = await image()
      return after === before && manager.fdCount() <= fds
    },
    SETTLE_MS,
    () => `${before} ${after}, descriptors ${fds} -> ${manager.fdCount()}`,
  )
  t.pass()
}

const encode = (message: Parameters<typeof encodeFrame>[2], request = 7) => {
  const target = new Uint8Array(1 << 20)
  return target.slice(0, encodeFrame(target, request, message))
}

/** The code of the only error frame in a stream of bytes from the Manager; null for none. */
function codeIn(stream: Buffer): ErrorCode | null {
  if (stream.length < 4) return null
  const { message } = decodeReply(stream.subarray(4, 4 + stream.readUInt32LE(0)))
  return message.kind === 'error' ? errorCodeName(message.code) : null
}

function withLength(frame: Uint8Array, length = frame.length): Buffer {
  const word = Buffer.alloc(4)
  word.writeUInt32LE(length)
  return Buffer.concat([word, frame])
}

test.serial('X1: garbage, truncated, oversized and empty frames end their connection and nothing else', async (t) => {
  const hello = encode(HELLO)
  const unknownType = Buffer.from(hello)
  unknownType.writeUInt16LE(999, 0)
  const flags = Buffer.from(hello)
  flags.writeUInt16LE(1, 2)
  const cases: readonly (readonly [what: string, bytes: Buffer, code: ErrorCode | null, end: boolean])[] = [
    ['random bytes', Buffer.from(Array.from({ length: 400 }, (_, i) => (i * 73 + 11) & 0xff)), null, true],
    ['half a length word', Buffer.from([1, 0]), null, true],
    ['half a frame', withLength(hello).subarray(0, 20), null, true],
    ['a length of zero', withLength(new Uint8Array(0)), null, false],
    ['a length of 1 MiB', withLength(new Uint8Array(0), 1 << 20), null, false],
    ['a length of 4 GiB', withLength(new Uint8Array(0), 0xffff_ffff), null, false],
    ['a frame shorter than its header', withLength(new Uint8Array(5)), 'frame_malformed', false],
    ['bytes left over', withLength(Buffer.concat([hello, Buffer.from([0])])), 'frame_malformed', false],
    ['a cut body', withLength(hello.subarray(0, hello.length - 1)), 'frame_malformed', false],
    ['reserved flags', withLength(flags), 'frame_malformed', false],
    ['an unknown type', withLength(unknownType), 'unknown_message', false],
    ['a reply from a client', withLength(encode({ kind: 'ack' })), 'unknown_message', false],
    [
      'a HELLO of another version',
      withLength(encode({ ...HELLO, protoMin: 900, protoMax: 901 })),
      'version_mismatch',
      true,
    ],
  ]
  await changesNothing(t, async () => {
    for (const [what, bytes, code, end] of cases)
      t.is(codeIn(await sendStream(manager.socketPath, bytes, end)), code, what)
  })
})

test.serial(
  'X1: a HELLO of a later version is refused by name although the rest of it is laid out otherwise',
  async (t) => {
    await changesNothing(t, async () => {
      const frame = Buffer.concat([encode({ ...HELLO, protoMin: 3, protoMax: 4 }), Buffer.from('fields of the future')])
      t.is(codeIn(await sendStream(manager.socketPath, withLength(frame), false)), 'version_mismatch')
    })
  },
)

test.serial('X1: requests before HELLO, and a second HELLO, are refused and the session goes on', async (t) => {
  await changesNothing(t, async () => {
    const session = RawSession.open(manager.socketPath)
    t.is(await session.codeOf({ kind: 'ping', seq: 1, slotsOutstanding: 0 }), 'not_greeted')
    t.is(await session.codeOf(HELLO), 'welcome')
    t.is(await session.codeOf(HELLO), 'already_greeted')
    t.is(await session.codeOf({ kind: 'ping', seq: 1, slotsOutstanding: 0 }), 'pong')
    session.close()
  })
})

test.serial('X1: verbs without an instance are refused', async (t) => {
  await changesNothing(t, async () => {
    const groups = [{ group: 0, firstBlock: 0, keys: KEYS }]
    const restore = { kind: 'restore', slot: 0, generation: 1, lease: 1, fence: 0, groups: [] } as const
    const publish = { kind: 'publish', slot: 0, generation: 1, fence: 0, partialOk: false, groups: [] } as const
    const session = await RawSession.greeted(manager.socketPath)
    t.is(await session.codeOf({ kind: 'query', requestId: 1, revision: 0, allowSsd: true, groups }), 'instance_unknown')
    t.is(await session.codeOf(restore), 'instance_unknown')
    t.is(await session.codeOf(publish), 'instance_unknown')
    t.is(await session.codeOf({ kind: 'renew', lease: 1, extendMs: 1 }), 'instance_unknown')
    t.is(await session.codeOf({ kind: 'query_poll', ticket: 12_345 }), 'ticket_unknown')
    t.is(
      await session.codeOf({ kind: 'attach', instanceId: engine.instanceId }),
      'instance_conflict',
      'a worker attaches',
    )
    t.is(await session.codeOf({ kind: 'unregister' }), 'ack', 'leaving nothing is idempotent')
    t.is(await session.codeOf({ kind: 'cancel', slot: 99, generation: 1 }), 'ack', 'cancel is idempotent')
    session.close()
    const scheduler = await RawSession.greeted(manager.socketPath, 'scheduler')
    t.is(await scheduler.codeOf({ kind: 'attach', instanceId: new Uint8Array(16) }), 'instance_unknown')
    t.is(await scheduler.codeOf({ kind: 'attach', instanceId: engine.instanceId }), 'attached')
    t.is(await scheduler.codeOf(restore), 'instance_unknown', 'a scheduler has no pages')
    scheduler.close()
  })
})

/** A REGISTER that is right, to be made wrong. */
function registerOf(instance: number): MessageOf<'register'> {
  const { memory, namespaceInputs, ...rest } = registrationOf(
    { ...SHAPE, salt: 'raw' },
    0,
    { bytes: 0 } as never,
    new Uint8Array(16).fill(instance),
  )
  return {
    kind: 'register',
    ...rest,
    canaries: [],
    namespaceInputs: [],
    claimedDigest: PLAIN_EMPTY,
    allocations: [{ kind: 'host_fd', bytes: memoryBytesOf(SHAPE) }],
  }
}

let PLAIN_EMPTY: Uint8Array
test.before(async () => {
  const { createHash } = await import('node:crypto')
  const { plainDigest } = await import('../../src/shared/layout/namespace.js')
  PLAIN_EMPTY = plainDigest((bytes) => createHash('sha256').update(bytes).digest(), new Map())
})

type Register = MessageOf<'register'>
type Region = Register['regions'][number]

/** A REGISTER whose first region is changed. */
function withRegion(change: Partial<Region>): (register: Register) => Register {
  return (register) => ({
    ...register,
    regions: register.regions.map((region, i) => (i === 0 ? { ...region, ...change } : region)),
  })
}

const MIB = 1 << 20
const FAR = 2 ** 53 - 1

test.serial(
  'X3: a registration that lies about its memory is refused with a typed error and leaves nothing',
  async (t) => {
    const cases: readonly (readonly [what: string, code: ErrorCode, change: (register: Register) => Register])[] = [
      ['a region past its allocation', 'region_out_of_bounds', withRegion({ offsetBytes: 3 * MIB })],
      ['one page too many', 'region_out_of_bounds', withRegion({ pageCount: 100_000 })],
      ['an offset near 2^53', 'region_out_of_bounds', withRegion({ offsetBytes: FAR - 10 })],
      ['a page stride near 2^53', 'region_out_of_bounds', withRegion({ pageStrideBytes: FAR })],
      ['a segment stride near 2^53', 'region_out_of_bounds', withRegion({ segmentStrideBytes: FAR })],
      [
        'a segment near 2^53',
        'region_overlap',
        withRegion({ segmentBytes: FAR, pageStrideBytes: FAR, segmentStrideBytes: FAR }),
      ],
      ['layers that overlap', 'region_overlap', withRegion({ offsetBytes: 4_096 + 2 * 1_000 * 32 })],
      ['pages that overlap', 'geometry_invalid', withRegion({ pageStrideBytes: 999 })],
      ['K and V that overlap', 'geometry_invalid', withRegion({ segmentStrideBytes: 999 })],
      ['no pages', 'geometry_invalid', withRegion({ pageCount: 0 })],
      ['segments of no bytes', 'geometry_invalid', withRegion({ segmentBytes: 0 })],
      ['an allocation that is not there', 'region_out_of_bounds', withRegion({ allocation: 9 })],
      ['a group that is not there', 'geometry_invalid', withRegion({ group: 9 })],
      ['one name for two layers', 'geometry_invalid', withRegion({ layer: 'layer.001' })],
      ['no regions', 'geometry_invalid', (r) => ({ ...r, regions: [] })],
      ['no groups', 'geometry_invalid', (r) => ({ ...r, groups: [] })],
      [
        'a gap in the groups',
        'geometry_invalid',
        (r) => ({ ...r, groups: r.groups.map((group) => ({ ...group, id: 3 })) }),
      ],
      [
        'a group number of 2^32 - 1',
        'geometry_invalid',
        (r) => ({ ...r, groups: [...r.groups, ...r.groups.map((group) => ({ ...group, id: 0xffff_ffff }))] }),
      ],
      ['a group twice', 'geometry_invalid', (r) => ({ ...r, groups: [...r.groups, ...r.groups] })],
      [
        'a sliding window of no tokens',
        'geometry_invalid',
        (r) => ({ ...r, groups: r.groups.map((group) => ({ ...group, kind: 'sliding-window', window: 0 })) }),
      ],
      [
        'more bytes than the memory has',
        'region_out_of_bounds',
        (r) => ({ ...r, allocations: [{ kind: 'host_fd', bytes: 64 * MIB }] }),
      ],
      ['a rank outside its size', 'geometry_invalid', (r) => ({ ...r, tpRank: 1 })],
      ['a world size of its own', 'geometry_invalid', (r) => ({ ...r, worldSize: 3 })],
      ['no slots', 'slot_out_of_range', (r) => ({ ...r, slotCount: 0 })],
      ['too many slots', 'slot_out_of_range', (r) => ({ ...r, slotCount: 70_000 })],
      [
        'a CUDA device that is not here',
        'device_unknown',
        (r) => ({ ...r, device: { kind: 'cuda', uuid: new Uint8Array(16) } }),
      ],
      ['a claimed digest that is wrong', 'namespace_mismatch', (r) => ({ ...r, claimedDigest: new Uint8Array(32) })],
      [
        'a canary that is not there',
        'canary_mismatch',
        (r) => ({
          ...r,
          canaries: [{ region: 0, firstPage: new Uint8Array(64).fill(1), lastPage: new Uint8Array(64) }],
        }),
      ],
      [
        'a canary of no region',
        'geometry_invalid',
        (r) => ({ ...r, canaries: [{ region: 77, firstPage: new Uint8Array(64), lastPage: new Uint8Array(64) }] }),
      ],
    ]
    await changesNothing(t, async () => {
      const session = await RawSession.greeted(manager.socketPath)
      const fd = native.createMemory(memoryBytesOf(SHAPE))
      for (const [i, [what, code, change]] of cases.entries()) {
        t.is(await session.codeOf(change(registerOf(i + 1)), [fd]), code, what)
      }
      t.is(
        await session.codeOf(registerOf(99), [fd]),
        'registered',
        'the same session registers when it tells the truth',
      )
      t.is(await session.codeOf(registerOf(99), [fd]), 'instance_conflict', 'twice in one session')
      session.close()
      native.closeFd(fd)
    })
  },
)

test.serial('X5: memory that is not a sealed memfd, and descriptors too few or too many, are refused', async (t) => {
  await changesNothing(t, async () => {
    const session = await RawSession.greeted(manager.socketPath)
    const good = native.createMemory(memoryBytesOf(SHAPE))
    const file = openSync('/proc/self/exe', 'r')
    const null_ = openSync('/dev/null', 'r+')
    t.is(await session.codeOf(registerOf(1), [file]), 'memory_not_sealed', 'a file')
    t.is(await session.codeOf(registerOf(1), [null_]), 'memory_not_sealed', 'a device')
    t.is(await session.codeOf(registerOf(1), []), 'missing_descriptor')
    t.is(await session.codeOf(registerOf(1), [good, good]), 'missing_descriptor', 'one too many')
    t.is(await session.codeOf({ kind: 'ping', seq: 1, slotsOutstanding: 0 }, [good, good, good]), 'missing_descriptor')
    const many = {
      ...registerOf(1),
      allocations: Array.from({ length: 64 }, () => ({ kind: 'host_fd' as const, bytes: 4_096 })),
    }
    t.is(
      await session.codeOf(
        many,
        Array.from({ length: 63 }, () => good),
      ),
      'missing_descriptor',
    )
    session.close()
    for (const fd of [file, null_]) closeSync(fd)
    native.closeFd(good)
  })
})

const python = spawnSync('python3', ['--version']).status === 0
needs(python, 'python3 is not installed')('X5: an unsealed memfd, a pipe and a socket are refused', async (t) => {
  const register = Buffer.from(encode(registerOf(1))).toString('hex')
  const hello = Buffer.from(encode(HELLO, 1)).toString('hex')
  const script = `
import array, os, socket, struct, sys
def frame(s, body, fds=[]):
    s.sendmsg([struct.pack('<I', len(body)) + body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else [])
    n = struct.unpack('<I', s.recv(4, socket.MSG_WAITALL))[0]
    r = s.recv(n, socket.MSG_WAITALL)
    kind, = struct.unpack('<H', r[:2])
    return struct.unpack('<H', r[12:14])[0] if kind == 141 else -kind
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
frame(s, bytes.fromhex(sys.argv[2]))
unsealed = os.memfd_create('x', os.MFD_ALLOW_SEALING); os.ftruncate(unsealed, 1 << 20)
noseals = os.memfd_create('y'); os.ftruncate(noseals, 1 << 20)
import fcntl
half = os.memfd_create('z', os.MFD_ALLOW_SEALING); os.ftruncate(half, 1 << 20); fcntl.fcntl(half, 1033, 2)
r, w = os.pipe()
print([frame(s, bytes.fromhex(sys.argv[3]), [fd]) for fd in (unsealed, noseals, half, r, s.fileno())])
`
  await changesNothing(t, async () => {
    const run = spawnSync('python3', ['-c', script, manager.socketPath, hello, register], { encoding: 'utf8' })
    t.is(run.stderr, '')
    t.deepEqual(
      (JSON.parse(run.stdout) as number[]).map(errorCodeName),
      Array.from({ length: 5 }, () => 'memory_not_sealed'),
    )
  })
})

test.serial(
  'ranks: a taken rank, another geometry and another namespace are refused, and the first is undisturbed',
  async (t) => {
    await changesNothing(t, async () => {
      const fd = native.createMemory(memoryBytesOf(SHAPE))
      const two: Register = { ...registerOf(50), tpSize: 2, worldSize: 2 }
      const first = await RawSession.greeted(manager.socketPath)
      const second = await RawSession.greeted(manager.socketPath)
      t.is(await first.codeOf(two, [fd]), 'registered')
      t.is(await second.codeOf(two, [fd]), 'rank_taken')
      t.is(await second.codeOf({ ...two, tpRank: 1, pageFirst: true }, [fd]), 'instance_conflict')
      t.is(await second.codeOf({ ...two, tpRank: 1, tpSize: 4, worldSize: 4 }, [fd]), 'instance_conflict')
      const other = { ...two, tpRank: 1, regions: two.regions.map((region) => ({ ...region, dtype: 'float16' })) }
      t.is(await second.codeOf(other, [fd]), 'geometry_conflict')
      const fewer = { ...two, tpRank: 1, regions: two.regions.slice(1) }
      t.is(await second.codeOf(fewer, [fd]), 'geometry_conflict')
      const query = {
        kind: 'query',
        requestId: 1,
        revision: 0,
        allowSsd: true,
        groups: [{ group: 0, firstBlock: 0, keys: KEYS }],
      } as const
      t.is(await first.codeOf(query), 'instance_not_sealed')
      t.is(await second.codeOf({ ...two, tpRank: 1 }, [fd]), 'registered')
      t.is(await first.codeOf(query), 'miss')
      first.close()
      await eventually('the first rank has left', async () => (await second.codeOf(query)) === 'instance_unknown')
      second.close()
      native.closeFd(fd)
    })
  },
)

test.serial(
  'requests: everything out of range or not there is refused with its own code, and changes nothing',
  async (t) => {
    const fd = native.createMemory(memoryBytesOf(SHAPE))
    const session = await RawSession.greeted(manager.socketPath)
    t.is(await session.codeOf(registerOf(60), [fd]), 'registered')
    const keys = keysNamed('requests', 2)
    const query: MessageOf<'query'> = {
      kind: 'query',
      requestId: 1,
      revision: 0,
      allowSsd: true,
      groups: [{ group: 0, firstBlock: 0, keys }],
    }
    const publish: MessageOf<'publish'> = {
      kind: 'publish',
      slot: 0,
      generation: 1,
      fence: 0,
      partialOk: false,
      groups: [{ group: 0, layers: null, items: { keys, pages: Uint32Array.of(0, 1) } }],
    }
    const layersOf = (layers: number[]) => ({
      ...publish,
      groups: publish.groups.map((group) => ({ ...group, layers: Uint32Array.from(layers) })),
    })
    const pagesOf = (...pages: number[]) => ({
      ...publish,
      groups: [{ group: 0, layers: null, items: { keys, pages: Uint32Array.from(pages) } }],
    })
    const restore: MessageOf<'restore'> = {
      kind: 'restore',
      slot: 1,
      generation: 1,
      lease: 1,
      fence: 0,
      groups: [{ group: 0, pairs: Uint32Array.of(0, 0, 1, 1) }],
    }
    await changesNothing(t, async () => {
      const codes: [string, ErrorCode, Parameters<RawSession['ask']>[0]][] = [
        [
          'a query without keys',
          'query_empty',
          { ...query, groups: [{ group: 0, firstBlock: 0, keys: new Uint8Array(0) }] },
        ],
        ['a query without groups', 'query_empty', { ...query, groups: [] }],
        ['a query of an unknown group', 'group_unknown', { ...query, groups: [{ group: 4, firstBlock: 0, keys }] }],
        ['a query of a group twice', 'group_unknown', { ...query, groups: [...query.groups, ...query.groups] }],
        [
          'a query of too many keys',
          'capacity_queue',
          { ...query, groups: [{ group: 0, firstBlock: 0, keys: new Uint8Array(16_385 * 32) }] },
        ],
        ['a page past the last', 'page_out_of_range', pagesOf(0, SHAPE.pages)],
        ['a page of 2^32 - 1', 'page_out_of_range', pagesOf(0, 0xffff_ffff)],
        [
          'a publication of an unknown group',
          'group_unknown',
          { ...publish, groups: publish.groups.map((group) => ({ ...group, group: 3 })) },
        ],
        [
          'a publication of a group twice',
          'group_unknown',
          { ...publish, groups: [...publish.groups, ...publish.groups] },
        ],
        ['a layer that is not there', 'layers_missing', layersOf([0, 77])],
        ['a slot past the last', 'slot_out_of_range', { ...publish, slot: SHAPE.slotCount }],
        ['a slot of 2^32 - 1', 'slot_out_of_range', { ...publish, slot: 0xffff_ffff }],
        ['a lease that never was', 'lease_unknown', { ...restore, lease: 999_999 }],
        ['a lease near 2^53', 'lease_unknown', { ...restore, lease: FAR }],
        ['a ticket that never was', 'ticket_unknown', { kind: 'query_poll', ticket: 999_999 }],
        ['renewing what never was', 'lease_unknown', { kind: 'renew', lease: 999_999, extendMs: 0xffff_ffff }],
      ]
      for (const [what, code, message] of codes) t.is(await session.codeOf(message), code, what)
      t.is(await session.codeOf({ kind: 'release', what: 'lease', id: 999_999 }), 'ack', 'release is idempotent')
      t.is(await session.codeOf({ kind: 'release', what: 'ticket', id: 999_999 }), 'ack')
    })

    t.is(await session.codeOf({ ...publish, fence: 5 }), 'publishing')
    t.is(await session.codeOf({ ...publish, generation: 2 }), 'slot_busy')
    t.is(await session.codeOf({ kind: 'cancel', slot: 0, generation: 1 }), 'ack')
    await eventually(
      'the cancelled publication has ended',
      async () => (await session.codeOf({ ...publish, generation: 1 })) !== 'slot_busy',
    )
    t.is(await session.codeOf({ ...publish, generation: 1 }), 'slot_stale_generation')
    t.is(await session.codeOf({ ...publish, generation: 2 }), 'publishing')
    t.is(await session.codeOf({ kind: 'sync', ssd: true }), 'ack')
    const found = await session.ask(query)
    if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)

    const pairs = (...numbers: number[]) => ({
      ...restore,
      lease: found.lease,
      groups: [{ group: 0, pairs: Uint32Array.from(numbers) }],
    })
    await changesNothing(t, async () => {
      const codes: [string, ErrorCode, MessageOf<'restore'>][] = [
        ['a source past the lease', 'source_out_of_range', pairs(0, 0, 2, 1)],
        ['a destination past the last page', 'page_out_of_range', pairs(0, SHAPE.pages)],
        ['one page twice', 'page_duplicate', pairs(0, 3, 1, 3)],
        [
          'a group that the lease does not hold',
          'group_unknown',
          { ...restore, lease: found.lease, groups: [{ group: 1, pairs: Uint32Array.of(0, 0) }] },
        ],
        ['a slot past the last', 'slot_out_of_range', { ...pairs(0, 0), slot: 1_000 }],
      ]
      for (const [what, code, message] of codes) t.is(await session.codeOf(message), code, what)
      const theirs = engine.rank.client
      await t.throwsAsync(theirs.restore({ lease: found.lease, groups: [] }), { code: 'lease_wrong_instance' })
      await t.throwsAsync(engine.scheduler.release('lease', found.lease), { code: 'lease_wrong_instance' })
      await t.throwsAsync(engine.scheduler.renew(found.lease, 1_000), { code: 'lease_wrong_instance' })
    })
    t.is(await session.codeOf(pairs(0, 0, 1, 1)), 'ack', 'the lease is as good as before')
    session.close()
    native.closeFd(fd)
    // Its restore may run on for a moment, and keeps the session: no test begins beside it.
    await alone()
  },
)

test.serial('X9: a client that never reads is cut, and others go on', async (t) => {
  await changesNothing(t, async () => {
    const socket = connectSocket(manager.socketPath)
    await new Promise<void>((resolve) => socket.once('connect', () => resolve()))
    socket.pause()
    let gone = false
    socket.on('close', () => {
      gone = true
    })
    socket.on('error', () => {})
    socket.write(withLength(encode(HELLO)))
    // Each INSPECT takes 20 bytes and gives about a thousand back.
    const inspects = Buffer.concat(
      Array.from({ length: 2_000 }, (_, i) => withLength(encode({ kind: 'inspect', what: '' }, i + 9))),
    )
    const sessions = async () => (await engine.scheduler.inspect('')).get('sessions') as number
    await eventually('the client that does not read is cut', async () => {
      if (socket.writableLength < 1 << 20 && !socket.destroyed) socket.write(inspects)
      return gone || (await sessions()) === 2
    })
    t.is(await engine.hits(KEYS), 4)
    socket.destroy()
  })
})

test.serial(
  'D6: sessions beyond the cap are refused by name, and 64 connections come and go without a trace',
  async (t) => {
    await changesNothing(t, async () => {
      const greeting = {
        socketPath: manager.socketPath,
        role: 'scheduler',
        engine: 'many',
        engineVersion: '1',
      } as const
      for (let round = 0; round < 2; round++) {
        // The bystander has two.
        const open = await Promise.all(Array.from({ length: 62 }, () => connect(greeting)))
        await t.throwsAsync(connect(greeting), { code: 'capacity_sessions', message: /64/ })
        t.is(await engine.hits(KEYS), 4)
        await Promise.all(open.map((client) => client.close()))
        await eventually('all have gone', async () => (await engine.scheduler.inspect('')).get('sessions') === 2)
      }
      const idle = Array.from({ length: 64 }, () => connectSocket(manager.socketPath))
      for (const socket of idle) socket.on('error', () => {})
      for (const socket of idle) socket.destroy()
    })
  },
)

test.serial('X1: a REGISTER with bytes drawn anew is refused or taken, and the Manager goes on', async (t) => {
  await changesNothing(t, async () => {
    const base = encode(registerOf(70))
    const fd = native.createMemory(memoryBytesOf(SHAPE))
    let seed = 12_345
    const draw = (below: number) => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
      return seed % below
    }
    for (let i = 0; i < 60; i++) {
      const session = await RawSession.greeted(manager.socketPath)
      const frame = Buffer.from(base)
      for (let flips = 1 + draw(4); flips > 0; flips--) frame[12 + draw(frame.length - 12)] = draw(256)
      session.sendBytes(frame, [fd])
      const reply = await session.reply(7)
      t.true(reply.kind === 'error' || reply.kind === 'registered', reply.kind)
      session.close()
    }
    native.closeFd(fd)
  })
})
