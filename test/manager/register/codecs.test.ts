import test from 'ava'
import { HOST_DEVICE } from '../../../src/manager/lanes/served-device.js'
import { errorCodeName } from '../../../src/shared/base/errors.js'
import { RAW_REASONS } from '../../../src/shared/codec/coding.js'
import type { CodecName } from '../../../src/shared/codec/setting.js'
import { ITEM_CODING, ITEM_FORMAT, ITEM_ROLE, ITEM_SCALAR } from '../../../src/shared/layout/descriptors.js'
import type { MessageOf, WireReply } from '../../../src/shared/layout/wire/messages.js'
import { ManagerFixture, registration } from '../fixture.js'

const LAYERS = 5
const PAGES = 2
const PAGE_BYTES = 1024
const MEMORY_BYTES = LAYERS * PAGES * PAGE_BYTES
const UUID = new Uint8Array(16).map((_, i) => i)
const GPU = { name: 'cuda:0', uuid: 'GPU-00010203-0405-0607-0809-0a0b0c0d0e0f' } as const

type Region = MessageOf<'register'>['regions'][number]

/** REGISTER of the one rank of instance 1: five layers of a token of two heads of 128, K and V side by side. */
function fiveLayers(change: Partial<Region> = {}, rest: Partial<MessageOf<'register'>> = {}): MessageOf<'register'> {
  const message = registration(1, 0, 1)
  const regions = Array.from({ length: LAYERS }, (_, i) => ({
    ...(message.regions[0] as Region),
    layer: `layer.${i}`,
    offsetBytes: i * PAGES * PAGE_BYTES,
    pageCount: PAGES,
    pageStrideBytes: PAGE_BYTES,
    segmentBytes: PAGE_BYTES,
    segmentStrideBytes: PAGE_BYTES,
    dtype: 'bfloat16',
    headDim: 128,
    heads: 2,
    ...change,
  }))
  return { ...message, allocations: [{ kind: 'host_fd', bytes: MEMORY_BYTES }], regions, ...rest }
}

function managerOf(name: CodecName): ManagerFixture {
  const manager = new ManagerFixture({ codec: { name }, devices: [HOST_DEVICE, GPU] })
  manager.importDevice = (_, __, ___, bytes) => ({ mapping: 700, bytes, device: 'cuda:0' })
  manager.greet(1)
  return manager
}

function codeOf(reply: WireReply | null): string {
  return reply?.kind === 'error' ? errorCodeName(reply.code) : (reply?.kind ?? 'nothing')
}

/** Codings of the one template that was defined, an item a row. */
function codingsOf({ templates }: ManagerFixture): number[][] | undefined {
  const [template] = templates
  if (template?.codings === undefined) return undefined
  const { doubles } = ITEM_CODING
  const { codings } = template
  return Array.from({ length: codings.length / doubles }, (_, i) => [
    ...codings.subarray(i * doubles, (i + 1) * doubles),
  ])
}

const RAW_ROW = [0, 0, 0, 0, 0, 0]

test('registering under a codec: the template says how each item is coded, and none without a codec', (t) => {
  const { bf16 } = ITEM_SCALAR
  const expected: [CodecName, number[][] | undefined][] = [
    ['none', undefined],
    ['ans', undefined],
    ['fp8', Array.from({ length: LAYERS }, () => [ITEM_FORMAT.fp8, bf16, ITEM_ROLE.none, 0, 0, 0])],
    [
      'turboquant-3',
      [RAW_ROW, RAW_ROW, [ITEM_FORMAT.turboquant, bf16, ITEM_ROLE.packed, 3, 128, 42 + 2 * 1337], RAW_ROW, RAW_ROW],
    ],
  ]
  for (const [name, rows] of expected) {
    const manager = managerOf(name)
    t.is(codeOf(manager.ask(1, fiveLayers(), [50])), 'registered')
    t.is(manager.templates.length, 1)
    t.deepEqual(codingsOf(manager), rows, name)
  }
})

test('registering under ANS: pages of a CUDA device are coded, pages of the host are not', (t) => {
  const big = { segmentBytes: 4096, segmentStrideBytes: 4096, pageStrideBytes: 4096, pageCount: 1 }
  const regions = fiveLayers(big).regions.map((region, i) => ({ ...region, offsetBytes: i * 4096 }))
  const manager = managerOf('ans')
  const message = fiveLayers(
    {},
    {
      regions,
      device: { kind: 'cuda', uuid: UUID },
      allocations: [{ kind: 'cuda_ipc', handle: new Uint8Array(64).fill(7), offsetBytes: 0, bytes: LAYERS * 4096 }],
    },
  )
  t.is(codeOf(manager.ask(1, message)), 'registered')
  const row = [ITEM_FORMAT.ans, ITEM_SCALAR.bf16, ITEM_ROLE.none, 0, 0, 0]
  t.deepEqual(
    codingsOf(manager),
    Array.from({ length: LAYERS }, () => row),
  )
  const onHost = managerOf('ans')
  const host = { ...message, ...hostMemory(LAYERS * 4096) }
  t.is(codeOf(onHost.ask(1, host, [50])), 'registered')
  t.is(codingsOf(onHost), undefined)
})

function hostMemory(bytes: number): Pick<MessageOf<'register'>, 'device' | 'allocations'> {
  return { device: { kind: 'host', uuid: new Uint8Array(16) }, allocations: [{ kind: 'host_fd', bytes }] }
}

test('registering under TurboQuant: heads that contradict the pages are refused, nothing is kept, and the next is served', (t) => {
  const manager = managerOf('turboquant-4')
  const before = manager.log.length
  t.is(codeOf(manager.ask(1, fiveLayers({ heads: 3 }), [50])), 'geometry_invalid')
  t.deepEqual(manager.kinds(before, 'close-fd', 'release-mapping', 'port-release-slots'), [
    'close-fd',
    'release-mapping',
  ])
  t.is(manager.templates.length, 0)
  t.is(codeOf(manager.ask(1, fiveLayers({ heads: 0 }), [50])), 'registered', 'unknown heads are stored as they are')
  t.is(codingsOf(manager), undefined)
})

test('registering with the same wrong heads is no error where no codec uses them', (t) => {
  for (const name of ['none', 'fp8', 'ans'] as const) {
    t.is(codeOf(managerOf(name).ask(1, fiveLayers({ heads: 3 }), [50])), 'registered', name)
  }
})

test('registering page-first under a codec: the instance is stored by layer, in a namespace of its own', (t) => {
  const namespaces = (['none', 'fp8', 'turboquant-4', 'turboquant-3'] as const).map((name) => {
    const reply = managerOf(name).ask(1, fiveLayers({}, { pageFirst: true }), [50])
    return reply?.kind === 'registered' ? Buffer.from(reply.storageNamespace).toString('hex') : codeOf(reply)
  })
  t.true(namespaces.every((digest) => /^[0-9a-f]{64}$/.test(digest)))
  t.is(new Set(namespaces).size, 4)
})

test('INSPECT under a codec says how many layers are coded and why others are not; main is told when the instance seals', (t) => {
  const manager = managerOf('turboquant-4')
  const { regions } = fiveLayers()
  const mixed = regions.map((region, i) => (i === 2 ? region : { ...region, dtype: i === 0 ? 'uint8' : 'bfloat16' }))
  t.is(codeOf(manager.ask(1, fiveLayers({}, { regions: mixed }), [50])), 'registered')
  const told = manager.log.flatMap((effect) =>
    effect.kind === 'control' && effect.reply.kind === 'codec-chosen' ? [effect.reply] : [],
  )
  t.is(told.length, 1)
  t.is(told[0]?.coded, 1)
  const counts = told[0]?.list.doubles ?? []
  t.deepEqual(
    RAW_REASONS.filter((_, i) => counts[i] !== 0).map((reason) => [reason, counts[RAW_REASONS.indexOf(reason)]]),
    [
      ['dtype', 1],
      ['protected', 3],
    ],
  )
  const numbers = manager.ask(1, { kind: 'inspect', what: '' })
  const values = new Map(numbers?.kind === 'numbers' ? numbers.values.map(({ name, value }) => [name, value]) : [])
  t.is(values.get('codecLayersCoded'), 1)
  t.is(values.get('codecLayersRaw.protected'), 3)
  t.is(values.get('codecLayersRaw.dtype'), 1)
  t.is(values.get('codecLayersRaw.role'), undefined)
})

test('without a codec INSPECT and main hear nothing of layers', (t) => {
  const manager = managerOf('none')
  t.is(codeOf(manager.ask(1, fiveLayers(), [50])), 'registered')
  t.false(manager.log.some((effect) => effect.kind === 'control'))
  const numbers = manager.ask(1, { kind: 'inspect', what: '' })
  t.is(numbers?.kind, 'numbers')
  t.false(numbers?.kind === 'numbers' && numbers.values.some(({ name }) => name.startsWith('codec')))
})

test('layers that are too small to save anything are counted as raw', (t) => {
  const manager = managerOf('fp8')
  const tiny = fiveLayers({ segmentBytes: 512, segmentStrideBytes: 512 })
  t.is(codeOf(manager.ask(1, tiny, [50])), 'registered')
  t.is(codingsOf(manager), undefined)
  const numbers = manager.ask(1, { kind: 'inspect', what: '' })
  const values = new Map(numbers?.kind === 'numbers' ? numbers.values.map(({ name, value }) => [name, value]) : [])
  t.is(values.get('codecLayersCoded'), 0)
  t.is(values.get('codecLayersRaw.small'), LAYERS)
})
