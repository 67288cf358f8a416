import test from 'ava'
import type { Context } from '../../../src/manager/context.js'
import { RestoreOperation } from '../../../src/manager/restore/operation.js'
import type { RestorePlan } from '../../../src/manager/restore/plan.js'
import type { RankHold, Session } from '../../../src/manager/sessions/session.js'
import { ERROR_CODES } from '../../../src/shared/base/errors.js'
import { EMPTY_LIST, listOf } from '../../../src/shared/layout/records.js'
import { SLOT_STATE } from '../../../src/shared/layout/slot-states.js'
import type { Reservation } from '../../../src/shared/scheduling/query-budget.js'

const JOB = 3

/** One restore of entries 0 and 1 (generations 100 and 101) that host-restore has; `log` is what happens, in order. */
function submitted() {
  const log: string[] = []
  const effects: unknown[] = []
  const lanes = { toHostRestore: (request: object) => ({ kind: 'to-host-restore', request }) }
  const hold = { slotTable: { slots: 7 }, lanes } as unknown as RankHold
  const session = {
    hold,
    slots: [{ generation: 5, operation: null }],
    operations: new Set<unknown>(),
  } as unknown as Session
  const context = {
    nowUs: 10,
    out: {
      push(effect: { readonly kind: string }) {
        effects.push(effect)
        log.push(effect.kind)
      },
    },
    options: { descriptorsPerRecordMax: 64 },
    storage: {
      generationOf: (entry: number) => 100 + entry,
      invalidateGeneration: (entry: number, generation: number) => void log.push(`hide ${entry} of ${generation}`),
      drop: (entry: number) => void log.push(`drop ${entry}`),
      restored: (entry: number) => void log.push(`restored ${entry}`),
      demand: () => {},
    },
    tally: { restoreEnded: () => {} },
    sessions: { has: () => true },
  } as unknown as Context
  const plan = { route: 'ssd', descriptors: new Float64Array(0), bytes: 8192 } as unknown as RestorePlan
  const reservation = { release: () => void log.push('release') } as unknown as Reservation
  const request = { slot: 0, generation: 5, fence: 0 }
  const operation = new RestoreOperation(context, session, hold, request, plan, Int32Array.of(0, 1), reservation)
  session.operations.add(operation)
  const use = session.slots[0]
  if (use !== undefined) use.operation = operation
  operation.start(JOB)
  log.length = 0
  return { operation, log, effects }
}

test('V: a client hears of a damaged generation only after it is hidden', (t) => {
  const { operation, log, effects } = submitted()
  operation.replied({
    kind: 'restore-done',
    job: JOB,
    status: ERROR_CODES.checksum_mismatch,
    bytes: 0,
    ssdBytes: 0,
    firstFailed: 1,
    latencyUs: 1,
    list: listOf([101]),
  })
  t.deepEqual(log, ['hide 1 of 101', 'slot-finish', 'drop 0', 'drop 1', 'release'])
  t.like(effects.at(-1), {
    kind: 'slot-finish',
    slots: 7,
    slot: 0,
    generation: 5,
    state: SLOT_STATE.failed,
    errorCode: ERROR_CODES.checksum_mismatch,
    firstFailed: 1,
    bytes: 0,
  })
})

test('C: a restore that found nothing damaged was finished by its lane, and is not finished again', (t) => {
  for (const status of [ERROR_CODES.ok, ERROR_CODES.io_read_failed, ERROR_CODES.cancelled]) {
    const { operation, log } = submitted()
    const rest = { bytes: 0, ssdBytes: 0, firstFailed: -1, latencyUs: 1, list: EMPTY_LIST }
    operation.replied({ kind: 'restore-done', job: JOB, status, ...rest })
    t.false(log.includes('slot-finish'))
    t.deepEqual(log.slice(-3), ['drop 0', 'drop 1', 'release'])
  }
})
