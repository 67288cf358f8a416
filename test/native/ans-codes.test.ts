import { mkdtempSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { AnsBed, type AnsItem, normals, SECTOR } from '../support/ans-bed.js'
import { declareAnsClaims } from '../support/ans-claims.js'
import { type NvcompFile, type NvcompShim, nvcompShim } from '../support/nvcomp-shim.js'
import { cudaFaults, useCudaShims } from '../support/shims.js'

/** The claims of ANS over the twin of the driver and the stand-in for nvCOMP, and what must come of nvCOMP's failures. */

const KIB = 1024
const EIO = -5
const EBUSY = -16
const ENOMEM = -12
const ENODEV = -19
const EOPNOTSUPP = -95

useCudaShims()
const native = loadNative()
const items: AnsItem[] = Array.from({ length: 3 }, (_, i) => ({ scalar: 'bf16', content: normals(16 * KIB, i + 1) }))

test.serial('stand-in for nvCOMP: without it nothing is decoded, and items are stored as they are', (t) => {
  const bed = new AnsBed(t, native, items)
  const { result, stored } = bed.encode()
  t.is(result, 0)
  t.deepEqual(
    stored.map(({ bytes }) => bytes),
    [16 * KIB, 16 * KIB, 16 * KIB],
  )
  bed.checkPool(t, stored)
  const pretended = stored.map(({ crc }) => ({ bytes: 9000, crc }))
  t.deepEqual(bed.decode(pretended), { result: EOPNOTSUPP, refused: [] })
})

// Kept until the process ends: it stays loaded.
const shim: NvcompShim = nvcompShim(mkdtempSync(join(realpathSync(tmpdir()), 'orbitkv-nvcomp-')))

test.serial('stand-in for nvCOMP: it opens', (t) => {
  t.is(native.openNvcomp(shim.library).reason, 'ok')
})

declareAnsClaims((title, body) => {
  test.serial(`stand-in for nvCOMP: ${title}`, async (t) => {
    await body(t)
    t.deepEqual(shim.takeViolations(), [])
  })
}, native)

function told(t: ExecutionContext, name: NvcompFile, value: string | number): void {
  shim.tell(name, value)
  t.teardown(() => shim.forget(name))
}

for (const [name, value, what] of [
  ['chunk', '1 19', 'fails'],
  ['silent', '1', 'is not told of'],
] as const) {
  test.serial(
    `stand-in for nvCOMP: an item whose encoding ${what} is stored as it is, and the others are coded`,
    (t) => {
      const bed = new AnsBed(t, native, items)
      told(t, name, value)
      const { result, stored } = bed.encode()
      t.is(result, 0)
      t.is(stored[1]?.bytes, 16 * KIB)
      t.true([0, 2].every((i) => (stored[i]?.bytes ?? 0) < 16 * KIB))
      bed.checkPool(t, stored)
      shim.forget(name)
      t.deepEqual(bed.decode(stored), { result: 0, refused: [] })
      t.deepEqual(shim.takeViolations(), [])
    },
  )
}

for (const [name, value, what] of [
  ['chunk', '1 12', 'fails'],
  ['silent', '1', 'is not told of'],
  ['short', '1', 'has another length'],
] as const) {
  test.serial(`stand-in for nvCOMP: an item whose decoding ${what} is refused alone`, (t) => {
    const bed = new AnsBed(t, native, items)
    const { stored } = bed.encode()
    told(t, name, value)
    t.deepEqual(bed.decode(stored), { result: 0, refused: [1] })
    bed.checkPages(t, stored, [0, 2])
    shim.forget(name)
    t.deepEqual(bed.decode(stored), { result: 0, refused: [] })
    bed.checkPages(t, stored)
    t.deepEqual(shim.takeViolations(), [])
  })
}

test.serial('stand-in for nvCOMP: bytes that are no coding are refused, and those beside them decoded', (t) => {
  const bed = new AnsBed(t, native, items)
  const { stored } = bed.encode()
  bed.poolOf(2, 16).fill(0xee)
  t.deepEqual(bed.decode(stored), { result: 0, refused: [2] })
  bed.checkPages(t, stored, [0, 1])
  // A length that is not its own.
  const cut = stored.map((item, i) => (i === 0 ? { ...item, bytes: item.bytes - 8 } : item))
  t.deepEqual(bed.decode(cut), { result: 0, refused: [0, 2] })
})

test.serial('stand-in for nvCOMP: a call that it refuses fails its job, and the next one goes', (t) => {
  const bed = new AnsBed(t, native, items)
  const { stored } = bed.encode()
  told(t, 'compress', 1000)
  told(t, 'decompress', 10)
  t.is(bed.decode(stored).result, EIO)
  t.is(bed.encode().result, EIO)
  shim.forget('compress')
  shim.forget('decompress')
  const again = bed.encode()
  t.deepEqual(again, { result: 0, stored })
  t.deepEqual(bed.decode(stored), { result: 0, refused: [] })
  bed.checkPages(t, stored)
})

test.serial('stand-in for nvCOMP: temporary memory counts in the budget', (t) => {
  const bed = new AnsBed(t, native, items, { codecBudgetBytes: 256 * KIB })
  told(t, 'temp', 16 * KIB)
  shim.takeBatches()
  const { result, stored } = bed.encode()
  t.is(result, 0)
  bed.checkPool(t, stored)
  t.true(shim.takeBatches().every(({ tempBytes }) => tempBytes >= 16 * KIB))
  t.deepEqual(bed.decode(stored), { result: 0, refused: [] })
  bed.checkPages(t, stored)
  // Of another length, because what was asked last is not asked again.
  const larger = new AnsBed(t, native, [{ scalar: 'bf16', content: normals(24 * KIB, 1) }], {
    codecBudgetBytes: 256 * KIB,
  })
  const coded = larger.encode().stored
  told(t, 'temp', 512 * KIB)
  const narrow = new AnsBed(t, native, [{ scalar: 'bf16', content: normals(24 * KIB, 1) }], {
    codecBudgetBytes: 256 * KIB,
  })
  t.deepEqual(narrow.encode(), { result: 0, stored: [{ bytes: 24 * KIB, crc: narrow.encode().stored[0]?.crc }] })
  t.deepEqual(narrow.decode(coded), { result: ENOMEM, refused: [] })
  t.deepEqual(shim.takeViolations(), [])
})

test.serial('stand-in for nvCOMP: a job that waits for its lengths holds back those behind it until they come', (t) => {
  const bed = new AnsBed(t, native, items)
  const expected = bed.encode().stored
  told(t, 'hold', 1)
  t.is(bed.begin(1), 0)
  t.is(bed.lane.checksum(2, [0, SECTOR, SECTOR, SECTOR], 100), 0)
  t.is(bed.lane.port.pump(0, 0, 0), 0, 'nothing has ended')
  shim.forget('hold')
  const ended = bed.lane.reap(2).map(({ tag, result }) => [tag, result])
  t.deepEqual(ended, [
    [1, 0],
    [2, 0],
  ])
  t.deepEqual(bed.stored(), expected)
  bed.checkPool(t, expected)
})

test.serial('stand-in for nvCOMP: a lane that sleeps is woken for each step of a job', (t) => {
  const bed = new AnsBed(t, native, items)
  const expected = bed.encode().stored
  for (let turn = 0; turn < 20; turn++) t.deepEqual(bed.encode('park'), { result: 0, stored: expected })
  bed.checkPool(t, expected)
})

test.serial('stand-in for nvCOMP: a port that drains over a job that waits for its lengths lets it end', (t) => {
  const bed = new AnsBed(t, native, items)
  told(t, 'hold', 1)
  t.is(bed.begin(), 0)
  t.is(bed.lane.port.drain(1), 1, 'it is still in flight')
  shim.forget('hold')
  t.is(bed.lane.port.drain(60_000), 0)
  const ended = bed.lane.reap(1).map(({ result }) => result)
  t.deepEqual(ended, [0])
  bed.checkPool(t, bed.stored())
})

test.serial(
  'stand-in for nvCOMP: while a job of codings is in flight nothing is given back, and afterwards all of it',
  (t) => {
    const bed = new AnsBed(t, native, items)
    const { port, stream } = bed.lane
    const expected = bed.encode().stored
    const workspace = new Float64Array(3)
    const held = (): number => {
      port.codecWorkspace(stream, workspace)
      return workspace[1] as number
    }
    const before = held()
    t.true(before > 0)
    told(t, 'hold', 1)
    t.is(bed.begin(), 0)
    t.is(port.drain(1), 1, 'its lengths have not come')
    t.is(port.releaseCodecWorkspace(stream), EBUSY)
    t.is(held(), before)
    shim.forget('hold')
    const ended = bed.lane.reap(1).map(({ result }) => result)
    t.deepEqual(ended, [0])
    t.is(port.releaseCodecWorkspace(stream), 0)
    t.is(held(), 0)
    t.deepEqual(bed.encode(), { result: 0, stored: expected })
    bed.checkPool(t, expected)
  },
)

test.serial('stand-in for nvCOMP: work that the driver refuses between the steps fails its job alone', (t) => {
  const bed = new AnsBed(t, native, items)
  const expected = bed.encode().stored
  for (const fault of ['launch=701', 'copy=701']) {
    told(t, 'hold', 1)
    t.is(bed.begin(), 0)
    cudaFaults(fault)
    shim.forget('hold')
    const ended = bed.lane.reap(1).map(({ result }) => result)
    t.deepEqual(ended, [EIO], fault)
    cudaFaults('')
    t.deepEqual(bed.encode(), { result: 0, stored: expected })
  }
  bed.checkPool(t, expected)
  const workspace = new Float64Array(3)
  bed.lane.port.codecWorkspace(bed.lane.stream, workspace)
  t.is(workspace[0], 0, 'nothing is lent')
})

test.serial(
  'stand-in for nvCOMP: without device memory items are stored as they are, and decodings may be asked again',
  (t) => {
    const bed = new AnsBed(t, native, items)
    cudaFaults('alloc=2')
    const raw = bed.encode()
    cudaFaults('')
    t.is(raw.result, 0)
    t.true(raw.stored.every(({ bytes }) => bytes === 16 * KIB))
    bed.checkPool(t, raw.stored)
    const { result, stored } = bed.encode()
    t.is(result, 0)
    t.true(stored.every(({ bytes }) => bytes < 16 * KIB))
    cudaFaults('alloc=2')
    t.is(bed.decode(stored).result, ENOMEM)
    cudaFaults('')
    t.deepEqual(bed.decode(stored), { result: 0, refused: [] })
    bed.checkPages(t, stored)
  },
)

// The last: the device is lost for this process.
test.serial('stand-in for nvCOMP: a device that is lost between the steps ends every job once', (t) => {
  const bed = new AnsBed(t, native, items)
  told(t, 'hold', 1)
  t.is(bed.begin(1), 0)
  t.is(bed.lane.checksum(2, [0, SECTOR, SECTOR, SECTOR], 100), 0)
  cudaFaults('sticky=700')
  shim.forget('hold')
  const ended = bed.lane.reap(2).map(({ tag, result }) => [tag, result])
  t.deepEqual(ended, [
    [1, ENODEV],
    [2, ENODEV],
  ])
  t.is(bed.begin(3), ENODEV)
  cudaFaults('')
})
