// Compiles every kernel for the architectures that we promise, with the run-time compiler that the addon uses. No GPU is
// needed. Takes libnvrtc from ORBITKV_LIBNVRTC or where the addon finds it, else from a wheel of PyPI, kept in the user's cache.
// Where neither can be had it says so and ends with 0. Usage: check-kernels.mjs, after npm run build
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ARCHITECTURES = [80, 89, 90, 100]
const WHEEL = 'nvidia-cuda-nvrtc==13.0.88'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const kept = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'orbitkv', WHEEL.replace('==', '-'))
const library = join(kept, 'unpacked', 'nvidia', 'cu13', 'lib', 'libnvrtc.so.13')

function skip(reason) {
  console.log(`kernels: skipped: ${reason}`)
  process.exit(0)
}

function fetchWheel() {
  if (existsSync(library)) return
  mkdirSync(kept, { recursive: true })
  const pip = ['-m', 'pip', 'download', '--quiet', '--no-deps', '--only-binary=:all:', '--dest', kept, WHEEL]
  const fetched = spawnSync('python3', pip, { encoding: 'utf8', timeout: 300_000 })
  if (fetched.error !== undefined) skip(`python3 is not here to fetch ${WHEEL}`)
  if (fetched.status !== 0) skip(`pip cannot fetch ${WHEEL}: ${fetched.stderr.trim().split('\n').at(-1) ?? ''}`)
  const wheel = readdirSync(kept).find((name) => name.endsWith('.whl'))
  if (wheel === undefined) skip(`pip fetched no wheel of ${WHEEL}`)
  const unpacked = spawnSync('python3', ['-m', 'zipfile', '-e', join(kept, wheel), join(kept, 'unpacked')])
  if (unpacked.status !== 0 || !existsSync(library)) skip(`the wheel of ${WHEEL} has no ${library}`)
}

const cache = mkdtempSync(join(tmpdir(), 'orbitkv-kernels-'))
process.env.ORBITKV_KERNEL_CACHE = cache
const open = () => createRequire(import.meta.url)(join(root, 'build/native/Release/orbitkv.node'))

// The addon looks for the compiler once a process, so who has to fetch it asks again in another.
if (process.env.ORBITKV_LIBNVRTC === undefined && !open().cudaProbe().compiler.available) {
  fetchWheel()
  const again = spawnSync(process.execPath, [fileURLToPath(import.meta.url)], {
    stdio: 'inherit',
    env: { ...process.env, ORBITKV_LIBNVRTC: library },
  })
  rmSync(cache, { recursive: true, force: true })
  process.exit(again.status ?? 1)
}

const native = open()
const { compiler } = native.cudaProbe()
if (!compiler.available) skip(compiler.reason)
console.log(`kernels: ${compiler.library}, version ${compiler.version}`)
let failed = 0
for (const architecture of ARCHITECTURES) {
  try {
    const start = performance.now()
    const compiled = native.compileKernels(architecture)
    if (compiled.some(({ cached, bytes }) => cached || bytes === 0)) throw new Error('nothing was compiled')
    if (!native.compileKernels(architecture).every(({ cached }) => cached)) throw new Error('the cache kept nothing')
    const list = compiled.map(({ name, bytes }) => `${name} ${bytes} bytes`).join(', ')
    console.log(`✓ sm_${architecture}: ${list}, ${Math.round(performance.now() - start)} ms`)
  } catch (error) {
    failed++
    console.log(`✗ sm_${architecture}: ${error.message}`)
  }
}
rmSync(cache, { recursive: true, force: true })
process.exit(failed === 0 ? 0 : 1)
