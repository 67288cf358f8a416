import { mkdtempSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { AnsBed, type AnsItem, normals } from '../support/ans-bed.js'
import { declareAnsClaims } from '../support/ans-claims.js'
import { type NvcompFile, type NvcompShim, nvcompShim } from '../support/nvcomp-shim.js'
import { useCudaShims } from '../support/shims.js'

/** The claims of ANS over the twin of the driver and the stand-in for nvCOMP, and what must come of nvCOMP's failures. */

const KIB = 1024
const EIO = -5
const ENOMEM = -12
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
