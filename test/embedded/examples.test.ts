import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { loadNative } from '../../src/binding/load.js'
import { directIoWorks } from '../support/direct-io.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'

const native = loadNative()
const testWithSsd = needs(
  native.probe().available && directIoWorks(native),
  'the examples need io_uring and a temporary folder with direct I/O',
)
const ROOT = new URL('../../../', import.meta.url)
const exampleOf = (name: string) => fileURLToPath(new URL(`examples/${name}`, ROOT))

async function output(name: string, folder: string): Promise<string[]> {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [exampleOf(name), folder], { timeout: 60_000 })
  if (stderr !== '') throw new Error(stderr)
  return stdout.trimEnd().split('\n')
}

testWithSsd('examples/embedded.mjs: every block comes back from SSD, in one process', async (t) => {
  t.deepEqual(await output('embedded.mjs', folderOf(t)), [
    '64 blocks from SSD, route uring, 8388608 bytes, equal: true',
  ])
})

testWithSsd('examples/worker-engines.mjs: one thread saves, another restores, one runtime serves both', async (t) => {
  t.deepEqual(await output('worker-engines.mjs', folderOf(t)), [
    'writer: published 32 blocks, and all of them are on SSD',
    'reader: restored 4194304 bytes, 32 blocks from SSD by route uring, 32 right',
    'closed: 0 unfinished, 0 leaks',
  ])
})

testWithSsd('the embedded example takes less than 20 lines, and the README shows it as it is', (t) => {
  const lines = readFileSync(exampleOf('embedded.mjs'), 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('//'))
  t.true(lines.length < 20, `${lines.length} lines`)
  const readme = readFileSync(new URL('README.md', ROOT), 'utf8')
  t.true(readme.includes(lines.join('\n')))
})
