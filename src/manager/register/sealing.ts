import { invariant } from '../../shared/base/invariant.js'
import { isRefusal, type Refusal, refuse } from '../../shared/base/refusal.js'
import { isCoding } from '../../shared/codec/setting.js'
import { codedLayers } from '../../shared/layout/coded-layers.js'
import { namespaceDigest } from '../../shared/layout/namespace.js'
import { listOf } from '../../shared/layout/records.js'
import type { InstanceGeometry } from '../../shared/layout/regions.js'
import { sealInstance } from '../../shared/layout/seal.js'
import { templateOf } from '../../shared/layout/templates.js'
import type { Context } from '../context.js'
import { hex } from './digests.js'
import type { Instance, RegisteredRank } from './instances.js'

/**
 * When every rank has registered: joins their geometry, computes the storage namespace, defines classes and copy
 * templates. A refusal concerns the rank that came last; nothing is kept of the attempt.
 */
export function sealIfComplete(context: Context, instance: Instance): Refusal | null {
  if (instance.ranks.size < instance.worldSize) return null
  const ranks = [...instance.ranks.entries()].sort(([a], [b]) => a - b).map(([, rank]) => rank)
  const geometry = sealInstance(
    ranks.map((rank) => rank.geometry),
    { tpSize: instance.tpSize, ppSize: instance.ppSize },
  )
  if (isRefusal(geometry)) return geometry
  const refusal = defineTemplates(context, geometry, ranks)
  if (refusal !== null) return refusal
  const namespace = namespaceDigest(context.ports.sha256, instance.plainInputs, geometry)
  const namespaceHex = hex(namespace)
  const classes = geometry.groups.map((group) => context.storage.defineClass(namespaceHex, group))
  if (classes.includes(-1)) {
    return refuse(
      'capacity_sessions',
      'Cannot seal the instance: too many namespaces since start; restart the Manager',
      {
        groups: classes.length,
      },
    )
  }
  instance.seal = { geometry, namespace, namespaceHex, classes }
  instance.phase = 'sealed'
  if (isCoding(geometry.codec)) {
    const { coded, raw } = codedLayers(geometry)
    context.out.push({ kind: 'control', reply: { kind: 'codec-chosen', coded, list: listOf(raw) } })
  }
  return null
}

/**
 * Gives every rank its number in the sealed geometry and its template of each group (-1: no layer of it). A rank gets
 * them when all ranks have theirs: one that stays after a refusal must not name what was taken back.
 */
function defineTemplates(
  context: Context,
  geometry: InstanceGeometry,
  ranks: readonly RegisteredRank[],
): Refusal | null {
  const defined: number[] = []
  const sealed: (() => void)[] = []
  for (const rank of ranks) {
    const { hold } = rank.session
    invariant(hold !== null, 'a registered rank holds its memory')
    const ordinal = geometry.ranks.indexOf(rank.geometry)
    invariant(ordinal >= 0, 'the sealed geometry is made of the ranks that registered')
    const templates: number[] = []
    for (const { group } of geometry.groups) {
      const spec = templateOf(geometry, group, ordinal, rank.mappings)
      const template =
        spec === null ? -1 : context.ports.defineTemplate(spec.items, spec.granuleFirstItem, spec.codings)
      if (template === null) {
        for (const number of defined) context.ports.releaseTemplate(number)
        return refuse(
          'region_out_of_bounds',
          `Cannot lay out group ${group}: an item does not fit its mapping, or its coding does not fit it`,
          {
            group,
          },
        )
      }
      if (template >= 0) defined.push(template)
      templates.push(template)
    }
    sealed.push(() => {
      rank.session.hold = { ...hold, rank: ordinal, templates }
    })
  }
  for (const enter of sealed) enter()
  return null
}
