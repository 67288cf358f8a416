import type { ExecutionContext } from 'ava'
import { ENGINE_LAYOUTS, type EngineShape, keysNamed, TestEngine } from './engine.js'
import type { GateManager } from './gate-manager.js'

/** Pages of every layout and of sizes that are hard to move come back from DRAM and from SSD, whatever route they take. */

const KIB = 1024
const MIB = 1024 * KIB

/** Shapes whose pages are hard to move: unaligned segments, a page above a staging slot, many small layers. */
const SHAPES: readonly (readonly [string, Partial<EngineShape>, number])[] = [
  ...ENGINE_LAYOUTS.map((layout) => [`${layout}, 1,000 byte segments`, { layout }, 8] as const),
  ...ENGINE_LAYOUTS.map(
    (layout) => [`${layout}, 32 KiB segments of 8 layers`, { layout, layers: 8, segmentBytes: 32 * KIB }, 16] as const,
  ),
  ['a checkpoint of 10 MiB', { layout: 'packed', layers: 1, segmentBytes: 5 * MIB, pages: 6 }, 2],
  [
    'a checkpoint of 4 MiB and 1,000 bytes',
    { layout: 'page-first', layers: 1, segmentBytes: 2 * MIB + 500, pages: 6 },
    2,
  ],
]

/**
 * Claims that every byte of pages on `device` comes back, and that no other changes, through a Manager whose reads are
 * counted by `readBytes`.
 */
export async function claimLayouts(
  t: ExecutionContext,
  { manager, risen }: GateManager,
  device: string,
  readBytes: string,
): Promise<void> {
  for (const [name, shape, blocks] of SHAPES) {
    const keys = keysNamed(name, blocks)
    const first = await TestEngine.start(manager.socketPath, { ...shape, salt: name, device })
    await first.publish(keys)
    const hot = await first.find(keys)
    if (hot.kind !== 'ready') return t.fail(`${name}: not found in DRAM`)
    t.is(await first.restore(keys, hot.lease), 0, `${name}: from DRAM`)
    await first.toSsd()
    await first.stop()
    await risen(readBytes)

    const second = await TestEngine.start(manager.socketPath, { ...shape, salt: name, device })
    const cold = await second.find(keys)
    if (cold.kind !== 'ready') return t.fail(`${name}: not found on SSD`)
    t.is(await second.restore(keys, cold.lease), 0, `${name}: from SSD`)
    const engineBytes = second.blockBytes * blocks
    const read = await risen(readBytes)
    t.true(read >= engineBytes, `${name}: ${read} bytes were read for ${engineBytes}`)
    await second.stop()
  }
}
