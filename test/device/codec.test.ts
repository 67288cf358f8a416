import { loadNative } from '../../src/binding/load.js'
import { declareCudaCodeClaims } from '../support/cuda-code-claims.js'
import { needs } from '../support/needs.js'

/** The claims of codings on the real device: its kernels' bytes are those of the processor. */
const native = loadNative()
const { available, reason } = native.cudaProbe()

declareCudaCodeClaims(needs(available, reason), native)
