import { GIB, KIB, MIB } from '../base/units.js'

/** The codecs of `--storage-codec`, in the order of its help. */
export const CODEC_NAMES = ['none', 'ans', 'fp8', 'turboquant-4', 'turboquant-3'] as const
export type CodecName = (typeof CODEC_NAMES)[number]

/** How a Manager stores pages: in one way for all its life. */
export interface CodecSetting {
  readonly name: CodecName
}

export const NO_CODEC: CodecSetting = { name: 'none' }

/** True when pages may be stored in another form than the engine's: each granule is one item, of a length of its own. */
export function isCoding(setting: CodecSetting): boolean {
  return setting.name !== 'none'
}

/** What a rank's pages lie on, as far as codecs care: ANS is coded by a GPU alone. */
export type CodecDevice = 'host' | 'cuda'

/** Device memory that the codec of one worker may keep, for each direction: the default and the bounds. */
export const CODEC_BUDGET_BYTES = 64 * MIB
export const CODEC_BUDGET_BYTES_MIN = 4 * KIB
export const CODEC_BUDGET_BYTES_MAX = 4 * GIB

/** Restored pages are close to what was published, not equal to it. */
export function lossy(name: CodecName): boolean {
  return name !== 'none' && name !== 'ans'
}
