// Builds the addon into build/native/Release. Checks the tools first, so that a missing one is named with its remedy.
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

function fail(message) {
  console.error(`orbitkv: cannot build the native addon: ${message}`)
  process.exit(1)
}

function version(command, args, pattern) {
  const run = spawnSync(command, args, { encoding: 'utf8' })
  if (run.error !== undefined || run.status !== 0) return null
  const match = pattern.exec(run.stdout)
  return match === null ? null : match.slice(1).map(Number)
}

if (process.platform !== 'linux') fail(`${process.platform} is not supported, Linux is required`)

const [nodeMajor, nodeMinor] = process.versions.node.split('.').map(Number)
const nodeFits =
  nodeMajor > 24 ||
  (nodeMajor === 24 && nodeMinor >= 12) ||
  (nodeMajor === 22 && nodeMinor >= 20) ||
  (nodeMajor === 20 && nodeMinor >= 19)
if (!nodeFits)
  fail(`Node ${process.versions.node} found, 20.19, 22.20, 24.12 or later of these lines needed: https://nodejs.org`)

const cmake = version('cmake', ['--version'], /version (\d+)\.(\d+)/)
if (cmake === null)
  fail('cmake not found; install it: apt-get install cmake (Debian, Ubuntu) or dnf install cmake (Fedora, RHEL)')
if (cmake[0] < 3 || (cmake[0] === 3 && cmake[1] < 22))
  fail(`cmake ${cmake.join('.')} found, 3.22 or later needed; install it: pip install cmake`)

const compiler = process.env.CXX ?? 'g++'
const gxx = version(compiler, ['-dumpfullversion', '-dumpversion'], /(\d+)/)
if (gxx === null)
  fail(
    `${compiler} not found; install a C++20 compiler: apt-get install g++ (Debian, Ubuntu) or dnf install gcc-c++ (Fedora, RHEL)`,
  )
if (!compiler.includes('clang') && gxx[0] < 11)
  fail(`${compiler} ${gxx[0]} found, 11 or later needed; install it: apt-get install g++-11 and set CXX=g++-11`)

const generator = version('ninja', ['--version'], /(\d+)\.(\d+)/) ?? version('make', ['--version'], /(\d+)\.(\d+)/)
if (generator === null)
  fail(
    'neither ninja nor make found; install one: apt-get install make (Debian, Ubuntu) or dnf install make (Fedora, RHEL)',
  )

const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js')
const build = spawnSync(process.execPath, [cmakeJs, 'compile', '-O', 'build/native', ...process.argv.slice(2)], {
  cwd: root,
  encoding: 'utf8',
  maxBuffer: 64 * 1024 * 1024,
})
if (build.status !== 0) {
  console.error(build.stdout)
  console.error(build.stderr)
  fail('the compiler reported the errors above')
}
