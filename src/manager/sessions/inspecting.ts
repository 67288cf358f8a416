import { isCoding } from '../../shared/codec/setting.js'
import { codedLayers, reasonsOf } from '../../shared/layout/coded-layers.js'
import type { Context } from '../context.js'
import { byUring } from '../register/memory.js'
import { reply } from './replies.js'
import type { Session } from './session.js'

/** Everything that is somebody's now: all of it is zero at rest, after the sessions left and DRAM was dropped. */
export function ownership(context: Context): Record<string, number> {
  const { storage } = context
  let operations = 0
  let ranksByUring = 0
  for (const session of context.sessions) {
    operations += session.operations.size
    if (byUring(context, session)) ranksByUring += 1
  }
  return {
    ...storage.gauges(),
    sessions: context.sessions.count,
    instances: context.instances.count,
    leases: context.leases.live,
    queriesOpen: context.queries.count,
    preparationsOpen: context.preparations.count,
    warmingsOpen: context.warmings.count,
    fillWaiters: context.fillWaiters.count,
    operationsOpen: operations,
    publicationsOpen: context.publications.count,
    publicationsWaiting: context.publications.waiting,
    ranksByUring,
    stagingsOpen: context.devices.reduce((sum, { ssd }) => sum + (ssd?.open ?? 0), 0),
    jobsOpen: context.devices.reduce((sum, lanes) => sum + lanes.jobsOpen, 0),
    queryReservedBytes: context.queryBudget.total.chargedBytes,
    querySpeculativeReservedBytes: context.queryBudget.speculative.chargedBytes,
    syncsOpen: context.syncs.count,
  }
}

function sendNumbers(context: Context, session: Session, request: number, numbers: Record<string, number>): void {
  const values = Object.entries(numbers).map(([name, value]) => ({ name, value }))
  reply(context, session, request, { kind: 'numbers', values })
}

/** INSPECT and STATS: what is owned now, for people and tests; under a codec also which layers of who is here are coded. */
export function inspect(context: Context, session: Session, request: number): void {
  sendNumbers(context, session, request, { ...ownership(context), ...layersByCoding(context) })
}

/** `codecLayersCoded`, and for every reason that keeps layers as they are `codecLayersRaw.REASON`, over all instances. */
function layersByCoding({ instances, options }: Context): Record<string, number> {
  if (!isCoding(options.codec)) return {}
  const numbers: Record<string, number> = { codecLayersCoded: 0 }
  const add = (name: string, layers: number) => {
    numbers[name] = (numbers[name] ?? 0) + layers
  }
  for (const { seal } of instances) {
    if (seal === null) continue
    const layers = codedLayers(seal.geometry)
    add('codecLayersCoded', layers.coded)
    for (const [reason, count] of reasonsOf(layers)) add(`codecLayersRaw.${reason}`, count)
  }
  return numbers
}

/** DROP_DRAM: evicts every DRAM replica that nobody holds; SSD replicas stay. */
export function dropDram(context: Context, session: Session, request: number): void {
  sendNumbers(context, session, request, { ...context.storage.dropDram() })
}
