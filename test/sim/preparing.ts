import type { MessageOf, WireReply } from '../../src/shared/layout/wire/messages.js'
import type { Command } from './plan.js'
import { codes, type EngineProcess, MEANWHILE } from './process.js'
import { type Asked, askedOf, groupsOf, mannerOf, untilAnswered } from './querying.js'
import { expectReply } from './session.js'
import { must } from './violation.js'
import { chainOf } from './watched-entries.js'

/** What the engine does with a preparation. */
const THEN = ['claim', 'claim', 'claim', 'poll', 'forget', 'release', 'other-keys', 'again'] as const

/** A preparation may have ended before it was asked for. */
const gone = (): ReadonlySet<number> => new Set([...MEANWHILE, ...codes('ticket_unknown')])

/** PREPARE of a chain; then a claim and what a query would lead to, polls, a release, or nothing at all. */
export function prepare(process: EngineProcess, command: Command): void {
  const manner = { ...mannerOf(command), allowSsd: true, again: false }
  const asked = askedOf(process, chainOf(command.a), manner)
  if (asked.every(({ keys }) => keys.length === 0)) return
  process.flows++
  const end = () => {
    process.flows--
  }
  const requestId = process.nextRequestId++
  const message: MessageOf<'prepare'> = { kind: 'prepare', requestId, revision: 0, groups: groupsOf(asked) }
  process.speaker().request(message, (reply) => {
    expectReply('prepare', reply, ['prepared', 'miss', 'busy'], MEANWHILE)
    if (reply.kind === 'busy') process.world.faults.fired('speculation-busy')
    if (reply.kind !== 'prepared') return end()
    const { ticket } = checkPrepared(reply, asked)
    process.world.clock.after(1 + (command.c % 400), () => {
      if (!process.up) return end()
      process.deliver(() => goOn(process, ticket, asked, THEN[(command.c >> 3) % THEN.length] as (typeof THEN)[number]))
    })
  })

  function goOn(engine: EngineProcess, ticket: number, wanted: Asked, what: (typeof THEN)[number]): void {
    const session = engine.speaker()
    const claim = (groups: Asked): MessageOf<'claim'> => ({
      kind: 'claim',
      ticket,
      requestId,
      revision: 0,
      groups: groupsOf(groups),
    })
    switch (what) {
      case 'claim':
        return untilAnswered(engine, wanted, manner, () => claim(wanted), end)
      case 'poll':
        session.request({ kind: 'prepare_poll', ticket }, (reply) => {
          expectReply('prepare_poll', reply, ['prepared'], gone())
          if (reply.kind === 'prepared') checkPrepared(reply, wanted)
          end()
        })
        return
      case 'again':
        session.request(message, (reply) => {
          expectReply('prepare', reply, ['prepared', 'miss', 'busy'], MEANWHILE)
          end()
        })
        return
      case 'release':
        session.request({ kind: 'release', what: 'ticket', id: ticket }, (reply) => {
          expectReply('release', reply, ['ack'], MEANWHILE)
          end()
        })
        return
      case 'other-keys': {
        const others = wanted.map((each) => ({ ...each, keys: [...each.keys, 0] }))
        session.request(claim(others), (reply) => {
          expectReply('claim', reply, [], new Set([...gone(), ...codes('ticket_mismatch')]))
          end()
        })
        return
      }
      case 'forget':
        return end()
    }
  }
}

function checkPrepared(reply: WireReply, asked: Asked): MessageOf<'prepared'> {
  must(reply.kind === 'prepared', 'X1', () => `a preparation is answered by ${reply.kind}`)
  const prepared = reply as MessageOf<'prepared'>
  const keys = asked.reduce((sum, each) => sum + each.keys.length, 0)
  const { blocks, blocksReady, loading } = prepared
  must(blocksReady <= blocks && blocks <= keys, 'V3', () => `${blocksReady} of ${blocks} blocks of ${keys} keys`)
  must(loading || blocksReady === blocks, 'V3', () => `${blocksReady} of ${blocks} blocks are there and nothing loads`)
  return prepared
}

/** WARM of a chain: nothing is owed for it. */
export function warm(process: EngineProcess, command: Command): void {
  const asked = askedOf(process, chainOf(command.a), mannerOf(command))
  if (asked.every(({ keys }) => keys.length === 0)) return
  process.speaker().request({ kind: 'warm', groups: groupsOf(asked) }, (reply) => {
    expectReply('warm', reply, ['warming', 'busy'], MEANWHILE)
    if (reply.kind === 'busy') process.world.faults.fired('speculation-busy')
    if (reply.kind !== 'warming') return
    const keys = asked.reduce((sum, each) => sum + each.keys.length, 0)
    const { accepted, resident, skipped } = reply
    must(accepted + resident + skipped <= keys, 'V3', () => `${accepted} + ${resident} + ${skipped} blocks of ${keys}`)
  })
}
