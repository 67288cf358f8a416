import { refuse } from '../../shared/base/refusal.js'
import { FEATURE, FRAME_BYTES_MAX, PROTO_MAX, PROTO_MIN } from '../../shared/layout/wire/limits.js'
import type { MessageOf } from '../../shared/layout/wire/messages.js'
import type { Context } from '../context.js'
import { hex } from '../register/digests.js'
import { reply, replyRefusal } from './replies.js'
import type { Session } from './session.js'

/** HELLO: agrees on a protocol version and tells the client what it may ask for. */
export function hello(context: Context, session: Session, request: number, message: MessageOf<'hello'>): void {
  if (session.phase !== 'new') {
    return replyRefusal(context, session, request, refuse('already_greeted', 'Cannot greet twice in one session'))
  }
  if (!speaks(message)) {
    return replyRefusal(context, session, request, versionRefusal(message.protoMin, message.protoMax))
  }
  session.phase = 'greeted'
  session.role = message.role
  session.proto = Math.min(PROTO_MAX, message.protoMax)
  const { options } = context
  reply(context, session, request, {
    kind: 'welcome',
    proto: session.proto,
    managerEpoch: options.epoch,
    limits: {
      queriesOutstanding: options.queriesPerSessionMax,
      keysPerQuery: options.keysPerQueryMax,
      slots: options.slotsPerSessionMax,
      frameBytes: FRAME_BYTES_MAX,
    },
    features:
      (options.ssd ? FEATURE.ssd : 0) |
      (options.ssd && options.routes.readRoute !== 'dram' ? FEATURE.explicitRead : 0) |
      (options.devices.length > 1 ? FEATURE.cuda : 0),
  })
}

/** Whether a client and this build have a version in common. */
export function speaks({ protoMin, protoMax }: { readonly protoMin: number; readonly protoMax: number }): boolean {
  return protoMin <= PROTO_MAX && protoMax >= PROTO_MIN
}

export function versionRefusal(protoMin: number, protoMax: number) {
  return refuse(
    'version_mismatch',
    `Cannot speak protocol ${protoMin} to ${protoMax}: this Manager speaks ${PROTO_MIN} to ${PROTO_MAX}`,
    { protoMin, protoMax, ourMin: PROTO_MIN, ourMax: PROTO_MAX },
  )
}

/** ATTACH: a scheduler speaks for an instance whose workers register. Asking again shows how far they are. */
export function attach(context: Context, session: Session, request: number, message: MessageOf<'attach'>): void {
  const id = hex(message.instanceId)
  if (session.role !== 'scheduler' || (session.instance !== null && session.instance !== id)) {
    const text = 'Cannot attach in this session: it is a worker, or speaks for another instance'
    return replyRefusal(context, session, request, refuse('instance_conflict', text))
  }
  const instance = context.instances.get(id)
  if (instance === undefined || instance.phase === 'ended' || context.draining) {
    const text = `Cannot attach to instance ${id}: no rank of it has registered, or it has ended`
    return replyRefusal(context, session, request, refuse('instance_unknown', text, { instance: id }))
  }
  session.instance = id
  session.phase = 'bound'
  instance.sessions.add(session)
  reply(context, session, request, {
    kind: 'attached',
    session: session.number,
    sessionGeneration: session.number,
    sealed: instance.seal !== null,
    ranksPresent: instance.ranks.size,
    worldSize: instance.worldSize,
    storageNamespace: instance.seal?.namespace ?? new Uint8Array(32),
  })
}
