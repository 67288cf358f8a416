import { spawn, spawnSync } from 'node:child_process'
import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { BUILDS, compile, environment, furnish, missing, type SanitizedBuild, treeOf, withLines } from './builds.js'
import { type Report, reportsIn } from './reports.js'

/**
 * `npm run test:sanitize -- [--slice] [--build NAME] [--json] [FILES]`: builds the addon under each sanitizer, proves
 * that the sanitizer finds what is planted, and runs the tests of the addon and a whole vertical with it. FILES are
 * compiled tests (dist/test/…). The last line is one JSON object; the exit code is 0 when all of it held.
 */

/** What a few minutes allow: every kind of I/O, memory, streams, slots, ends during I/O, a vertical in one process. */
const SLICE = [
  'native/port-io',
  'native/port-end',
  'native/host-stream',
  'native/shared-memory',
  'native/slots',
  'embedded/round-trip',
]

/**
 * Everything that loads the addon, but for what measures time: native/host and actors/runtime/native-park give their
 * processes seconds to end, and a sanitizer's own end takes longer (port-end has the ends during I/O).
 */
const WHOLE = [
  ...SLICE,
  'native/ans-codes',
  'native/copy-template',
  'native/crc32',
  'native/cuda-codes',
  'native/cuda-device',
  'native/cuda-faults',
  'native/cufile',
  'native/cufile-cuda',
  'native/held-codes',
  'native/host-codes',
  'native/in-process',
  'native/nvcomp',
  'native/port-sockets',
  'native/shard-files',
  'native/slot-lines',
  'actors/disk-lanes',
  'actors/lanes',
  'actors/restore-through-readers',
  'actors/runtime/workers',
  'client/native-link',
  'embedded/aborts',
  'embedded/life',
  'embedded/worker-engines',
  'process/vertical',
  'process/killed',
]

/** Titles whose claims cannot hold under a sanitizer, with the reason. */
const NOT_HERE = [
  // The sanitizer keeps freed memory for a while, and its own beside all memory.
  'shareBuffer: a buffer that JavaScript has forgotten stays in place until it is released',
  // Preloads a library of its own, before which the runtime would have to come.
  'openShard: without extended attributes a file beside it is the mark',
]

interface Outcome {
  readonly name: string
  readonly tests: number
  readonly failed: number
  readonly skipped: number
  /** Findings with a frame in the addon, and findings of Node alone. */
  readonly reports: number
  readonly reportsOfNode: number
  readonly planted: number
  readonly plantedFound: number
  readonly seconds: number
}

const say = (line: string) => void process.stderr.write(`${line}\n`)

/** The reports that processes left under `logPath` in `folder`. */
function collect(folder: string): Report[] {
  return readdirSync(folder).flatMap((file) => reportsIn(readFileSync(join(folder, file), 'utf8')))
}

function emptyFolder(folder: string): string {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  return folder
}

function plantedFound(build: SanitizedBuild): number {
  const tree = treeOf(build)
  return build.plants.filter(({ bug, what }) => {
    const folder = emptyFolder(join(tree, 'reports', bug))
    const child = join(tree, 'dist/test/sanitize/planted-child.js')
    const env = environment(build, join(folder, 'report'))
    const ran = spawnSync(process.execPath, [child, bug], { cwd: tree, env, encoding: 'utf8' })
    // The runtime of undefined behaviour writes to standard error when it is not the first.
    writeFileSync(join(folder, 'stderr'), ran.stderr)
    const found = collect(folder).some((report) => report.what === what && report.inAddon)
    say(`${found ? '✓' : '✗'} ${build.name}: the planted ${bug} is ${found ? '' : 'not '}reported as ${what}`)
    if (!found) say(ran.stderr)
    return found
  }).length
}

async function runTests(build: SanitizedBuild, files: readonly string[], folder: string) {
  const tree = treeOf(build)
  const ava = join(process.cwd(), 'node_modules/ava/entrypoints/cli.mjs')
  const child = spawn(
    process.execPath,
    [ava, '--tap', '--timeout=10m', ...NOT_HERE.flatMap((title) => ['--match', `!${title}`]), ...files],
    {
      cwd: tree,
      env: environment(build, join(folder, 'report')),
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  child.stderr.on('data', (chunk: Buffer) => appendFileSync(join(folder, 'stderr'), chunk))
  const counts = { tests: 0, failed: 0, skipped: 0 }
  let showDetail = false
  const lines = createInterface({ input: child.stdout }).on('line', (line) => {
    const result = /^(not )?ok \d+ - (.*?)( # SKIP)?$/.exec(line)
    if (result === null) {
      if (showDetail && !/^(TAP version|1\.\.|# )/.test(line)) say(line)
      return
    }
    showDetail = result[1] !== undefined
    if (result[3] !== undefined) counts.skipped++
    else counts.tests++
    if (showDetail) counts.failed++
    if (showDetail || result[3] !== undefined) say(`${showDetail ? '✗' : '-'} ${build.name}: ${result[2]}`)
  })
  const [code] = await Promise.all([
    new Promise<number | null>((resolve) => child.on('close', resolve)),
    new Promise((resolve) => lines.on('close', resolve)),
  ])
  if (code !== 0 && counts.failed === 0) {
    say(`✗ ${build.name}: the test runner ended with ${code}`)
    counts.failed++
  }
  return counts
}

async function check(build: SanitizedBuild, files: readonly string[]): Promise<Outcome> {
  const start = performance.now()
  const wrong = missing(build) ?? compile(build)
  if (wrong !== null) {
    say(`✗ ${build.name}: ${wrong}`)
    process.exit(1)
  }
  furnish(build)
  const found = plantedFound(build)
  const folder = emptyFolder(join(treeOf(build), 'reports', 'tests'))
  const counts = await runTests(build, files, folder)
  const reports = collect(folder)
  const ours = reports.filter(({ inAddon }) => inAddon)
  for (const { what, text } of ours) say(`${what}: ${withLines(build, text)}`)
  return {
    name: build.name,
    ...counts,
    reports: ours.length,
    reportsOfNode: reports.length - ours.length,
    planted: build.plants.length,
    plantedFound: found,
    seconds: Math.round((performance.now() - start) / 1000),
  }
}

const args = process.argv.slice(2)
const only = args.includes('--build') ? args[args.indexOf('--build') + 1] : undefined
const named = args.filter((arg) => arg.endsWith('.test.js'))
const listed = (args.includes('--slice') ? SLICE : WHOLE).map((name) => `dist/test/${name}.test.js`)
const chosen = BUILDS.filter(({ name }) => only === undefined || name === only)
if (chosen.length === 0) {
  say(`Cannot use --build ${only}: there is ${BUILDS.map(({ name }) => name).join(' and ')}`)
  process.exit(2)
}
const builds: Outcome[] = []
for (const build of chosen) builds.push(await check(build, named.length > 0 ? named : listed))
const held = ({ tests, failed, reports, planted, plantedFound }: Outcome) =>
  tests > 0 && failed === 0 && reports === 0 && planted === plantedFound
process.stdout.write(`${JSON.stringify({ builds, passed: builds.every(held) })}\n`)
process.exitCode = builds.every(held) ? 0 : 1
