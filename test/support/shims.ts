import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What a library that stands in for another is compiled with in a process that a sanitizer watches (test/sanitize). */
export function sanitizerFlags(): string[] {
  const sanitize = process.env['ORBITKV_TEST_SANITIZE']
  return sanitize === undefined || sanitize === '' ? [] : [`-fsanitize=${sanitize}`, '-g1', '-fno-omit-frame-pointer']
}

/** What the twin of libcuda codes items with: the codings of the processor, and their headers. */
function codingFiles(root: string): string[] {
  const codec = join(root, 'native/codec')
  const files = readdirSync(codec)
    .sort()
    .map((file) => join(codec, file))
  return [join(root, 'test/shims/codes.cc'), ...files, join(root, 'native/cuda/code_items.h')]
}

/**
 * Builds a library of test/shims, which stands in for one of a vendor or before it, and returns its path. Kept under
 * build/ for as long as its source does not change.
 */
export function shim(name: 'libcuda' | 'libnvrtc' | 'between'): string {
  const root = process.cwd()
  const source = join(root, 'test/shims', `${name}.c`)
  const compiler = process.env['CC'] ?? 'gcc'
  const sanitized = sanitizerFlags()
  const coding = name === 'libcuda' ? codingFiles(root) : []
  const hashed = createHash('sha256').update([compiler, ...sanitized].join(' '))
  for (const file of [source, ...coding]) hashed.update(readFileSync(file))
  const hash = hashed.digest('hex').slice(0, 16)
  const folder = join(root, 'build', 'shims')
  const library = join(folder, `${name}-${hash}.so`)
  if (existsSync(library)) return library
  mkdirSync(folder, { recursive: true })
  const made = `${library}.${process.pid}`
  const flags = ['-shared', '-fPIC', '-O1', '-Wall', ...sanitized]
  const libraries = ['-lpthread', '-lrt', '-ldl']
  const cxx = coding.filter((file) => file.endsWith('.cc'))
  if (cxx.length > 0) {
    flags.push('-Wl,-Bsymbolic', `-I${join(root, 'native')}`)
    libraries.push('-lstdc++', '-lm')
    // One driver for both languages, with the standard of each.
    cxx.unshift('-x', 'c++', '-std=c++20', '-fvisibility=hidden', '-O2')
  }
  const built = spawnSync(compiler, [...flags, '-o', made, source, ...cxx, '-x', 'none', ...libraries], {
    encoding: 'utf8',
  })
  if (built.status !== 0) throw new Error(`${compiler} cannot build ${source}: ${built.stderr ?? built.error}`)
  renameSync(made, library)
  return library
}

/** The addon of this process will find the twins of libcuda and libnvrtc; before its first call of either. */
export function useCudaShims(): void {
  process.env['ORBITKV_LIBCUDA'] = shim('libcuda')
  process.env['ORBITKV_LIBNVRTC'] = shim('libnvrtc')
  process.env['ORBITKV_KERNEL_CACHE'] = mkdtempSync(join(tmpdir(), 'orbitkv-kernels-'))
  if (faultsFile === null) prepareCudaFaults()
}

/** Bytes of one list of faults in the file that the twin of libcuda maps; the first byte says which one holds. */
const FAULTS_BYTES = 256
const FAULTS_SLOTS = 16
let faultsFile: number | null = null
let faultsSlot = 0

/**
 * Makes the file by which the twin of libcuda is told faults; before its first call. No variable of the environment does:
 * threads of the twin would read it while this one changes it.
 */
export function prepareCudaFaults(): void {
  const path = join(mkdtempSync(join(tmpdir(), 'orbitkv-faults-')), 'faults')
  faultsFile = openSync(path, 'w+')
  ftruncateSync(faultsFile, FAULTS_BYTES * FAULTS_SLOTS)
  process.env['ORBITKV_SHIM_FAULTS'] = path
}

/** Faults of the twin of libcuda from now on; none with an empty text. */
export function cudaFaults(faults: string): void {
  if (faultsFile === null) throw new Error('prepareCudaFaults() comes first')
  faultsSlot = (faultsSlot % (FAULTS_SLOTS - 1)) + 1
  const slot = Buffer.alloc(FAULTS_BYTES)
  if (slot.write(faults) !== faults.length || faults.length >= FAULTS_BYTES)
    throw new Error(`too many faults: ${faults}`)
  writeSync(faultsFile, slot, 0, FAULTS_BYTES, faultsSlot * FAULTS_BYTES)
  writeSync(faultsFile, Uint8Array.of(faultsSlot), 0, 1, 0)
}

/** Faults that the twin of libcuda of a process begins with, of processes that are started from now on. */
export function cudaFaultsOfChildren(faults: string): void {
  process.env['ORBITKV_SHIM'] = faults
}
