import type { ItemCoding } from './coding.js'

/**
 * Names of stored forms, for the storage namespace: bytes of one name can be read as any other bytes of that name. A name
 * changes with whatever changes what is stored: the format's version, and all that a decoder must be told.
 *
 *   raw/item                        the engine's bytes, each item a granule of its own
 *   fp8-v1                          which 16-bit type it came from is a field of the slot
 *   turboquant4-v1/k/128/1379       bits, version of format and sign generator / role / head dimension / seed
 *   ans-nvcomp5.3-v1/fp16           streams of one minor version of nvCOMP / type of its statistics
 */
export function formatName({ format, scalar, role, bits, headDim, seed }: ItemCoding): string {
  switch (format) {
    case 'raw':
      return 'raw/item'
    case 'fp8':
      return 'fp8-v1'
    case 'turboquant':
      return `turboquant${bits}-v1/${role}/${headDim}/${seed}`
    case 'ans':
      return `ans-nvcomp5.3-v1/${scalar}`
  }
}
