import test from 'ava'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { ManagerFixture, registration } from './fixture.js'

test('registering: group ids with a hole, twice or out of range are refused, and the Manager goes on', (t) => {
  const manager = new ManagerFixture()
  manager.greet(1)
  const message = registration(1, 0, 1)
  const group = { id: 0, kind: 'full-attention', blockTokens: 16, window: 0 } as const
  for (const ids of [[1], [0, 2], [0, 0], [2 ** 32 - 1], [0, 2 ** 32 - 1]]) {
    const reply = manager.ask(1, { ...message, groups: ids.map((id) => ({ ...group, id })) }, [50])
    t.is(reply?.kind === 'error' ? reply.code : 0, ERROR_CODES.geometry_invalid, `ids ${ids}`)
  }
  t.is(manager.ask(1, { ...message, groups: [group] }, [50])?.kind, 'registered')
})
