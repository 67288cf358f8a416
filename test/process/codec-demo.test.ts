import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import test, { type ExecutionContext } from 'ava'
import type { DemoReport } from '../../src/cli/demo/report.js'
import { noCudaTwin } from '../support/cuda-twin.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { nvcompShim } from '../support/nvcomp-shim.js'

/** The demo with every codec over a small trace: in host memory, and on the device of a twin of libcuda. */

const DEMO = fileURLToPath(new URL('../../src/cli/demo.js', import.meta.url))
const PREFIXES = 16
const BLOCKS = 16

/** Every prefix, then every prefix again: by then most of them have left a pool of 16 MiB. */
function traceIn(folder: string): string {
  const path = join(folder, 'trace.jsonl')
  const request = (prefix: number) => ({ hash_ids: Array.from({ length: BLOCKS }, (_, i) => prefix * BLOCKS + i) })
  const requests = Array.from({ length: 2 * PREFIXES }, (_, i) => request(i % PREFIXES))
  writeFileSync(path, requests.map((each) => `${JSON.stringify(each)}\n`).join(''))
  return path
}

/** Runs the demo to its end. */
function demo(
  t: ExecutionContext,
  flags: readonly string[],
): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, [DEMO, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => void child.kill('SIGKILL'))
  let [out, err] = ['', '']
  child.stdout.on('data', (text) => {
    out += text
  })
  child.stderr.on('data', (text) => {
    err += text
  })
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, out, err })))
}

async function restoresRight(t: ExecutionContext, codec: string, device: string): Promise<void> {
  const flags = ['--storage-codec', codec, '--device', device, '--trace', traceIn(folderOf(t)), '--pool', '16mb']
  const { code, out, err } = await demo(t, [...flags, '--block-bytes', '64kb', '--ssd', '64mb', '--json'])
  t.is(code, 0, `${out}${err}`)
  const report = JSON.parse(out.trim().split('\n').at(-1) as string) as DemoReport
  t.like(report, { ok: true, mismatches: 0, gaugesAtRest: 0, enginesKilled: 1, managerExitCode: 0, device })
  t.true(report.restoredBytes > 0 && report.codec !== null)
  t.true((report.codec?.logicalBytes ?? 0) > (report.codec?.storedBytes ?? 0))
  t.is(report.relativeErrors[0] > 0, codec.startsWith('turboquant'))
}

const twin = needs(noCudaTwin() === '', noCudaTwin())

for (const codec of ['fp8', 'turboquant-4', 'turboquant-3']) {
  test.serial(`the demo holds what ${codec} gives back to its oracle, in host memory`, (t) =>
    restoresRight(t, codec, 'host'),
  )
  twin(`the demo holds what ${codec} gives back to its oracle, on a device`, (t) => restoresRight(t, codec, 'gpu'))
}

twin('the demo gets back every byte of ANS, on a device and over a stand-in of nvCOMP', async (t) => {
  const nvcomp = nvcompShim(folderOf(t))
  process.env['ORBITKV_NVCOMP_LIBRARY'] = nvcomp.library
  await restoresRight(t, 'ans', 'gpu')
  delete process.env['ORBITKV_NVCOMP_LIBRARY']
  t.deepEqual(nvcomp.takeViolations(), [])
  t.true(nvcomp.takeBatches().some(({ kind, chunks }) => kind === 'decompress' && chunks > 1))
})

test.serial('the demo ends with the reason when its Manager cannot have the codec', async (t) => {
  process.env['ORBITKV_NVCOMP_LIBRARY'] = '/nonexistent/libnvcomp.so.5'
  const { code, err } = await demo(t, ['--storage-codec', 'ans'])
  delete process.env['ORBITKV_NVCOMP_LIBRARY']
  t.is(code, 1)
  t.regex(err, /Cannot use --storage-codec ans: .* \[codec_unavailable\]/)
  t.regex(err, /demo: Error: The Manager did not start: exit code 1; its reason stands on standard error/)
})
