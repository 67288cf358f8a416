import test from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { declareCudaClaims } from '../support/cuda-claims.js'
import { useCudaShims } from '../support/shims.js'

/** The claims of the CUDA device over a twin of the driver: the code above it is the one that runs on a GPU. */
useCudaShims()
declareCudaClaims((title, body) => test.serial(`twin of the driver: ${title}`, body), loadNative())
