import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Builds a library of test/shims, which stands in for one of a vendor, and returns its path. Kept under build/ for as
 * long as its source does not change.
 */
export function shim(name: 'libcuda' | 'libnvrtc'): string {
  const root = process.cwd()
  const source = join(root, 'test/shims', `${name}.c`)
  const compiler = process.env['CC'] ?? 'gcc'
  const hash = createHash('sha256').update(compiler).update(readFileSync(source)).digest('hex').slice(0, 16)
  const folder = join(root, 'build', 'shims')
  const library = join(folder, `${name}-${hash}.so`)
  if (existsSync(library)) return library
  mkdirSync(folder, { recursive: true })
  const made = `${library}.${process.pid}`
  const built = spawnSync(compiler, ['-shared', '-fPIC', '-O1', '-Wall', '-o', made, source, '-lpthread', '-lrt'], {
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
}

/** Faults of the twin of libcuda from now on; none with an empty text. */
export function cudaFaults(faults: string): void {
  process.env['ORBITKV_SHIM'] = faults
}
