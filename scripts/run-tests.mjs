// Runs every test that this machine can run and ends with one line that counts them. Usage: run-tests.mjs [ava arguments]
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const totals = { passed: 0, failed: 0, skipped: 0 }

function count(lines, perLine) {
  return new Promise((resolve) => {
    createInterface({ input: lines }).on('line', perLine).on('close', resolve)
  })
}

async function runAva(args) {
  const child = spawn(process.execPath, [join(root, 'node_modules/ava/entrypoints/cli.mjs'), '--tap', ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = new Promise((resolve) => child.on('close', (code) => resolve(code ?? 1)))
  let showDetail = false
  await count(child.stdout, (line) => {
    const result = /^(not )?ok \d+ - (.*?)( # SKIP)?$/.exec(line)
    if (result === null) {
      if (showDetail && !/^(TAP version|1\.\.|# )/.test(line)) console.log(line)
      return
    }
    showDetail = result[1] !== undefined
    if (result[3] !== undefined) {
      totals.skipped++
      console.log(`- ${result[2]}`)
    } else if (showDetail) {
      totals.failed++
      console.log(`✗ ${result[2]}`)
    } else {
      totals.passed++
    }
  })
  const code = await exited
  if (code !== 0 && totals.failed === 0) {
    totals.failed++
    console.log(`✗ the test runner ended with code ${code}`)
  }
}

async function runPython() {
  const tests = join(root, 'python/tests')
  if (!existsSync(tests)) return
  const child = spawn('python3', ['-m', 'unittest', 'discover', '-v', '-s', tests, '-t', join(root, 'python')], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let missing = false
  child.on('error', () => {
    missing = true
  })
  const exited = new Promise((resolve) => child.on('close', (code) => resolve(code ?? 1)))
  const seen = []
  await count(child.stderr, (line) => {
    seen.push(line)
    if (/ \.\.\. ok$/.test(line)) totals.passed++
    else if (/ \.\.\. skipped /.test(line)) {
      totals.skipped++
      console.log(`- python: ${line}`)
    } else if (/ \.\.\. (FAIL|ERROR)$/.test(line)) totals.failed++
  })
  const code = await exited
  if (missing) {
    totals.skipped++
    console.log('- the Python client [skipped: python3 is not installed]')
  } else if (code !== 0) {
    if (totals.failed === 0) totals.failed++
    console.log(seen.join('\n'))
  }
}

/** Tests that start processes, threads or devices: one file at a time, so that another's load does not reach their limits. */
const ALONE = ['cli', 'client', 'control', 'device', 'embedded', 'failures', 'http', 'native', 'process', 'stress']
/** Of test/actors those with threads; machines are stepped by hand. */
const ALONE_FILES = ['actors/*lanes.test.js', 'actors/runtime/*.test.js']
const alone = (prefix) =>
  [...ALONE.map((folder) => `${folder}/**/*.test.js`), ...ALONE_FILES].map((each) => `${prefix}dist/test/${each}`)

const args = process.argv.slice(2)
if (args.length > 0) await runAva(args)
else {
  await runAva(['--concurrency', '1', ...alone('')])
  await runAva(['dist/test/**/*.test.js', ...alone('!')])
  await runPython()
}
console.log(`${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`)
process.exit(totals.failed === 0 ? 0 : 1)
