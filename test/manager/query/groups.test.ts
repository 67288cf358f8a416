import test from 'ava'
import { ERROR_CODES, type ErrorCode } from '../../../src/shared/base/errors.js'
import type { MessageOf } from '../../../src/shared/layout/wire/messages.js'
import { QueryRig, registration } from './rig.js'

type Group = MessageOf<'register'>['groups'][number]

const HYBRID = [
  { kind: 'full-attention', blockTokens: 16, windowTokens: 0 },
  { kind: 'sliding-window', blockTokens: 16, windowTokens: 64 },
  { kind: 'checkpoint', blockTokens: 64, windowTokens: 0 },
] as const

/** What the Manager says to a registration whose groups are changed. */
function answerTo(change: (groups: readonly Group[]) => readonly Group[]): ErrorCode | 'registered' {
  const rig = new QueryRig(HYBRID, {}, 0)
  rig.greet(0)
  const message = registration(HYBRID)
  const reply = rig.ask({ ...message, groups: change(message.groups) }, 0, [3])
  if (reply.kind !== 'error') return 'registered'
  const { code } = reply
  return Object.entries(ERROR_CODES).find(([, number]) => number === code)?.[0] as ErrorCode
}

const at = (index: number, parts: Partial<Group>) => (groups: readonly Group[]) =>
  groups.map((group, each) => (each === index ? { ...group, ...parts } : group))

test('register: groups of every kind are taken, in any order of their ids', (t) => {
  t.is(
    answerTo((groups) => groups),
    'registered',
  )
  t.is(
    answerTo((groups) => [...groups].reverse()),
    'registered',
  )
})

test('register: a window that does not fit its kind is refused', (t) => {
  t.is(answerTo(at(0, { window: 16 })), 'geometry_invalid')
  t.is(answerTo(at(1, { window: 0 })), 'geometry_invalid')
  t.is(answerTo(at(2, { window: 64 })), 'geometry_invalid')
})

test('register: ids with a hole, twice, or out of range are refused, and the Manager goes on', (t) => {
  t.is(answerTo(at(1, { id: 3 })), 'geometry_invalid')
  t.is(answerTo(at(1, { id: 2 })), 'geometry_invalid')
  t.is(answerTo(at(1, { id: 2 ** 32 - 1 })), 'geometry_invalid')
  t.is(
    answerTo((groups) => groups.slice(1)),
    'geometry_invalid',
  )
})

test('register: the window is part of the namespace', (t) => {
  const namespaceOf = (windowTokens: number) => {
    const rig = new QueryRig([{ kind: 'sliding-window', blockTokens: 16, windowTokens }])
    return [...rig.machine.context.instances][0]?.seal?.namespaceHex
  }
  t.is(namespaceOf(64), namespaceOf(64))
  t.not(namespaceOf(64), namespaceOf(80))
})
