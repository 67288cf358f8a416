import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { needs } from '../support/needs.js'
import { NO_GPU } from './gpu.js'

/** The kernels under NVIDIA's own checkers, at every odd size and alignment that the claims of the device have. */

const NAME = 'compute-sanitizer'
const PLACES = [NAME, `/usr/local/cuda/bin/${NAME}`]
const found = PLACES.find((path) => spawnSync(path, ['--version'], { stdio: 'ignore' }).status === 0)
const reason =
  NO_GPU !== '' ? NO_GPU : found === undefined ? `${NAME} is neither in PATH nor under /usr/local/cuda` : ''
const checked = needs(reason === '', reason)

/** The claims that launch kernels on runs of odd sizes; the others add time and no kernel. */
const CLAIMED = [
  {
    file: 'cuda-device',
    claims: ['*copies by kernel*', '*padding of a segment*', '*gather and scatter*', '*checksums of device memory*'],
    // Each of the four, and each of the four ways to gather.
    passedMin: 7,
  },
  { file: 'codec', claims: ['*FP8 of any length*by kernel*', '*TurboQuant of every shape*'], passedMin: 2 },
] as const

/** Tools, what each says of a process that is clean, and how the line begins in which it says anything. */
const TOOLS = [
  { tool: 'memcheck', clean: /ERROR SUMMARY: 0 errors/, summary: /ERROR SUMMARY:/ },
  { tool: 'racecheck', clean: /RACECHECK SUMMARY: 0 hazards/, summary: /RACECHECK SUMMARY:/ },
  { tool: 'synccheck', clean: /ERROR SUMMARY: 0 errors/, summary: /ERROR SUMMARY:/ },
] as const

/** Exit code that the checker gives a process in which it found something. */
const FOUND = 86

async function claimsUnder(
  t: ExecutionContext,
  tool: string,
  { file: name, claims }: (typeof CLAIMED)[number],
): Promise<{ readonly code: number | null; readonly said: string }> {
  const ava = join(process.cwd(), 'node_modules/ava/entrypoints/cli.mjs')
  const file = `dist/test/device/${name}.test.js`
  t.true(existsSync(ava) && existsSync(file))
  const match = claims.flatMap((claim) => ['--match', claim])
  const checker = ['--tool', tool, '--target-processes', 'all', '--error-exitcode', String(FOUND)]
  const child = spawn(found ?? NAME, [...checker, process.execPath, ava, '--tap', '--timeout=10m', ...match, file], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => void child.kill('SIGKILL'))
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
  }
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  return { code, said }
}

const CHECKS = TOOLS.flatMap((tool) => CLAIMED.map((claimed) => ({ ...tool, claimed })))
for (const { tool, clean, summary, claimed } of CHECKS) {
  checked(`${NAME}: ${tool} finds nothing in the kernels of ${claimed.file} at odd sizes and alignments`, async (t) => {
    t.timeout(600_000)
    const { code, said } = await claimsUnder(t, tool, claimed)
    const lines = said.split('\n').filter((line) => summary.test(line))
    t.true(lines.length > 0, `${tool} has watched a process: ${said.slice(-2000)}`)
    t.deepEqual(
      lines.filter((line) => !clean.test(line)),
      [],
      said.slice(-4000),
    )
    t.is(code, 0, said.slice(-4000))
    const passed = said.match(/^ok \d+ - .*$/gm) ?? []
    t.true(
      passed.filter((line) => !line.includes('# SKIP')).length >= claimed.passedMin,
      `kernels were launched: ${passed.join('\n')}`,
    )
  })
}
