import { loadNative } from '../../src/binding/load.js'
import { declareCudaCodeClaims } from '../support/cuda-code-claims.js'
import { noCudaTwin } from '../support/cuda-twin.js'
import { needs } from '../support/needs.js'

/** The claims of codings on the twin of the driver: memory, batches and order. Its arithmetic is the processor's. */
const missing = noCudaTwin()

declareCudaCodeClaims(needs(missing === '', missing), loadNative())
