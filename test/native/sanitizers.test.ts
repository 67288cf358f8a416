import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'

/**
 * Compiles native sources with a program of claims, under a sanitizer, and runs it. The result is kept under build/ for
 * as long as no source changes, because the compiler takes longer than the program.
 */
const root = process.cwd()
const compiler = process.env['CXX'] ?? 'g++'

const inFolders = (folders: readonly string[], ending: RegExp): string[] =>
  folders.flatMap((folder) =>
    readdirSync(join(root, 'native', folder))
      .filter((file) => ending.test(file))
      .map((file) => join('native', folder, file)),
  )

/** What programs of claims have beside native/. */
const HEADERS = ['test/native/claim.h', 'test/native/sanitized/host_lane.h']

interface Program {
  readonly name: string
  readonly claim: string
  /** Files of native/ that it needs. */
  readonly sources: readonly string[]
  readonly headerFolders: readonly string[]
}

const STREAM_FOLDERS = ['codec', 'device', 'host']
const MEMORY = ['copy_template', 'engine_memory', 'host_memory', 'mapping', 'memfd', 'pool']
const streamSources = [
  ...inFolders(STREAM_FOLDERS, /\.cc$/),
  ...MEMORY.map((file) => `native/memory/${file}.cc`),
  'native/port/completion_sink.cc',
]
const PORT_FOLDERS = ['files', 'net', 'port', 'posix', 'uring']

const PROGRAMS: readonly Program[] = [
  {
    name: 'host_stream',
    claim: 'native/host: streams, events and the registry hold their claims',
    sources: streamSources,
    headerFolders: [...STREAM_FOLDERS, 'base', 'memory', 'port'],
  },
  {
    name: 'item_codings',
    claim: 'native/codec: items are coded inside their bytes, by all variants alike and from any thread',
    sources: streamSources,
    headerFolders: [...STREAM_FOLDERS, 'base', 'memory', 'port'],
  },
  {
    name: 'port',
    claim: 'native/port: reads under fire, writes of spans, frames, noise and cancels hold their claims',
    sources: [...new Set([...streamSources, ...inFolders(PORT_FOLDERS, /\.cc$/)])],
    headerFolders: [...STREAM_FOLDERS, ...PORT_FOLDERS, 'base', 'memory'],
  },
]

function build({ name, sources, headerFolders }: Program, sanitizer: string): { program: string; errors: string } {
  const inputs = [`test/native/sanitized/${name}.cc`, ...sources]
  const hash = createHash('sha256').update(`${compiler} ${sanitizer}`)
  for (const file of [...inputs, ...HEADERS, ...inFolders(headerFolders, /\.h$/)].sort()) {
    hash.update(file).update(readFileSync(join(root, file)))
  }
  const folder = join(root, 'build', 'sanitized')
  const program = join(folder, `${name}-${sanitizer}-${hash.digest('hex').slice(0, 16)}`)
  if (existsSync(program)) return { program, errors: '' }
  mkdirSync(folder, { recursive: true })
  const flags = [
    '-std=c++20',
    '-O1',
    '-g1',
    `-fsanitize=${sanitizer}`,
    '-fno-sanitize-recover=all',
    '-Inative',
    '-pthread',
  ]
  const compiled = spawnSync(compiler, [...flags, ...inputs, '-o', `${program}.new`], { cwd: root, encoding: 'utf8' })
  if (compiled.status === 0) renameSync(`${program}.new`, program)
  return { program, errors: compiled.status === 0 ? '' : `${compiled.error ?? compiled.stderr}` }
}

/** Whether programs under this sanitizer build and run here: its runtime is a package of its own on some systems. */
function works(sanitizer: string): boolean {
  const folder = join(root, 'build', 'sanitized')
  mkdirSync(folder, { recursive: true })
  const program = join(folder, `probe-${sanitizer}-${process.pid}`)
  const compiled = spawnSync(compiler, ['-x', 'c++', `-fsanitize=${sanitizer}`, '-', '-o', program], {
    input: 'int main() { return 0; }',
  })
  const ran = compiled.status === 0 && spawnSync(program).status === 0
  spawnSync('rm', ['-f', program])
  return ran
}

for (const sanitizer of ['thread', 'address,undefined']) {
  const held = needs(works(sanitizer), `${compiler} has no working -fsanitize=${sanitizer} here`)

  for (const made of PROGRAMS) {
    held(`${made.claim} under -fsanitize=${sanitizer}`, (t) => {
      t.timeout(240_000)
      const { program, errors } = build(made, sanitizer)
      t.is(errors, '')
      const run = spawnSync(program, [folderOf(t)], { encoding: 'utf8', timeout: 120_000 })
      t.is(run.stderr, '')
      t.is(run.stdout, 'every claim held\n')
      t.is(run.status, 0)
    })
  }
}
