import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { needs } from '../support/needs.js'

/**
 * Compiles the native sources that a stream needs with a program of claims, under a sanitizer, and runs it. The result
 * is kept under build/ for as long as no source changes, because the compiler takes longer than the program.
 */
const root = process.cwd()
const PROGRAM = 'test/native/sanitized/host_stream.cc'
const FOLDERS = ['codec', 'device', 'host']
const MEMORY = ['copy_template', 'engine_memory', 'host_memory', 'mapping', 'memfd', 'pool']
const compiler = process.env['CXX'] ?? 'g++'

const inFolders = (folders: string[], ending: RegExp): string[] =>
  folders.flatMap((folder) =>
    readdirSync(join(root, 'native', folder))
      .filter((file) => ending.test(file))
      .map((file) => join('native', folder, file)),
  )

const sources = [
  PROGRAM,
  ...inFolders(FOLDERS, /\.cc$/),
  ...MEMORY.map((file) => `native/memory/${file}.cc`),
  'native/port/completion_sink.cc',
]
const headers = inFolders([...FOLDERS, 'base', 'memory', 'port'], /\.h$/)

function build(sanitizer: string): { program: string; errors: string } {
  const hash = createHash('sha256').update(`${compiler} ${sanitizer}`)
  for (const file of [...sources, ...headers].sort()) hash.update(file).update(readFileSync(join(root, file)))
  const folder = join(root, 'build', 'sanitized')
  const program = join(folder, `host_stream-${sanitizer}-${hash.digest('hex').slice(0, 16)}`)
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
  const compiled = spawnSync(compiler, [...flags, ...sources, '-o', `${program}.new`], { cwd: root, encoding: 'utf8' })
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

  held(`native/host: streams, events and the registry hold their claims under -fsanitize=${sanitizer}`, (t) => {
    t.timeout(180_000)
    const { program, errors } = build(sanitizer)
    t.is(errors, '')
    const run = spawnSync(program, { encoding: 'utf8', timeout: 120_000 })
    t.is(run.stderr, '')
    t.is(run.stdout, 'every claim held\n')
    t.is(run.status, 0)
  })
}
