import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  constants,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { openingError } from '../../src/binding/errors.js'
import { loadNative } from '../../src/binding/load.js'
import { CapabilityError, ConfigError, IoError, OrbitError } from '../../src/shared/base/errors.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { TestPort } from '../support/test-port.js'

const native = loadNative()
const MIB = 1024 * 1024

/** The typed error that an opening ends in. */
function refusal(t: Parameters<typeof folderOf>[0], what: 'shard' | 'lock', open: () => unknown): OrbitError | null {
  const error = openingError(what, t.throws(open))
  return error instanceof OrbitError ? error : null
}

test('openShard: the file is sparse, of the size asked for, private, and marked', (t) => {
  const path = join(folderOf(t), 'shard.dat')
  const report = native.openShard(path, 64 * MIB, true)
  const status = statSync(path)
  t.is(report.bytes, 64 * MIB)
  t.is(status.size, 64 * MIB)
  t.true(status.blocks * 512 < MIB, 'sparse')
  t.is(status.mode & 0o777, 0o600)
  t.regex(report.device, /^\d+:\d+$/)
  t.true(report.filesystem > 0)
  const { directMemoryAlign: memory, directOffsetAlign: offset } = report
  t.true([memory, offset].every((align) => align === 0 || (align >= 512 && Number.isInteger(Math.log2(align)))))
  t.deepEqual(readdirSync(join(path, '..')), ['shard.dat'], 'no temporary name is left')
  native.closeShard(report.file)
})

test('openShard: its descriptor goes by the name of the shard, new and in place of an earlier one', (t) => {
  const path = join(folderOf(t), 'shard.dat')
  for (const what of ['new', 'replaced']) {
    const { file } = native.openShard(path, MIB, false)
    const inode = statSync(path).ino
    const names = readdirSync('/proc/self/fd').flatMap((fd) => {
      try {
        return statSync(`/proc/self/fd/${fd}`).ino === inode ? [readlinkSync(`/proc/self/fd/${fd}`)] : []
      } catch {
        return []
      }
    })
    t.deepEqual(names, [path], what)
    native.closeShard(file)
  }
})

test('openShard: the descriptor does direct I/O and is not inherited by children', (t) => {
  const path = join(folderOf(t), 'shard.dat')
  const { file } = native.openShard(path, MIB, true)
  const inode = statSync(path).ino
  const flags = readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return statSync(`/proc/self/fd/${fd}`).ino === inode ? [readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')] : []
    } catch {
      return []
    }
  })
  t.is(flags.length, 1)
  const bits = Number.parseInt(/flags:\s*([0-7]+)/.exec(flags[0] ?? '')?.[1] ?? '0', 8)
  t.true((bits & constants.O_DIRECT) !== 0)
  t.true((bits & 0o2000000) !== 0, 'close on exec')
  native.closeShard(file)
})

test('openShard: an old shard is replaced by a new inode, never truncated', (t) => {
  const path = join(folderOf(t), 'shard.dat')
  const first = native.openShard(path, MIB, false)
  const inode = statSync(path).ino
  writeFileSync(path, 'bytes of an older generation')
  const old = openSync(path, 'r')
  const second = native.openShard(path, 2 * MIB, true)
  t.not(statSync(path).ino, inode)
  const text = Buffer.alloc(28)
  readSync(old, text)
  t.is(text.toString(), 'bytes of an older generation', 'whoever still has the old inode keeps it')
  t.true(
    readFileSync(path).every((byte) => byte === 0),
    'nothing of it is in the new one',
  )
  closeSync(old)
  native.closeShard(first.file)
  native.closeShard(second.file)
})

test('openShard: refuses a file that is not ours and leaves it as it was', (t) => {
  const path = join(folderOf(t), 'precious.dat')
  writeFileSync(path, 'precious')
  t.is(refusal(t, 'shard', () => native.openShard(path, MIB, true))?.code, 'path_refused')
  t.is(readFileSync(path, 'utf8'), 'precious')
  t.deepEqual(readdirSync(join(path, '..')), ['precious.dat'])
})

test('openShard: refuses symlinks, as the file and on the way', (t) => {
  const folder = folderOf(t)
  mkdirSync(join(folder, 'real'))
  const { file } = native.openShard(join(folder, 'real', 'shard.dat'), MIB, false)
  native.closeShard(file)
  symlinkSync(join(folder, 'real'), join(folder, 'link'))
  symlinkSync(join(folder, 'real', 'shard.dat'), join(folder, 'real', 'alias.dat'))
  symlinkSync(join(folder, 'nowhere'), join(folder, 'real', 'dangling.dat'))
  for (const path of ['link/shard.dat', 'real/alias.dat', 'real/dangling.dat']) {
    const error = refusal(t, 'shard', () => native.openShard(join(folder, path), MIB, false))
    t.true(error instanceof ConfigError)
    t.is(error?.code, 'path_refused')
    t.is(error?.values['system'], 'ELOOP')
  }
})

test('openShard: refuses directories, fifos and names without a file', (t) => {
  const folder = folderOf(t)
  mkdirSync(join(folder, 'folder'))
  execFileSync('mkfifo', [join(folder, 'fifo')])
  for (const path of ['folder', 'fifo', 'folder/', 'folder/..']) {
    t.is(refusal(t, 'shard', () => native.openShard(`${folder}/${path}`, MIB, false))?.code, 'path_refused', path)
  }
  const missing = refusal(t, 'shard', () => native.openShard(join(folder, 'missing', 'shard.dat'), MIB, false))
  t.true(missing instanceof IoError)
  t.is(missing?.code, 'io_open_failed')
  t.throws(() => native.openShard(join(folder, 'a'), -1, false), { code: 'ERR_INVALID_ARG_TYPE' })
  t.throws(() => native.openShard(join(folder, 'a'), 2 ** 53, false), { code: 'ERR_INVALID_ARG_TYPE' })
  t.throws(() => native.openShard(join(folder, 'a\0b'), MIB, false), { code: 'ERR_INVALID_ARG_TYPE' })
})

test('openShard: a hard link to a foreign file is refused as the file is', (t) => {
  const folder = folderOf(t)
  writeFileSync(join(folder, 'precious'), 'precious')
  linkSync(join(folder, 'precious'), join(folder, 'shard.dat'))
  t.is(refusal(t, 'shard', () => native.openShard(join(folder, 'shard.dat'), MIB, false))?.code, 'path_refused')
  t.is(readFileSync(join(folder, 'precious'), 'utf8'), 'precious')
})

test('openShard: a size that no file has fails and leaves nothing behind', (t) => {
  const folder = folderOf(t)
  const error = refusal(t, 'shard', () => native.openShard(join(folder, 'shard.dat'), 2 ** 53 - 1, false))
  t.true(error instanceof IoError)
  t.deepEqual(readdirSync(folder), [])
})

/** ramfs has no extended attributes; mounting one needs root. */
const ramfs = process.getuid?.() === 0 && mountable()
function mountable(): boolean {
  try {
    execFileSync('unshare', ['-m', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

needs(ramfs, 'mounting needs root')('openShard: without extended attributes a file beside it is the mark', (t) => {
  const folder = folderOf(t)
  const script = `
    const { loadNative } = await import(${JSON.stringify(new URL('../../src/binding/load.js', import.meta.url).href)})
    const { readdirSync, writeFileSync, rmSync } = await import('node:fs')
    const native = loadNative()
    const tell = (open) => { try { open(); return 'opened' } catch (error) { return error.code } }
    const path = ${JSON.stringify(join(folder, 'shard.dat'))}
    const seen = [tell(() => native.openShard(path, 4096, false)), tell(() => native.openShard(path, 4096, false))]
    rmSync(path)
    writeFileSync(path, 'foreign')
    seen.push(tell(() => native.openShard(path, 4096, false)), readdirSync(${JSON.stringify(folder)}).join())
    seen.push(tell(() => native.openShard(path + 2, 4096, true)))
    console.log(JSON.stringify(seen))`
  const output = execFileSync(
    'unshare',
    [
      '-m',
      'sh',
      '-c',
      'mount -t ramfs none "$1" && exec "$2" --input-type=module -e "$3"',
      'sh',
      folder,
      process.execPath,
      script,
    ],
    { encoding: 'utf8' },
  )
  const seen = JSON.parse(output) as string[]
  t.deepEqual(seen.slice(0, 4), ['opened', 'opened', 'EEXIST', '.shard.dat.orbitkv,shard.dat'])
  t.is(seen[4], 'EOPNOTSUPP', 'and ramfs has no direct I/O')
})

test('openingError: what the system said and what the caller does next', (t) => {
  const system = (code: string, errno: number): Error => Object.assign(new Error('Cannot'), { code, errno })
  t.true(openingError('shard', system('EOPNOTSUPP', 95)) instanceof CapabilityError)
  t.like(openingError('port', system('EPERM', 1)), { code: 'uring_unavailable' })
  t.like(openingError('pool', system('ENOMEM', 12)), {
    code: 'config_pool_too_large',
    values: { errno: 12, system: 'ENOMEM' },
  })
  t.like(openingError('socket', system('EADDRINUSE', 98)), { code: 'already_running' })
  t.like(openingError('shard', system('EIO', 5)), { code: 'io_open_failed' })
  const bug = new TypeError('a bug')
  t.is(openingError('shard', bug), bug)
})

test('lockPath: a second lock is refused, in this process and in another, and names the holder', (t) => {
  const path = join(folderOf(t), 'orbitkv.lock')
  const lock = native.lockPath(path)
  t.is(statSync(path).mode & 0o777, 0o600)
  const error = refusal(t, 'lock', () => native.lockPath(path))
  t.is(error?.code, 'already_running')
  t.true(error?.message.includes(`process ${process.pid}`))
  t.is(tryLock(path), 'EAGAIN')
  native.unlockPath(lock)
  t.throws(() => native.unlockPath(lock), { code: 'EBADF' })
  t.is(tryLock(path), 'locked')
  native.unlockPath(native.lockPath(path))
})

/** What another process gets for the lock. */
function tryLock(path: string): string {
  const script = `
    const { loadNative } = await import(${JSON.stringify(new URL('../../src/binding/load.js', import.meta.url).href)})
    try { loadNative().lockPath(${JSON.stringify(path)}); console.log('locked') } catch (error) { console.log(error.code) }`
  return execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' }).trim()
}

test('lockPath: ends with its process, however that dies, and removing the file does not give it away', async (t) => {
  const path = join(folderOf(t), 'orbitkv.lock')
  const script = `
    const { loadNative } = await import(${JSON.stringify(new URL('../../src/binding/load.js', import.meta.url).href)})
    loadNative().lockPath(${JSON.stringify(path)})
    console.log('locked')
    setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  t.throws(() => native.lockPath(path), { code: 'EAGAIN' })
  child.kill('SIGKILL')
  await once(child, 'exit')
  const lock = native.lockPath(path)
  unlinkSync(path)
  const other = native.lockPath(path)
  t.not(lock, other, 'a new file is another lock')
  native.unlockPath(lock)
  t.is(tryLock(path), 'EAGAIN', 'and unlocking the old one does not open the new one')
  native.unlockPath(other)
})

test('lockPath: refuses symlinks and what is not a file', (t) => {
  const folder = folderOf(t)
  writeFileSync(join(folder, 'precious'), 'precious')
  symlinkSync(join(folder, 'precious'), join(folder, 'link'))
  execFileSync('mkfifo', [join(folder, 'fifo')])
  t.is(refusal(t, 'lock', () => native.lockPath(join(folder, 'link')))?.code, 'path_refused')
  t.is(refusal(t, 'lock', () => native.lockPath(join(folder, 'fifo')))?.code, 'path_refused')
  t.is(readFileSync(join(folder, 'precious'), 'utf8'), 'precious')
})

test('closeShard: an unknown number is refused, a known one closes its descriptor once nothing uses it', (t) => {
  t.throws(() => native.closeShard(4711), { code: 'EBADF' })
  const folder = folderOf(t)
  const before = readdirSync('/proc/self/fd').length
  const { pool } = native.openPool(2 * MIB)
  const port = new TestPort(native, { io: 'posix', pool })
  const { file } = native.openShard(join(folder, 'shard.dat'), MIB, true)
  t.deepEqual(port.run([{ op: 'write', file, fileOffset: 0, poolOffset: 0, bytes: MIB }]), [MIB])
  native.closeShard(file)
  port.close()
  native.closePool(pool)
  t.is(readdirSync('/proc/self/fd').length, before)
})
