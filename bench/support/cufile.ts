import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Native } from '../../src/binding/surface.js'
import { Refusal } from './options.js'

/** cuFile with one file registered. */
export interface BenchCufile {
  readonly version: number
  /** True: its bytes are evidence of correctness and its times of nothing. */
  readonly compatibilityMode: boolean
  readonly close: () => void
}

/**
 * Opens cuFile, with compatibility mode allowed, and registers `file`.
 * @throws Refusal where libcufile cannot be opened or does not take the file
 */
export function openCufile(native: Native, file: number): BenchCufile {
  const logFolder = mkdtempSync(join(tmpdir(), 'orbitkv-bench-cufile-'))
  const library = process.env['ORBITKV_CUFILE_LIBRARY'] ?? ''
  const { available, reason, code, version, compatible } = native.openCuFile({ library, nativeOnly: false, logFolder })
  if (!available) throw new Refusal(`cuFile is not available here (${reason}, status ${code})`)
  const refused = native.registerCuFileShard(file)
  if (refused !== 0) {
    native.closeCuFile()
    throw new Refusal(`cuFile does not take the file (status ${-refused})`)
  }
  return {
    version,
    compatibilityMode: compatible,
    close: () => {
      const closed = native.closeCuFile()
      if (closed !== 0) throw new Error(`cuFile did not close: ${closed}`)
      rmSync(logFolder, { recursive: true })
    },
  }
}
