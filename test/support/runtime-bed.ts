import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { OrbitKV } from '../../src/index.js'
import { MIB } from '../../src/shared/base/units.js'
import { directIoWorks } from './direct-io.js'
import { folderOf } from './folder.js'
import { HOST_IO } from './host-io.js'
import { needs } from './needs.js'

/** Runtimes for tests, closed with them. What engines hold is in engine-content.ts. */

const native = loadNative()

export const testWithSsd = needs(
  native.probe().available && directIoWorks(native),
  'an SSD tier needs io_uring and a temporary folder with direct I/O',
)

export type RuntimeOptions = Partial<Parameters<typeof OrbitKV.open>[0]>

/** Options of a runtime with an SSD tier in a folder of the test's own. */
export function optionsOf(t: ExecutionContext, options: RuntimeOptions = {}) {
  return {
    poolBytes: 32 * MIB,
    io: HOST_IO,
    ssd: { paths: [join(folderOf(t), 'kv.dat')], capacityBytes: 64 * MIB },
    ...options,
  }
}

/** An open runtime; closed with the test, whatever became of it. */
export async function open(t: ExecutionContext, options: RuntimeOptions = {}): Promise<OrbitKV> {
  const kv = await OrbitKV.open(optionsOf(t, options))
  t.teardown(async () => {
    await kv.close().catch(() => {})
  })
  return kv
}

/** Asks again until the answer is yes; each asking is a round trip, so nothing spins. */
export async function until(t: ExecutionContext, holds: () => Promise<boolean>): Promise<void> {
  for (let asked = 0; asked < 20_000; asked++) if (await holds()) return
  t.fail('asked 20,000 times and it never held')
}
