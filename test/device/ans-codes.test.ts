import { loadNative } from '../../src/binding/load.js'
import { declareAnsClaims } from '../support/ans-claims.js'
import { needs } from '../support/needs.js'

/** The claims of ANS on a real device with the real nvCOMP: ORBITKV_NVCOMP_LIBRARY, or what the loader finds. */
const native = loadNative()
const { available, reason } = native.cudaProbe()
const nvcomp = available ? native.openNvcomp(process.env['ORBITKV_NVCOMP_LIBRARY'] ?? '') : null
const missing =
  nvcomp === null ? reason : nvcomp.available ? '' : `nvCOMP: ${nvcomp.reason}: ${nvcomp.path.slice(0, 80)}`

declareAnsClaims(needs(missing === '', missing), native)
