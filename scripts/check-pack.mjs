// Packs, installs the tarball into an empty folder, and runs what a user runs there: the demo, the embedded example and,
// with ORBITKV_CACHE_MANAGER_BINARY at the installed Manager, a test of processes. Ends with one line of JSON.
// Usage: check-pack.mjs, after npm ci
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const folder = mkdtempSync(join(tmpdir(), 'orbitkv-pack-'))

/** What a user needs, and what must not travel. */
const NEEDED = [
  'dist/src/index.js',
  'dist/src/index.d.ts',
  'dist/src/client/index.js',
  'dist/src/cli/cache-manager.js',
  'dist/src/cli/demo.js',
  'native/addon/surface.cc',
  'CMakeLists.txt',
  'scripts/build-native.mjs',
  'python/orbitkv/__init__.py',
  'examples/embedded.mjs',
  'examples/worker-engines.mjs',
  'docs/operating.md',
  'docs/errors.md',
  'README.md',
  'LICENSE',
]
const UNWANTED = /(^|\/)(test|tests|bench|node_modules|__pycache__|build|\.git)(\/|$)|\.(dat|node|tgz|jsonl|test\.js)$/

function run(command, args, options = {}) {
  const result = spawnSync(command, args, { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 28, ...options })
  if (result.status === 0) return result.stdout
  throw new Error(`${command} ${args.join(' ')} ended with ${result.status}\n${result.stdout}\n${result.stderr}`)
}

function pack() {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  const said = JSON.parse(run('npm', args, { cwd: root }))
  const [packed] = Array.isArray(said) ? said : Object.values(said)
  const files = packed.files.map(({ path }) => path)
  const missing = NEEDED.filter((path) => !files.includes(path))
  const unwanted = files.filter((path) => UNWANTED.test(path))
  if (missing.length > 0 || unwanted.length > 0) {
    throw new Error(`The package lacks [${missing.join(', ')}] and must not have [${unwanted.join(', ')}]`)
  }
  return { tarball: join(folder, packed.filename), files: files.length, bytes: packed.size }
}

/** Installs; says whether npm ran the package's install script or it had to be run by hand. */
function install(tarball) {
  const home = join(folder, 'user')
  mkdirSync(home)
  writeFileSync(join(home, 'package.json'), '{ "name": "user", "private": true, "type": "module" }\n')
  run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts=false', tarball], { cwd: home })
  const installed = join(home, 'node_modules', 'orbitkv')
  const built = () => existsSync(join(installed, 'build/native/Release/orbitkv.node'))
  if (built()) return { home, installed, addon: 'built by npm' }
  // npm 11 runs the scripts of a dependency once they are approved (npm approve-scripts orbitkv); this is what they do.
  run(process.execPath, [join(installed, 'scripts/build-native.mjs')], { cwd: home })
  if (!built()) throw new Error('The addon was not built')
  return { home, installed, addon: 'built by hand' }
}

function lastJson(text) {
  return JSON.parse(text.trimEnd().split('\n').at(-1))
}

try {
  const { tarball, files, bytes } = pack()
  console.error(`packed: ${files} files, ${bytes} bytes`)
  const { home, installed, addon } = install(tarball)
  console.error(`installed: addon ${addon}`)
  const demo = lastJson(run(process.execPath, [join(installed, 'dist/src/cli/demo.js'), '--json'], { cwd: home }))
  console.error(`demo: ${JSON.stringify(demo)}`)
  copyFileSync(join(installed, 'examples/embedded.mjs'), join(home, 'embedded.mjs'))
  const example = run(process.execPath, ['embedded.mjs', folder], { cwd: home }).trim()
  if (!example.endsWith('equal: true')) throw new Error(`The embedded example said: ${example}`)
  console.error(`example: ${example}`)
  const env = { ...process.env, ORBITKV_CACHE_MANAGER_BINARY: join(home, 'node_modules/.bin/orbitkv-cache-manager') }
  const ava = [join(root, 'node_modules/ava/entrypoints/cli.mjs'), 'dist/test/process/clients.test.js']
  run(process.execPath, ava, { cwd: root, env })
  console.log(JSON.stringify({ files, bytes, addon, example, demo, processTests: 'passed' }))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
