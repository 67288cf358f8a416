import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { keysNamed, TestEngine } from '../support/engine.js'
import { folderOf } from '../support/folder.js'
import { endsClean, ManagerChild, type ManagerEnd, type ManagerStart } from '../support/manager-child.js'
import { needs } from '../support/needs.js'
import { asNobody, type Launcher, memoryLimited, mounting } from '../support/others.js'

/**
 * A Manager that cannot work refuses to start: exit code 1, one line on standard error that names the value and the
 * remedy and ends with a stable code, nothing on standard output, nothing left behind.
 */

async function refuses(
  t: ExecutionContext,
  start: Omit<ManagerStart, 'folder'> & { readonly folder?: string },
  code: string,
  ...says: readonly RegExp[]
): Promise<ManagerEnd> {
  const end = await ManagerChild.refused(t, { folder: start.folder ?? folderOf(t), ...start })
  t.is(end.exitCode, 1, end.stdout + end.stderr)
  t.regex(end.stderr, new RegExp(`^orbitkv-cache-manager: .*\\[${code}\\]\n$`), end.stderr)
  for (const text of says) t.regex(end.stderr, text)
  t.is(end.stdout, '')
  return end
}

const launcherOf = (found: Launcher) => ('command' in found ? found.command : [])
const reasonOf = (found: Launcher) => ('missing' in found ? found.missing : '')

test.serial('flags: what is unknown or nonsense is refused with the value, the range and an example', async (t) => {
  const cases: readonly (readonly [flags: readonly string[], code: string, ...says: RegExp[]])[] = [
    [['--pool', '1gb'], 'config_unknown_flag', /'--pool'/, /--help/],
    [['--pool-size', 'lots'], 'config_bad_value', /'lots'/, /16 MiB to 16 TiB/, /--pool-size 8gb/],
    [['--pool-size', '1mb'], 'config_bad_value', /'1mb'/, /16 MiB/],
    [['--ssd-cache-capacity', '0gb'], 'config_bad_value', /'0gb'/, /1 MiB to/],
    [
      ['--ssd-cache-capacity', '2mb', '--ssd-cache-shards', '3'],
      'config_bad_value',
      /3 shards/,
      /raise --ssd-cache-capacity/,
    ],
    [['--allow-uid', 'root'], 'config_bad_value', /'root'/],
    [['--http-addr', 'localhost'], 'config_bad_value', /'localhost'/, /127\.0\.0\.1:9655/],
    [['--ssd-backend', 'cufile'], 'cufile_unavailable', /cufile/],
    [['--query-budget', '1gb'], 'config_conflict', /1073741824/, /33554432/, /lower --query-budget/],
  ]
  const folder = folderOf(t)
  for (const [flags, code, ...says] of cases) await refuses(t, { folder, flags }, code, ...says)
  t.deepEqual(readdirSync(folder), ['run'], 'nothing is left behind')
})

test.serial('flags: an SSD route or backend without an SSD tier is refused', async (t) => {
  const folder = folderOf(t)
  for (const flags of [
    ['--ssd-read-path', 'uring'],
    ['--ssd-backend', 'uring'],
  ]) {
    await refuses(t, { folder, shard: null, flags }, 'config_conflict', /--ssd-cache-path/)
  }
})

test.serial('a pool above the memory of this host is refused with both numbers', async (t) => {
  await refuses(t, { flags: ['--pool-size', '15tb'] }, 'config_pool_too_large', /15728640 MiB/, /\d+ MiB are available/)
})

const limited = memoryLimited(192 << 20)
needs(reasonOf(limited) === '', reasonOf(limited))(
  'a pool above the cgroup limit is refused with both numbers',
  async (t) => {
    try {
      const flags = ['--pool-size', '256mb']
      const launcher = launcherOf(limited)
      await refuses(t, { launcher, flags }, 'config_pool_too_large', /256 MiB/, /control group allows \d+ MiB more/)
    } finally {
      limited.remove?.()
    }
  },
)

test.serial(
  'K7: a second Manager on the same socket or cache path refuses, and the first is undisturbed',
  async (t) => {
    const folder = folderOf(t)
    const first = await ManagerChild.start(t, { folder })
    const engine = await TestEngine.start(first.socketPath)
    const keys = keysNamed(t.title, 4)
    await engine.publish(keys)
    await engine.toSsd()
    const inode = statSync(join(folder, 'shard.dat')).ino

    await refuses(t, { folder }, 'already_running', /shard\.dat/, new RegExp(`process ${first.pid}`))
    const elsewhere = folderOf(t)
    const socket = ['--bootstrap-socket', first.socketPath]
    await refuses(t, { folder: elsewhere, flags: socket }, 'already_running', /manager\.sock/)
    await refuses(t, { folder: elsewhere, flags: ['--ssd-cache-path', join(folder, 'shard.dat')] }, 'already_running')

    t.is(statSync(join(folder, 'shard.dat')).ino, inode)
    const found = await engine.find(keys)
    if (found.kind !== 'ready') return t.fail(found.kind)
    t.is(await engine.restore(keys, found.lease), 0)
    await engine.stop()
    await endsClean(t, first)
  },
)

test.serial('a port that somebody serves is refused by name', async (t) => {
  const first = await ManagerChild.start(t, { folder: folderOf(t), shard: null })
  const http = String(first.lines.find(({ msg }) => msg === 'serving')?.http)
  await refuses(t, { flags: ['--http-addr', http] }, 'io_open_failed', new RegExp(http), /--http-addr/)
})

test.serial('X6: a cache path that is a symlink, or lies behind one, is refused', async (t) => {
  const folder = folderOf(t)
  writeFileSync(join(folder, 'target'), 'precious')
  symlinkSync('target', join(folder, 'shard.dat'))
  await refuses(t, { folder }, 'path_refused', /symlink|symbolic/i)
  t.is(readFileSync(join(folder, 'target'), 'utf8'), 'precious')
  t.true(lstatSync(join(folder, 'shard.dat')).isSymbolicLink())

  mkdirSync(join(folder, 'real'))
  symlinkSync('real', join(folder, 'link'))
  const flags = ['--ssd-cache-path', join(folder, 'link', 'shard.dat')]
  await refuses(t, { folder, flags }, 'path_refused', /link/)
  t.deepEqual(readdirSync(join(folder, 'real')), [])
})

test.serial("X6: somebody else's file is not replaced", async (t) => {
  const folder = folderOf(t)
  writeFileSync(join(folder, 'shard.dat'), 'precious')
  await refuses(t, { folder }, 'path_refused', /not a shard of OrbitKV/)
  t.is(readFileSync(join(folder, 'shard.dat'), 'utf8'), 'precious')
})

test.serial('K4: a shard of an earlier Manager is replaced by a new inode, never truncated', async (t) => {
  const folder = folderOf(t)
  const first = await ManagerChild.start(t, { folder })
  const inode = statSync(join(folder, 'shard.dat')).ino
  await first.kill()
  const second = await ManagerChild.start(t, { folder })
  const stat = statSync(join(folder, 'shard.dat'))
  t.not(stat.ino, inode)
  t.is(stat.mode & 0o777, 0o600)
  await endsClean(t, second)
  t.deepEqual(readdirSync(folder).sort(), ['run', 'shard.dat', 'shard.dat.lock'], 'no temporary names are left')
})

test.serial(
  'X4: a socket folder that others may enter is refused, and the socket of a served one is private',
  async (t) => {
    const folder = folderOf(t)
    mkdirSync(join(folder, 'run'), { mode: 0o700 })
    chmodSync(join(folder, 'run'), 0o755)
    await refuses(t, { folder }, 'path_refused', /mode 0700/)
    chmodSync(join(folder, 'run'), 0o700)
    const manager = await ManagerChild.start(t, { folder })
    t.is(statSync(manager.socketPath).mode & 0o777, 0o600)
    await endsClean(t, manager)
    t.false(existsSync(manager.socketPath), 'the socket goes with its Manager')
  },
)

test.serial('a socket path that is a file, or too long, is refused and the file stays', async (t) => {
  const folder = folderOf(t)
  mkdirSync(join(folder, 'run'), { mode: 0o700 })
  writeFileSync(join(folder, 'run', 'manager.sock'), 'precious')
  await refuses(t, { folder }, 'path_refused', /not a socket/)
  t.is(readFileSync(join(folder, 'run', 'manager.sock'), 'utf8'), 'precious')
  const long = join(folder, 'run', `${'x'.repeat(120)}.sock`)
  await refuses(t, { folder, flags: ['--bootstrap-socket', long] }, 'path_refused', /107 bytes/)
})

const nobody = asNobody()
const asOther = needs(reasonOf(nobody) === '', reasonOf(nobody))

/** A folder that user nobody owns. */
function folderOfNobody(t: ExecutionContext): string {
  const folder = folderOf(t)
  mkdirSync(join(folder, 'run'), { mode: 0o700 })
  for (const path of [folder, join(folder, 'run')]) chownSync(path, 65_534, 65_534)
  return folder
}

asOther('X6: a cache folder without rights is refused', async (t) => {
  const launcher = launcherOf(nobody)
  const folder = folderOfNobody(t)
  mkdirSync(join(folder, 'closed'), { mode: 0o700 })
  for (const path of ['closed/shard.dat', 'closed/deeper/shard.dat']) {
    const flags = ['--ssd-cache-path', join(folder, path)]
    await refuses(t, { folder, launcher, flags }, 'path_refused', /closed/, /[Pp]ermission denied|EACCES/)
  }
  mkdirSync(join(folder, 'readable'), { mode: 0o755 })
  const flags = ['--ssd-cache-path', join(folder, 'readable/shard.dat')]
  await refuses(t, { folder, launcher, flags }, 'path_refused', /readable/)
})

asOther('X6: a file of another user is refused, although it is marked as a shard', async (t) => {
  const folder = folderOfNobody(t)
  const shard = folderOf(t)
  const first = await ManagerChild.start(t, { folder: shard })
  await endsClean(t, first)
  chmodSync(shard, 0o777)
  for (const name of ['shard.dat', 'shard.dat.lock']) chmodSync(join(shard, name), 0o600)
  const flags = ['--ssd-cache-path', join(shard, 'shard.dat')]
  await refuses(t, { folder, launcher: launcherOf(nobody), flags }, 'path_refused', /shard\.dat/)
  t.is(statSync(join(shard, 'shard.dat')).uid, 0)
})

asOther('a socket folder of another user is refused', async (t) => {
  const folder = folderOfNobody(t)
  const other = folderOf(t)
  const flags = ['--bootstrap-socket', join(other, 'run', 'manager.sock')]
  await refuses(t, { folder, launcher: launcherOf(nobody), flags }, 'path_refused', /[Cc]annot/)
})

{
  const probe = mounting('ramfs', 'mode=0700', '/nonexistent')
  needs(reasonOf(probe) === '', reasonOf(probe))('a filesystem without direct I/O is refused by name', async (t) => {
    const folder = folderOf(t)
    mkdirSync(join(folder, 'ssd'))
    const launcher = launcherOf(mounting('ramfs', 'mode=0700', join(folder, 'ssd')))
    const flags = ['--ssd-cache-path', join(folder, 'ssd', 'shard.dat')]
    await refuses(t, { folder, launcher, flags }, 'direct_io_unsupported', /No direct I\/O/, /shard\.dat/)
  })
}

test.serial('S2: a shard that the file size limit forbids refuses the whole start', async (t) => {
  const folder = folderOf(t)
  const launcher = ['prlimit', '--fsize=1048576']
  await refuses(t, { folder, launcher }, 'io_open_failed', /67108864 bytes/)
  t.deepEqual(readdirSync(folder).sort(), ['run', 'shard.dat.lock'])
})

test.serial('R2: a limit on open files that cannot serve refuses the start with both numbers', async (t) => {
  await refuses(t, { launcher: ['prlimit', '--nofile=128'] }, 'config_descriptors', /128 open files/, /256/)
  const manager = await ManagerChild.start(t, { folder: folderOf(t), launcher: ['prlimit', '--nofile=256'] })
  await endsClean(t, manager)
})
