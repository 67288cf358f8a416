import { isRefusal, type Refusal, refuse } from '../../shared/base/refusal.js'
import { type GranuleRun, granuleRuns } from '../../shared/layout/granules.js'
import type { MessageOf, WireReply } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import { boundInstance } from '../register/bound.js'
import type { Seal } from '../register/instances.js'
import { reply, replyRefusal } from '../sessions/replies.js'
import type { RankHold, Session } from '../sessions/session.js'
import { checkSlot, occupySlot } from '../sessions/slots.js'
import type { PublishItem } from './parts.js'
import { Publication } from './publication.js'

type PublishRequest = MessageOf<'publish'>

/**
 * PUBLISH: one rank brings blocks, whole or some of their layers. The first to claim a key wins; what is there or is
 * being brought by others is success without a copy. Acknowledged once admitted; the result is in the slot alone.
 */
export function publish(context: Context, session: Session, request: number, message: PublishRequest): void {
  const answer = admit(context, session, message)
  if (isRefusal(answer)) replyRefusal(context, session, request, answer)
  else reply(context, session, request, answer)
}

function admit(context: Context, session: Session, message: PublishRequest): WireReply | Refusal {
  const instance = boundInstance(context, session)
  if (isRefusal(instance)) return instance
  const { hold } = session
  if (hold === null) return refuse('instance_unknown', 'Cannot publish in this session: only a worker has pages')
  const refusal =
    checkSlot(context, session, message.slot, message.generation) ?? checkGroups(instance.seal, hold, message)
  if (refusal !== null) return refusal
  const counts = { accepted: 0, present: 0, assembling: 0, skipped: 0 }
  const items = claimItems(context, instance.seal, hold, message, counts)
  if (counts.skipped > 0 && !message.partialOk) {
    for (const { entry, claimed } of items) if (claimed) context.storage.abandon(entry)
    return refuse(
      'capacity_pool',
      `Cannot publish ${counts.skipped} blocks: the directory or the pool cannot hold them`,
      {
        blocks: counts.skipped,
      },
    )
  }
  const publication = new Publication(context, session, hold, message, items)
  occupySlot(context, publication)
  publication.advance()
  return { kind: 'publishing', ...counts }
}

function checkGroups(seal: Seal, hold: RankHold, message: PublishRequest): Refusal | null {
  const seen = new Set<number>()
  for (const { group, layers, items } of message.groups) {
    const geometry = seal.geometry.groups[group]
    if (geometry === undefined || seen.has(group)) {
      return refuse('group_unknown', `Cannot publish group ${group}: it is unknown or named twice`, { group })
    }
    seen.add(group)
    const pageCount = seal.geometry.ranks[hold.rank]?.pageCounts[group] ?? 0
    for (const page of items.pages) {
      if (page < pageCount) continue
      return refuse('page_out_of_range', `Cannot publish page ${page}: group ${group} has ${pageCount}`, {
        page,
        pageCount,
      })
    }
    const layerCount = geometry.rankLayers[hold.rank]?.length ?? 0
    if (layers === null) continue
    const named = new Set(layers)
    const foreign = [...named].find((layer) => hold.regions[layer]?.group !== group)
    if (foreign !== undefined) {
      return refuse('layers_missing', `Cannot publish region ${foreign} in group ${group}: it is not a layer of it`, {
        region: foreign,
        group,
      })
    }
    if (geometry.pageFirst && named.size < layerCount) {
      return refuse(
        'layers_missing',
        `Cannot publish ${named.size} of ${layerCount} layers: pages of this instance are stored whole (page-first)`,
        { layers: named.size, layerCount },
      )
    }
  }
  return null
}

/** The granule runs that hold the named regions of a rank; null: those of all its layers. */
function offeredRuns(seal: Seal, hold: RankHold, group: number, regions: Uint32Array | null): GranuleRun[] {
  const geometry = seal.geometry.groups[group]
  const names = geometry?.rankLayers[hold.rank]
  if (geometry === undefined || names === undefined) return []
  if (regions === null) return granuleRuns(geometry, hold.rank, [...names.keys()])
  const ordinals = new Set([...regions].map((region) => names.indexOf(hold.regions[region]?.layer ?? '')))
  return granuleRuns(
    geometry,
    hold.rank,
    [...ordinals].sort((a, b) => a - b),
  )
}

function claimItems(
  context: Context,
  seal: Seal,
  hold: RankHold,
  message: PublishRequest,
  counts: { accepted: number; present: number; assembling: number; skipped: number },
): PublishItem[] {
  const { storage } = context
  const items: PublishItem[] = []
  for (const { group, layers, items: offers } of message.groups) {
    const classId = seal.classes[group] as number
    const offered = offeredRuns(seal, hold, group, layers)
    const taken = new Set<number>()
    for (const [i, page] of offers.pages.entries()) {
      const { entry, outcome } = storage.claim(classId, offers.keys, i)
      if (outcome === 'present') counts.present++
      else if (outcome === 'directory-full') counts.skipped++
      else if (taken.has(entry)) {
        counts.assembling++
        storage.duplicate()
      } else if (outcome === 'assembling' && !storage.wants(entry, offered)) {
        counts.assembling++
      } else {
        taken.add(entry)
        counts.accepted++
        items.push({ entry, group, page, claimed: outcome === 'new', offered })
      }
    }
  }
  return items
}
