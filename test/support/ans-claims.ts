import type { Native } from '../../src/binding/surface.js'
import { AnsBed, type AnsItem, letters, noise, normals } from './ans-bed.js'
import type { Body } from './needs.js'

/**
 * What ANS must do on a CUDA device, whichever driver and library stand behind it: the real ones (test/device), or their
 * stand-ins (test/native). nvCOMP is open.
 */

const KIB = 1024
const MIB = 1024 * KIB

/** True when it is stored shorter than it was. */
const shorter = ({ content }: AnsItem, bytes: number): boolean => bytes > 0 && bytes < content.length

export function declareAnsClaims(declare: (title: string, body: Body) => void, native: Native): void {
  declare('ANS: items of every type and length come back exactly, and nothing beside them is touched', (t) => {
    const items: AnsItem[] = [
      { scalar: 'bf16', content: normals(256 * KIB, 1) },
      { scalar: 'fp16', content: normals(4096, 2) },
      { scalar: 'bytes', content: letters(4099, 3) },
      { scalar: 'bf16', content: normals(MIB, 4) },
      { scalar: 'e4m3', content: letters(64 * KIB + 8, 5) },
      { scalar: 'bytes', content: letters(12_345, 6) },
      { scalar: 'bf16', content: normals(8194, 7) },
    ]
    const bed = new AnsBed(t, native, items)
    for (let turn = 0; turn < 2; turn++) {
      const { result, stored } = bed.encode()
      t.is(result, 0)
      for (const [i, { bytes }] of stored.entries()) t.true(shorter(items[i] as AnsItem, bytes), `item ${i}: ${bytes}`)
      bed.checkPool(t, stored)
      t.deepEqual(bed.decode(stored), { result: 0, refused: [] })
      bed.checkPages(t, stored)
    }
  })

  declare('ANS: what does not save an eighth is stored as it is', (t) => {
    const half = normals(64 * KIB, 8)
    half.set(noise(60 * KIB, 9))
    const items: AnsItem[] = [
      { scalar: 'bytes', content: noise(256 * KIB, 1) },
      { scalar: 'bf16', content: normals(64 * KIB, 2) },
      { scalar: 'bf16', content: half },
      { scalar: 'e4m3', content: noise(4104, 3) },
    ]
    const bed = new AnsBed(t, native, items)
    const { result, stored } = bed.encode()
    t.is(result, 0)
    t.true(shorter(items[1] as AnsItem, stored[1]?.bytes ?? 0))
    for (const i of [0, 2, 3]) {
      t.is(stored[i]?.bytes, items[i]?.content.length, `item ${i} is raw`)
      t.deepEqual(Buffer.from(bed.poolOf(i, stored[i]?.bytes ?? 0)), Buffer.from(items[i]?.content ?? []))
    }
    bed.checkPool(t, stored)
    t.deepEqual(bed.decode(stored), { result: 0, refused: [] })
    bed.checkPages(t, stored)
  })

  declare('ANS: a job larger than the budget is coded in several batches', (t) => {
    const items = Array.from({ length: 24 }, (_, i): AnsItem => ({ scalar: 'bf16', content: normals(64 * KIB, i + 1) }))
    const bed = new AnsBed(t, native, items, { codecBudgetBytes: MIB })
    const { result, stored } = bed.encode()
    t.is(result, 0)
    bed.checkPool(t, stored)
    for (const [i, { bytes }] of stored.entries()) t.true(shorter(items[i] as AnsItem, bytes), `item ${i}: ${bytes}`)
    t.deepEqual(bed.decode(stored), { result: 0, refused: [] })
    bed.checkPages(t, stored)
    const workspace = new Float64Array(3)
    bed.lane.port.codecWorkspace(bed.lane.stream, workspace)
    const [reserved, held = 0, allocations] = workspace
    t.is(reserved, 0)
    t.true(held > 0 && held <= 2 * MIB, `${held} bytes held`)
    t.true((allocations ?? 0) > 0)
  })

  declare('ANS: jobs that are mixed with other codings and follow one another keep their order and bytes', (t) => {
    const items = Array.from(
      { length: 9 },
      (_, i): AnsItem => ({
        scalar: 'bf16',
        content: i === 4 ? noise(32 * KIB, 5) : normals((i + 1) * 8 * KIB, i + 1),
        format: i % 3 === 1 && i !== 4 ? 'fp8' : 'ans',
      }),
    )
    const bed = new AnsBed(t, native, items)
    const first = bed.encode()
    const second = bed.encode()
    t.deepEqual([first.result, second.result], [0, 0])
    t.deepEqual(
      first.stored.map(({ bytes }) => bytes),
      second.stored.map(({ bytes }) => bytes),
    )
    bed.checkPool(t, second.stored)
    t.is(second.stored[4]?.bytes, 32 * KIB)
    t.is(second.stored[1]?.bytes, 8 * KIB)
    t.deepEqual(bed.decode(second.stored), { result: 0, refused: [] })
    bed.checkPages(t, second.stored)
  })
}
