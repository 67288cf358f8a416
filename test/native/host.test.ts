import { execFileSync, spawnSync } from 'node:child_process'
import { chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { openingError } from '../../src/binding/errors.js'
import { loadNative } from '../../src/binding/load.js'
import type { PoolReport } from '../../src/binding/pool.js'
import type { PortReport } from '../../src/binding/port.js'
import type { Probe } from '../../src/binding/probe.js'
import { describeProbe } from '../../src/binding/probe.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { runWithoutUring } from '../support/without-uring.js'

const native = loadNative()
const probe = native.probe()
const MIB = 1024 * 1024
const root = process.getuid?.() === 0

test('openPool: whole huge pages, zeroed, kept from children and core dumps', (t) => {
  // An odd size, so that its mapping is found again.
  const report = native.openPool(46 * MIB + 1)
  t.is(report.bytes, 48 * MIB)
  t.true(report.hugePageBytes >= 0 && report.hugePageBytes <= report.bytes && report.hugePageBytes % (2 * MIB) === 0)
  const smaps = readFileSync('/proc/self/smaps', 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m)
  const ours = smaps.filter((text) => / dc .*dd .*hg /.test(/VmFlags: .*/.exec(text)?.[0] ?? ''))
  const mapping = ours.find((text) => Number(/^Size: +(\d+)/m.exec(text)?.[1]) * 1024 >= report.bytes)
  t.truthy(mapping, 'dontcopy, dontdump, hugepage')
  const [start = ''] = mapping?.split('-') ?? []
  t.is(Number.parseInt(start.slice(-6), 16) % (2 * MIB), 0, '2 MiB aligned')
  t.true(Number(/^Rss: +(\d+)/m.exec(mapping ?? '')?.[1]) * 1024 >= report.bytes, 'populated')
  t.true(Buffer.from(native.poolView(report.pool, 0, 48 * MIB)).equals(Buffer.alloc(48 * MIB)))
  t.throws(() => native.poolView(report.pool, 1, 48 * MIB), { code: 'EINVAL' })
  native.closePool(report.pool)
  t.throws(() => native.closePool(report.pool), { code: 'EBADF' })
})

test('openPool: more than the host has is refused with both numbers, and nothing was taken', (t) => {
  const before = Number(/VmSize:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1])
  const thrown = t.throws(() => native.openPool(2 ** 46), { code: 'ENOMEM' })
  t.regex(thrown?.message ?? '', /67108864 MiB: \d+ MiB are available on this host and the control group allows /)
  t.like(openingError('pool', thrown), { code: 'config_pool_too_large' })
  const after = Number(/VmSize:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1])
  t.true(after - before < 1024 * 1024)
  for (const bytes of [0, -1, 1.5, 2 ** 53, Number.NaN])
    t.throws(() => native.openPool(bytes), { instanceOf: TypeError })
})

test('poolView: views keep the memory after the pool was closed, and several views see the same bytes', (t) => {
  const { pool } = native.openPool(2 * MIB)
  const whole = native.poolView(pool, 0, 2 * MIB)
  const part = native.poolView(pool, 4096, 4096)
  native.closePool(pool)
  whole[4096 + 7] = 42
  t.is(part[7], 42)
})

/** The program that asks the addon's own readers, built once. */
let program: string | null = null
function facts(t: ExecutionContext, ...args: string[]): string {
  if (program === null) {
    program = join(process.cwd(), 'build', 'test-programs', 'host_facts')
    mkdirSync(dirname(program), { recursive: true })
    execFileSync(process.env['CXX'] ?? 'g++', [
      '-std=c++20',
      '-Inative',
      'test/native/programs/host_facts.cc',
      'native/memory/host_memory.cc',
      'native/uring/probe.cc',
      'native/uring/ring.cc',
      '-o',
      program,
    ])
  }
  const run = spawnSync(program, args, { encoding: 'utf8' })
  t.is(run.status, 0)
  return run.stdout.trim()
}

/** Writes a tree of small files. */
function tree(folder: string, files: Readonly<Record<string, string>>): string {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

test('host memory: the tightest control group on the way to the root counts, reclaimable cache does not', (t) => {
  const unlimited = String(2n ** 64n - 1n)
  const meminfo = 'MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable:     64 kB\n'
  const memory = (cgroup: string, files: Readonly<Record<string, string>>): string => {
    const folder = tree(folderOf(t), { 'proc/meminfo': meminfo, 'proc/self/cgroup': cgroup, ...files })
    return facts(t, 'memory', join(folder, 'proc'), join(folder, 'cgroup'))
  }
  t.is(memory('', {}), `65536 ${unlimited} 0`)
  t.is(
    memory('0::/a/b\n', {
      'cgroup/a/b/memory.max': 'max\n',
      'cgroup/a/b/memory.current': '5\n',
      'cgroup/a/memory.max': '1000\n',
      'cgroup/a/memory.current': '700\n',
      'cgroup/a/memory.stat': 'anon 1\ninactive_file 100\n',
      'cgroup/memory.max': '5000\n',
      'cgroup/memory.current': '1000\n',
    }),
    '65536 400 1',
    'version 2',
  )
  t.is(
    memory('5:cpu,memory:/docker/x\n3:pids:/docker/x\n', {
      'cgroup/memory/memory.limit_in_bytes': '3000\n',
      'cgroup/memory/memory.usage_in_bytes': '1000\n',
      'cgroup/memory/memory.stat': 'inactive_file 9\ntotal_inactive_file 500\n',
    }),
    '65536 2500 1',
    'version 1, its own group not visible',
  )
  t.is(
    memory('4:memory:/\n', {
      'cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n',
      'cgroup/memory/memory.usage_in_bytes': '1000\n',
    }),
    `65536 ${unlimited} 0`,
    'version 1 without a limit',
  )
  t.is(
    memory('0::/\n', { 'cgroup/memory.max': '100\n', 'cgroup/memory.current': '200\n' }),
    '65536 0 1',
    'over its limit',
  )
})

test('probe: the reason follows from errno, kernel and sysctl', (t) => {
  const reason = (errno: number, kernel: string, disabled: string): string =>
    facts(t, 'reason', String(errno), kernel, disabled)
  t.is(reason(0, '6.1.0', '0'), 'ok')
  t.is(reason(1, '6.1.0', ''), 'seccomp', 'EPERM before the sysctl existed')
  t.is(reason(1, '6.8.0', '0'), 'seccomp')
  t.is(reason(1, '6.8.0', '2'), 'sysctl')
  t.is(reason(38, '4.18.0-el8', ''), 'kernel')
  t.is(reason(38, '5.10.200', ''), 'kernel')
  t.is(reason(38, '5.15.0-gvisor', ''), 'seccomp')
  t.is(reason(38, '6.8.0', '0'), 'seccomp')
  t.is(reason(22, '6.8.0', '0'), 'kernel')
  t.is(reason(12, '5.10.0', ''), 'memlock')
  t.is(reason(24, '6.8.0', '0'), 'fdlimit')
  t.is(reason(5, '6.8.0', '0'), 'unknown')
})

test('probe: reports this host, and tells people in a line', (t) => {
  t.is(probe.available, probe.errno === 0)
  t.is(probe.available, probe.reason === 'ok')
  t.regex(probe.kernel, /^\d+\.\d+/)
  t.true(probe.memlockBytes > 0)
  const refused: Probe = { ...probe, available: false, errno: 1, reason: 'sysctl', memlockBytes: 65536 }
  t.regex(describeProbe(refused), /kernel\.io_uring_disabled; set it to 0.*locked memory 64 KiB, errno 1/)
  const taken: Probe = { ...probe, available: true, errno: 0, reason: 'ok', memlockBytes: Number.POSITIVE_INFINITY }
  t.regex(describeProbe(taken), /available .*unlimited/)
})

/** What a child of another kind of host reports: its probe, and a write and read through a port of `io`. */
interface Seen {
  readonly probe: Probe
  readonly refused: string | null
  readonly pool: PoolReport
  readonly report: PortReport | null
  readonly results: number[]
}

function script(folder: string, io: 'uring' | 'posix', poolBytes: number): string {
  const module = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href)
  return `
    const { loadNative } = await import(${module('../../src/binding/load.js')})
    const { openingError } = await import(${module('../../src/binding/errors.js')})
    const { TestPort } = await import(${module('../support/test-port.js')})
    const native = loadNative()
    const pool = native.openPool(${poolBytes})
    const { file } = native.openShard(${JSON.stringify(join(folder, 'shard.dat'))}, ${poolBytes}, true)
    let port = null, refused = null
    try { port = new TestPort(native, { io: '${io}', pool: pool.pool }) } catch (error) { refused = openingError('port', error).code }
    const results = port === null ? [] : ['write', 'read'].flatMap((op) =>
      port.run([{ op, file, fileOffset: 0, poolOffset: 0, bytes: ${poolBytes} }]))
    console.log(JSON.stringify({ probe: native.probe(), refused, pool, report: port?.port.report() ?? null, results }))`
}

for (const errno of [1, 38]) {
  test(`without io_uring (errno ${errno}): the probe says so, a ring is refused, posix I/O works`, (t) => {
    const run = (io: 'uring' | 'posix'): Seen => {
      const args = ['--input-type=module', '-e', script(folderOf(t), io, 2 * MIB)]
      const child = runWithoutUring(errno, process.execPath, args)
      t.is(child.stderr, '')
      return JSON.parse(child.stdout) as Seen
    }
    const uring = run('uring')
    t.like(uring.probe, { available: false, errno, reason: 'seccomp', setupFlags: 0 })
    t.is(uring.refused, 'uring_unavailable')
    const posix = run('posix')
    t.deepEqual(posix.results, [2 * MIB, 2 * MIB])
    t.like(posix.report, { io: 'posix', registeredBuffers: false, registeredFiles: false })
  })
}

needs(root && probe.available, root ? `io_uring: ${probe.reason}` : 'needs root to become another user')(
  'an ordinary user with 8 MiB of locked memory: a small pool is registered, a large one is used plainly',
  (t) => {
    const run = (poolBytes: number): Seen => {
      const folder = folderOf(t)
      chownSync(folder, 65534, 65534)
      const child = spawnSync(
        'prlimit',
        [
          `--memlock=${8 * MIB}`,
          'setpriv',
          '--reuid=65534',
          '--regid=65534',
          '--clear-groups',
          process.execPath,
          '--input-type=module',
          '-e',
          script(folder, 'uring', poolBytes),
        ],
        { encoding: 'utf8' },
      )
      t.is(child.stderr, '')
      return JSON.parse(child.stdout) as Seen
    }
    const small = run(2 * MIB)
    t.like(small.probe, { available: true, memlockBytes: 8 * MIB })
    t.is(small.report?.registeredBuffers, true)
    t.deepEqual(small.results, [2 * MIB, 2 * MIB])
    const large = run(16 * MIB)
    t.is(large.report?.registeredBuffers, false)
    t.is(large.report?.io, 'uring')
    t.deepEqual(large.results, [16 * MIB, 16 * MIB])
  },
)
