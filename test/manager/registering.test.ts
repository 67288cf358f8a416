import test from 'ava'
import { HOST_DEVICE } from '../../src/manager/lanes/served-device.js'
import { ERROR_CODES, errorCodeName } from '../../src/shared/base/errors.js'
import { EMPTY_LIST } from '../../src/shared/layout/records.js'
import type { MessageOf, WireReply } from '../../src/shared/layout/wire/messages.js'
import { ManagerFixture, registration } from './fixture.js'

test('registering: group ids with a hole, twice or out of range are refused, and the Manager goes on', (t) => {
  const manager = new ManagerFixture()
  manager.greet(1)
  const message = registration(1, 0, 1)
  const group = { id: 0, kind: 'full-attention', blockTokens: 16, window: 0 } as const
  for (const ids of [[1], [0, 2], [0, 0], [2 ** 32 - 1], [0, 2 ** 32 - 1]]) {
    const reply = manager.ask(1, { ...message, groups: ids.map((id) => ({ ...group, id })) }, [50])
    t.is(reply?.kind === 'error' ? reply.code : 0, ERROR_CODES.geometry_invalid, `ids ${ids}`)
  }
  t.is(manager.ask(1, { ...message, groups: [group] }, [50])?.kind, 'registered')
})

const UUID = new Uint8Array(16).map((_, i) => i)
const UUID_TEXT = 'GPU-00010203-0405-0607-0809-0a0b0c0d0e0f'
const GPU = { name: 'cuda:0', uuid: UUID_TEXT } as const
const PAGE_BYTES = 4096
const MEMORY_BYTES = 8 * PAGE_BYTES

function handleOf(seed: number): Uint8Array {
  return new Uint8Array(64).fill(seed)
}

/** One rank whose pages lie in one allocation of a CUDA device. */
function onDevice(instance: number, change: Partial<MessageOf<'register'>> = {}): MessageOf<'register'> {
  return {
    ...registration(instance, 0, 1),
    device: { kind: 'cuda', uuid: UUID },
    allocations: [{ kind: 'cuda_ipc', handle: handleOf(7), offsetBytes: 512, bytes: MEMORY_BYTES }],
    ...change,
  }
}

/** A Manager that serves one CUDA device whose driver opens every handle. */
function withDevice(): ManagerFixture & { readonly imported: unknown[][] } {
  const imported: unknown[][] = []
  const manager = new ManagerFixture({ devices: [HOST_DEVICE, GPU] })
  manager.importDevice = (uuid, handle, offsetBytes, bytes) => {
    imported.push([uuid, handle[0], offsetBytes, bytes])
    return { mapping: 700 + imported.length, bytes, device: 'cuda:0' }
  }
  return Object.assign(manager, { imported })
}

function codeOf(reply: WireReply | null): string {
  return reply?.kind === 'error' ? errorCodeName(reply.code) : (reply?.kind ?? 'nothing')
}

test("registering: pages of a CUDA device are imported by UUID, and copied by that device's lanes alone", (t) => {
  const manager = withDevice()
  manager.greet(1)
  t.is(codeOf(manager.ask(1, onDevice(1))), 'registered')
  t.deepEqual(manager.imported, [[UUID_TEXT, 7, 512, MEMORY_BYTES]])
  manager.engine(5)
  t.is(manager.publish(1, 0, 1, 1)?.kind, 'publishing')
  t.is(manager.publish(5, 0, 1, 2)?.kind, 'publishing')
  const saves = manager.log.flatMap((each) => (each.kind === 'to-dram-worker' ? [each.device] : []))
  t.deepEqual(saves, [1, 0])
})

test('registering: memory of a dead engine is unmapped once its copies have ended, and not before', (t) => {
  const manager = withDevice()
  manager.greet(1)
  manager.ask(1, onDevice(1))
  manager.publish(1, 0, 1, 1)
  const sent = manager.log.find((each) => each.kind === 'to-dram-worker')
  const job = sent?.kind === 'to-dram-worker' && sent.request.kind === 'save' ? sent.request.job : -1
  manager.step({ kind: 'connection-ended', connection: 1 })
  t.deepEqual(manager.kinds(0, 'release-mapping'), [], 'the copy still reads it')
  manager.step({
    kind: 'dram-worker',
    device: 1,
    reply: { kind: 'save-done', job, status: ERROR_CODES.cancelled, list: EMPTY_LIST },
  })
  t.deepEqual(manager.kinds(0, 'release-mapping'), ['release-mapping'])
})

test('registering: device memory that cannot be served is refused by name, and leaves nothing mapped', (t) => {
  const [memory] = onDevice(1).allocations
  const host = { kind: 'host_fd', bytes: MEMORY_BYTES } as const
  const cases: readonly (readonly [string, string, Partial<MessageOf<'register'>>, number[]?])[] = [
    ['another UUID', 'device_unknown', { device: { kind: 'cuda', uuid: handleOf(1).slice(0, 16) } }],
    ['a host rank with device memory', 'device_unsupported', { device: { kind: 'host', uuid: UUID } }],
    ['a device rank with host memory', 'device_unsupported', { allocations: [memory as typeof host, host] }, [50]],
    [
      'a handle of zeros',
      'memory_not_importable',
      { allocations: [{ kind: 'cuda_ipc', handle: handleOf(0), offsetBytes: 0, bytes: MEMORY_BYTES }] },
    ],
    [
      'one range twice',
      'region_overlap',
      { allocations: [memory, { ...memory, offsetBytes: MEMORY_BYTES, bytes: 4096 }] as (typeof host)[] },
    ],
    ['memory of this process', 'memory_not_local', { allocations: [{ kind: 'local_mapping', bytes: 1, mapping: 3 }] }],
    [
      'a page outside',
      'region_out_of_bounds',
      { allocations: [{ ...memory, bytes: MEMORY_BYTES - 1 }] as (typeof host)[] },
    ],
    [
      'a canary that differs',
      'canary_mismatch',
      { canaries: [{ region: 0, firstPage: handleOf(1), lastPage: handleOf(1) }] },
    ],
  ]
  for (const [what, code, change, fds] of cases) {
    const manager = withDevice()
    manager.greet(1)
    t.is(codeOf(manager.ask(1, onDevice(1, change), fds ?? [])), code, what)
    const released = manager.log.flatMap((each) => (each.kind === 'release-mapping' ? [each.number] : []))
    const mapped = manager.imported.map((_, i) => 701 + i)
    t.deepEqual(released, mapped, `${what}: what was mapped is given back`)
    t.is(codeOf(manager.ask(1, onDevice(1))), 'registered', `${what}: the session can still register`)
  }
})

test('registering: two ranges of one handle are two allocations when they do not overlap', (t) => {
  const manager = withDevice()
  manager.greet(1)
  const half = { kind: 'cuda_ipc', handle: handleOf(9), bytes: MEMORY_BYTES } as const
  const allocations = [
    { ...half, offsetBytes: 0 },
    { ...half, offsetBytes: MEMORY_BYTES },
  ]
  t.is(codeOf(manager.ask(1, onDevice(1, { allocations }))), 'registered')
})

test("registering: what the driver says of a handle reaches the engine, and a handle of the Manager's own process is not tried", (t) => {
  const manager = withDevice()
  manager.importDevice = () => ({
    refused: 'EOPNOTSUPP',
    text: 'set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False',
  })
  manager.greet(1)
  const refused = manager.ask(1, onDevice(1))
  t.is(codeOf(refused), 'memory_not_importable')
  t.regex(refused?.kind === 'error' ? refused.message : '', /expandable_segments:False/)

  const own = new ManagerFixture({ devices: [HOST_DEVICE, GPU], ownPid: 1 })
  own.importDevice = () => t.fail() as never
  own.greet(1)
  const same = own.ask(1, onDevice(1))
  t.is(codeOf(same), 'memory_not_importable')
  t.regex(same?.kind === 'error' ? same.message : '', /this very process/)
})

test('registering: a session of protocol 1 cannot bring device memory', (t) => {
  const manager = withDevice()
  manager.greet(1, 1)
  t.is(codeOf(manager.ask(1, onDevice(1))), 'device_unsupported')
  t.deepEqual(manager.imported, [])
})
