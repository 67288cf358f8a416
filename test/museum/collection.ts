import { CODECS } from './codecs.js'
import type { Exhibit } from './exhibit.js'
import { EXTENTS } from './extents.js'
import { GENERATIONS } from './generations.js'
import { LIFETIMES } from './lifetimes.js'
import { STAGING } from './staging.js'
import { TRANSFERS } from './transfers.js'
import { VISIBILITY } from './visibility.js'

/** All exhibits, room by room. */
export const COLLECTION: readonly Exhibit[] = [
  ...VISIBILITY,
  ...LIFETIMES,
  ...TRANSFERS,
  ...STAGING,
  ...EXTENTS,
  ...GENERATIONS,
  ...CODECS,
]

/** Starred bugs of peers that are not here, and why. */
export const NOT_HERE: readonly { readonly id: string; readonly why: string }[] = [
  { id: 'sglang#30760, sglang#33029, sglang#22607', why: 'a collective between ranks of an engine: needs an engine' },
  { id: 'dynamo#6101', why: 'whether to load or to compute again is decided in the engine adapter' },
]
