// Runs the tests of test/device, one file after the other, and ends with one line of JSON that counts them; what is
// skipped is printed with its reason. Usage: device-tests.mjs [ava arguments]. With $OUT set, the whole log and the
// summary are files there.
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const given = process.argv.slice(2)
const chosen = given.some((each) => each.includes('dist/')) ? given : ['dist/test/device/**/*.test.js', ...given]
const args = ['--tap', '--concurrency=1', '--timeout=5m', ...chosen]
const child = spawn(process.execPath, [join(root, 'node_modules/ava/entrypoints/cli.mjs'), ...args], {
  cwd: root,
  stdio: ['ignore', 'pipe', 'pipe'],
})
const exited = new Promise((resolve) => child.on('close', (code) => resolve(code ?? 1)))
const log = []
const tests = { passed: [], failed: [], skipped: [] }
child.stderr.setEncoding('utf8').on('data', (text) => {
  log.push(text.trimEnd())
  process.stderr.write(text)
})
createInterface({ input: child.stdout }).on('line', (line) => {
  log.push(line)
  const result = /^(not )?ok \d+ - (.*?)( # SKIP)?$/.exec(line)
  if (result !== null)
    tests[result[3] !== undefined ? 'skipped' : result[1] !== undefined ? 'failed' : 'passed'].push(result[2])
  if (!/^(TAP version|1\.\.)/.test(line)) console.log(line)
})
const code = await exited
const summary = {
  code,
  passed: tests.passed.length,
  failed: tests.failed.length,
  skipped: tests.skipped.length,
  failures: tests.failed,
}
const out = process.env.OUT
if (out !== undefined && out !== '') {
  writeFileSync(join(out, 'device-tests.tap'), `${log.join('\n')}\n`)
  writeFileSync(join(out, 'device-tests.json'), `${JSON.stringify({ ...summary, ...tests }, null, 1)}\n`)
}
console.log(JSON.stringify(summary))
process.exitCode = code
