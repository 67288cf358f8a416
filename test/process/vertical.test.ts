import type { ExecutionContext } from 'ava'
import { ENGINE_LAYOUTS, keysNamed, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, eventually, ManagerChild } from '../support/manager-child.js'
import { testOver } from '../support/test-over.js'

/**
 * The whole way of a page: engine, Manager, SSD, another engine; once for every route, kind of I/O and layout. Each
 * Manager serves the four layouts one after another and must then rest and drain.
 */

const BLOCKS = 8

async function travels(
  t: ExecutionContext,
  manager: ManagerChild,
  layout: (typeof ENGINE_LAYOUTS)[number],
  route: string,
) {
  const keys = keysNamed(`vertical ${layout}`, BLOCKS)
  const shape = { layout, salt: `vertical ${layout}` } as const
  const writer = await TestEngine.start(manager.socketPath, shape)
  t.is(await writer.hits(keys), 0, 'nothing is findable before it is published')
  const [published] = await writer.publish(keys)
  t.is(published?.accepted, BLOCKS)
  t.is(published?.bytes, BLOCKS * writer.blockBytes)
  const again = await writer.publish(keys)
  t.is(again[0]?.present, BLOCKS, 'a duplicate is success without a copy')
  t.is(again[0]?.bytes, 0)
  await writer.toSsd()
  await eventually(
    'drop_dram leaves nothing in DRAM',
    async () => (await manager.metric('orbitkv_cache_resident_blocks')) === 0,
  )

  const found = await writer.find(keys)
  if (found.kind !== 'ready') return t.fail(`${layout}: ${found.kind}`)
  t.deepEqual([found.blocksDram, found.blocksSsd], [0, BLOCKS])
  t.is(await writer.restore(keys, found.lease), 0, `${layout}: every byte comes back from SSD`)
  await t.throwsAsync(writer.restore(keys, found.lease), { code: 'lease_already_redeemed' }, 'the lease is spent')

  const reader = await TestEngine.start(manager.socketPath, shape)
  const theirs = await reader.find(keys)
  if (theirs.kind !== 'ready') return t.fail(`${layout}, second engine: ${theirs.kind}`)
  t.is(theirs.blocksSsd, route === 'uring' ? BLOCKS : 0, 'the explicit route leaves pages on the SSD')
  t.is(await reader.restore(keys, theirs.lease), 0, `${layout}: another engine gets the same bytes`)

  const other = await TestEngine.start(manager.socketPath, { layout, salt: 'other namespace' })
  t.is(await other.hits(keys), 0, 'X7: another namespace never hits')
  for (const engine of [writer, reader, other]) await engine.stop()
}

for (const io of ['uring', 'posix'] as const) {
  for (const route of ['dram', 'uring'] as const) {
    testOver(io)(
      `pages travel from engine to SSD to engine: --ssd-io ${io}, route ${route}, every layout`,
      async (t) => {
        const flags = ['--ssd-io', io, ...(route === 'uring' ? ['--ssd-read-path', 'uring'] : [])]
        const manager = await ManagerChild.start(t, { folder: folderOf(t), flags })
        for (const layout of ENGINE_LAYOUTS) await travels(t, manager, layout, route)
        await endsClean(t, manager)
      },
    )
  }
}
