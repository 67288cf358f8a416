import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, fstatSync, openSync, readFileSync, readlinkSync } from 'node:fs'
import { createInterface } from 'node:readline'
import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { collect } from '../support/collect.js'

const native = loadNative()

/** Another process that makes memfds with the given seals and keeps them; opens them here through /proc. */
async function foreignMemory(t: ExecutionContext, specs: { bytes: number; seals: number }[]): Promise<number[]> {
  const script = `
import os, fcntl, sys
for spec in ${JSON.stringify(specs)}:
  fd = os.memfd_create('peer', os.MFD_ALLOW_SEALING)
  os.ftruncate(fd, spec['bytes'])
  fcntl.fcntl(fd, 1033, spec['seals'])
  print(fd, end=' ')
print(flush=True)
sys.stdin.read()`
  const peer = spawn('python3', ['-c', script], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = (await once(createInterface(peer.stdout), 'line')) as [string]
  const fds = line.trim().split(' ')
  const opened = fds.map((fd) => openSync(`/proc/${peer.pid}/fd/${fd}`, 'r+'))
  peer.stdin.end()
  await once(peer, 'exit')
  t.teardown(() => opened.forEach((fd) => void closeSync(fd)))
  return opened
}

const SHRINK = 2
const GROW = 4
const WRITE = 8

test('memory: what createMemory makes is close-on-exec, sealed, nameless, and importable', (t) => {
  const fd = native.createMemory(8192)
  t.regex(readlinkSync(`/proc/self/fd/${fd}`), /^\/memfd:.* \(deleted\)$/, 'no name leads to it')
  t.is(fstatSync(fd).size, 8192)
  t.is(
    Number.parseInt(/flags:\s+(\d+)/.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? '', 8) & 0o2000000,
    0o2000000,
  )
  const resize = `import os\nfd = os.open('/proc/${process.pid}/fd/${fd}', os.O_RDWR)\nfor size in (0, 4096, 16384):\n  try:\n    os.ftruncate(fd, size); print('resized')\n  except PermissionError: print('refused')`
  t.is(execFileSync('python3', ['-c', resize], { encoding: 'utf8' }), 'refused\nrefused\nrefused\n')
  const { mapping, bytes } = native.importMemory(fd)
  t.is(bytes, 8192)
  native.closeFd(fd)
  native.releaseMapping(mapping)
})

test('memory: two imports of one descriptor are the same bytes', (t) => {
  const fd = native.createMemory(4096)
  const first = native.importMemory(fd)
  const second = native.importMemory(fd)
  native.closeFd(fd)
  t.not(first.mapping, second.mapping)
  native.mappingView(first.mapping, 100, 3).set([7, 8, 9])
  t.deepEqual([...native.mappingView(second.mapping, 99, 5)], [0, 7, 8, 9, 0])
  native.releaseMapping(first.mapping)
  native.releaseMapping(second.mapping)
})

test('memory: only memfds whose size is sealed both ways are imported', async (t) => {
  const [none, shrink, grow, both, readOnly] = await foreignMemory(t, [
    { bytes: 4096, seals: 0 },
    { bytes: 4096, seals: SHRINK },
    { bytes: 4096, seals: GROW },
    { bytes: 12288, seals: SHRINK | GROW },
    { bytes: 4096, seals: SHRINK | GROW | WRITE },
  ])
  t.throws(() => native.importMemory(none ?? -1), { code: 'EPERM' })
  t.throws(() => native.importMemory(shrink ?? -1), { code: 'EPERM' })
  t.throws(() => native.importMemory(grow ?? -1), { code: 'EPERM' })
  t.throws(() => native.importMemory(readOnly ?? -1), { code: 'EPERM' })
  const { mapping, bytes } = native.importMemory(both ?? -1)
  t.is(bytes, 12288)
  native.releaseMapping(mapping)
})

test('memory: empty memory, ordinary files and closed descriptors are refused', async (t) => {
  const [empty] = await foreignMemory(t, [{ bytes: 0, seals: SHRINK | GROW }])
  t.throws(() => native.importMemory(empty ?? -1), { code: 'EINVAL' })
  const file = openSync('/proc/self/exe', 'r')
  t.throws(() => native.importMemory(file), { code: 'EPERM', message: /not a memfd/ })
  closeSync(file)
  t.throws(() => native.importMemory(file), { code: 'EBADF' })
  t.throws(() => native.importMemory(-1), { code: 'EBADF' })
  t.throws(() => native.createMemory(0), { code: 'EINVAL' })
  t.throws(() => native.createMemory(1.5), { instanceOf: TypeError })
})

test.serial('memory: a view keeps its bytes, the name is gone at once', async (t) => {
  // Views of other tests go now, and none while this one counts.
  await collect()
  const fd = native.createMemory(4096)
  const { mapping } = native.importMemory(fd)
  native.closeFd(fd)
  const alive = native.mappingsAlive()
  const view = native.mappingView(mapping, 0, 4096)
  native.releaseMapping(mapping)
  native.releaseMapping(mapping)
  t.is(native.mappingsAlive(), alive)
  view.fill(3)
  t.is(view[4095], 3)
  t.throws(() => native.mappingView(mapping, 0, 1), { code: 'ENOENT' })
})

test.serial('memory: without a view a released mapping is unmapped at once', async (t) => {
  // Views of other tests go now, and none while this one counts.
  await collect()
  const alive = native.mappingsAlive()
  const fd = native.createMemory(4096)
  const { mapping } = native.importMemory(fd)
  native.closeFd(fd)
  t.is(native.mappingsAlive(), alive + 1)
  native.releaseMapping(mapping)
  t.is(native.mappingsAlive(), alive)
})

test('memory: a view outside its mapping is refused', (t) => {
  const fd = native.createMemory(4096)
  const { mapping } = native.importMemory(fd)
  native.closeFd(fd)
  t.throws(() => native.mappingView(mapping, 1, 4096), { code: 'EINVAL' })
  t.throws(() => native.mappingView(mapping, 2 ** 53 - 1, 2 ** 53 - 1), { code: 'EINVAL' })
  t.throws(() => native.mappingView(mapping, -1, 1), { instanceOf: TypeError })
  native.releaseMapping(mapping)
})
