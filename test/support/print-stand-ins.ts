import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CuFileShim } from './cufile-shim.js'
import { shim } from './shims.js'

/**
 * Builds stand-ins for libcuda, libnvrtc and libcufile and prints the environment in which they are found, so that
 * test/device itself can be tried on a machine without a GPU:
 *
 *   env $(node dist/test/support/print-stand-ins.js) node scripts/device-tests.mjs
 */
const folder = mkdtempSync(join(tmpdir(), 'orbitkv-stand-ins-'))
console.log(`ORBITKV_LIBCUDA=${shim('libcuda')}`)
console.log(`ORBITKV_LIBNVRTC=${shim('libnvrtc')}`)
console.log(`ORBITKV_KERNEL_CACHE=${folder}`)
console.log(`ORBITKV_CUFILE_LIBRARY=${new CuFileShim(folder).library}`)
