import { spawnSync } from 'node:child_process'
import { chownSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { connect } from '../../src/client/index.js'
import { keysNamed, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { HOST_IO } from '../support/host-io.js'
import { endsClean, ManagerChild, type ManagerStart } from '../support/manager-child.js'
import { needs } from '../support/needs.js'
import { asNobody, NOBODY_UID } from '../support/others.js'
import { RawSession } from '../support/raw-session.js'
import { launcherWithoutUring } from '../support/without-uring.js'

/** Hosts that forbid io_uring, and users without rights. */

const EPERM = 1
const filter = launcherWithoutUring(EPERM)
const filtered = spawnSync(filter[0] as string, [...filter.slice(1), 'true']).status === 0
const withFilter = needs(filtered, 'python3 and seccomp filters are not available')

async function travels(t: ExecutionContext, start: ManagerStart, allowUids: readonly number[] = []): Promise<void> {
  const manager = await ManagerChild.start(t, start)
  const engine = await TestEngine.start(manager.socketPath, { salt: t.title }, allowUids)
  const keys = keysNamed(t.title, 8)
  await engine.publish(keys)
  await engine.toSsd()
  const found = await engine.find(keys)
  if (found.kind !== 'ready') throw new Error(`expected a lease, got ${found.kind}`)
  t.is(found.blocksSsd, 8)
  t.is(await engine.restore(keys, found.lease), 0)
  await engine.stop()
  await endsClean(t, manager)
}

withFilter('where seccomp forbids io_uring the Manager refuses, naming seccomp and --ssd-io posix', async (t) => {
  const end = await ManagerChild.refused(t, { folder: folderOf(t), launcher: filter, flags: ['--ssd-io', 'uring'] })
  t.is(end.exitCode, 1)
  t.regex(end.stderr, /seccomp/)
  t.regex(end.stderr, /--ssd-io posix/)
  t.regex(end.stderr, /\[uring_unavailable\]\n$/)
})

for (const route of [[], ['--ssd-read-path', 'uring']]) {
  withFilter(
    `with --ssd-io posix everything works where io_uring is forbidden, ${route.length > 0 ? 'explicit' : 'default'} route`,
    async (t) => {
      await travels(t, { folder: folderOf(t), launcher: filter, flags: ['--ssd-io', 'posix', ...route] })
    },
  )
}

const nobody = asNobody()
const asOther = needs(!('missing' in nobody), 'missing' in nobody ? nobody.missing : '')

function folderOfNobody(t: ExecutionContext): string {
  const folder = folderOf(t)
  mkdirSync(join(folder, 'run'), { mode: 0o700 })
  for (const path of [folder, join(folder, 'run')]) chownSync(path, NOBODY_UID, NOBODY_UID)
  return folder
}

for (const io of ['uring', 'posix'] as const) {
  const asOtherOver = io === HOST_IO || HOST_IO === 'uring' ? asOther : needs(false, 'io_uring is forbidden here')
  asOtherOver(
    `a user without rights and with 8 MiB of locked memory has the whole Manager, --ssd-io ${io}`,
    async (t) => {
      const launcher = ['prlimit', '--memlock=8388608', ...('command' in nobody ? nobody.command : [])]
      const flags = ['--allow-uid', '0', '--ssd-io', io, '--ssd-read-path', 'uring']
      await travels(t, { folder: folderOfNobody(t), launcher, flags }, [NOBODY_UID])
    },
  )
}

asOther('X4: a peer of another user is refused by name, and the Manager goes on', async (t) => {
  const launcher = 'command' in nobody ? nobody.command : []
  const manager = await ManagerChild.start(t, { folder: folderOfNobody(t), launcher })
  const greeting = { socketPath: manager.socketPath, role: 'worker', engine: 'other', engineVersion: '1' } as const
  await t.throwsAsync(connect({ ...greeting, allowUids: [NOBODY_UID] }), {
    code: 'peer_uid_refused',
    message: /--allow-uid 0/,
  })
  await t.throwsAsync(connect(greeting), { code: 'peer_uid_refused', message: /runs as user 65534/ })
  const raw = RawSession.open(manager.socketPath, [NOBODY_UID])
  await raw.end()
  raw.close()
  await endsClean(t, manager)
})
