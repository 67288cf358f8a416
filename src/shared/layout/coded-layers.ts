import { isCoded, RAW_REASONS, type RawReason } from '../codec/coding.js'
import { itemsOf, layersOf } from './granules.js'
import type { InstanceGeometry, LayerGeometry, RankGeometry } from './regions.js'

/** How many layers of an instance may be stored coded, over all its ranks, and why the others are not. */
export interface CodedLayers {
  readonly coded: number
  /** By reason, in the order of RAW_REASONS. */
  readonly raw: readonly number[]
}

/** Counts what the policy decided when the instance sealed; a coded layer has at least one item that is. */
export function codedLayers(instance: InstanceGeometry): CodedLayers {
  const raw = new Array<number>(RAW_REASONS.length).fill(0)
  let coded = 0
  for (const rank of instance.ranks) {
    for (const group of instance.groups.keys()) {
      for (const layer of layersOf(rank, group)) {
        const reason = rawReasonOf(layer, rank)
        if (reason === null) coded++
        else raw[RAW_REASONS.indexOf(reason)] = (raw[RAW_REASONS.indexOf(reason)] as number) + 1
      }
    }
  }
  return { coded, raw }
}

/** Why no item of a layer is coded; what the policy would code, but for its size, is small. */
function rawReasonOf(layer: LayerGeometry, rank: RankGeometry): RawReason | null {
  if (layer.coding.rawReason !== null) return layer.coding.rawReason
  return itemsOf(layer, rank).some(({ coding }) => isCoded(coding)) ? null : 'small'
}

/** Name and count of each reason that there was, most frequent first. */
export function reasonsOf({ raw }: CodedLayers): [reason: RawReason, layers: number][] {
  return RAW_REASONS.map((reason, i): [RawReason, number] => [reason, raw[i] ?? 0])
    .filter(([, layers]) => layers > 0)
    .sort(([, a], [, b]) => b - a)
}
