import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Native } from '../../src/binding/surface.js'
import { MIB } from '../../src/shared/base/units.js'

/** True when the file system under the temporary folder takes O_DIRECT. */
export function directIoWorks(native: Native): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'orbitkv-probe-'))
  try {
    native.closeShard(native.openShard(join(folder, 'probe.dat'), MIB, true).file)
    return true
  } catch {
    return false
  } finally {
    rmSync(folder, { recursive: true })
  }
}
