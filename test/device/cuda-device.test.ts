import { loadNative } from '../../src/binding/load.js'
import { declareCudaClaims } from '../support/cuda-claims.js'
import { needs } from '../support/needs.js'

/** The claims of the CUDA device on the real one. */
const native = loadNative()
const { available, reason } = native.cudaProbe()

declareCudaClaims(needs(available, reason), native)
