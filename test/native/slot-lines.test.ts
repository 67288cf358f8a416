import test, { type ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { SLOT_RESULT } from '../../src/client/link.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import { NONE_FAILED, slotWord } from '../../src/shared/layout/wire/slots.js'

const native = loadNative()

function bothEnds(t: ExecutionContext, count: number): { table: number; lines: number } {
  const { slots, clientFd, managerFd, eventFd } = native.createSlots(count)
  const lines = native.openSlots(clientFd, managerFd, count)
  for (const fd of [clientFd, managerFd, eventFd]) native.closeFd(fd)
  t.teardown(() => {
    native.closeSlots(lines)
    native.releaseSlots(slots)
  })
  return { table: slots, lines }
}

test('slot lines: what the client submits is what the Manager reads, and the other way round', (t) => {
  const { table, lines } = bothEnds(t, 3)
  const result = new Float64Array(SLOT_RESULT.doubles).fill(-1)
  native.slotSubmit(lines, 2, 9, 2 ** 40 + 1, 0)
  t.is(native.slotClientWord(table, 2), slotWord(9, SLOT_STATE.submitted))
  t.is(native.slotFence(table, 2), 0)
  native.slotRaiseFence(lines, 2, 7)
  t.is(native.slotFence(table, 2), 7)

  native.slotState(table, 2, 9, SLOT_STATE.running)
  t.is(native.slotPoll(lines, 2, result), slotWord(9, SLOT_STATE.running))
  t.is(result[0], -1)
  native.slotFinish(table, 2, 9, SLOT_STATE.failed, 50, 4, 2 ** 50, 1000.25, 2000.5)
  t.is(native.slotPoll(lines, 2, result), slotWord(9, SLOT_STATE.failed))
  t.deepEqual([...result], [2 ** 40 + 1, 50, 4, 2 ** 50, 1000.25, 2000.5, 0])

  native.slotFree(lines, 2, 9)
  t.is(native.slotClientWord(table, 2), slotWord(9, SLOT_STATE.free))
  t.is(native.slotPoll(lines, 1, result), 0)
})

test('slot lines: an end without an op id is read like any other', (t) => {
  const { table, lines } = bothEnds(t, 1)
  const result = new Float64Array(SLOT_RESULT.doubles).fill(-1)
  native.slotFinish(table, 0, 1, SLOT_STATE.done, 0, NONE_FAILED, 4096, 1, 2)
  t.is(native.slotPoll(lines, 0, result), slotWord(1, SLOT_STATE.done))
  t.deepEqual([...result], [0, 0, NONE_FAILED, 4096, 1, 2, 0])
})

test('slot lines: what is not two sealed memfds of enough lines is refused', (t) => {
  const { slots, clientFd, managerFd, eventFd } = native.createSlots(2)
  const code = (open: () => number) => (t.throws(open) as NodeJS.ErrnoException).code
  t.is(
    code(() => native.openSlots(clientFd, managerFd, 3)),
    'EINVAL',
  )
  t.is(
    code(() => native.openSlots(clientFd, managerFd, 0)),
    'EINVAL',
  )
  t.is(
    code(() => native.openSlots(eventFd, managerFd, 2)),
    'EPERM',
  )
  // The Manager's words admit no writer: they cannot stand for the client's.
  t.is(
    code(() => native.openSlots(managerFd, clientFd, 2)),
    'EPERM',
  )
  for (const fd of [clientFd, managerFd, eventFd]) native.closeFd(fd)
  native.releaseSlots(slots)
})

test('slot lines: no call reaches beyond its lines, and generations have an end', (t) => {
  const { lines } = bothEnds(t, 2)
  const result = new Float64Array(SLOT_RESULT.doubles)
  t.throws(() => native.slotSubmit(lines, 2, 1, 1, 0), { code: 'ENOENT' })
  t.throws(() => native.slotPoll(lines, -1, result), { code: 'ENOENT' })
  t.throws(() => native.slotPoll(lines + 1000, 0, result), { code: 'ENOENT' })
  t.throws(() => native.slotPoll(lines, 0, result.subarray(1)), { instanceOf: TypeError })
  t.throws(() => native.slotSubmit(lines, 0, 2 ** 37, 1, 0), { code: 'EOVERFLOW' })
  t.throws(() => native.slotSubmit(lines, 0, 0, 1, 0), { code: 'EOVERFLOW' })
})
