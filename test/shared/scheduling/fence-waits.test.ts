import test from 'ava'
import fc from 'fast-check'
import {
  FENCE_LOOK_US_MAX,
  FENCE_LOOK_US_MIN,
  FenceWaits,
  lookDelayUs,
} from '../../../src/shared/scheduling/fence-waits.js'

test('FenceWaits: a job is due at once, then later and later, never more than 2 ms apart', (t) => {
  const waits = new FenceWaits<string>()
  t.is(waits.nextLookUs, Number.POSITIVE_INFINITY)
  waits.add('a', 1000)
  t.true(waits.nextLookUs <= 1000)
  let nowUs = 1000
  let gapBefore = 0
  for (let look = 0; look < 60; look++) {
    t.deepEqual(waits.takeDue(nowUs), ['a'])
    t.deepEqual(waits.takeDue(nowUs), [])
    const gap = Math.round((waits.nextLookUs - nowUs) * 1000) / 1000
    t.true(gap >= FENCE_LOOK_US_MIN && gap <= FENCE_LOOK_US_MAX && gap >= gapBefore)
    gapBefore = gap
    nowUs = waits.nextLookUs
  }
  t.is(gapBefore, FENCE_LOOK_US_MAX)
  waits.remove('a')
  t.is(waits.nextLookUs, Number.POSITIVE_INFINITY)
})

const step = fc.oneof(
  fc.record({ add: fc.nat({ max: 9 }) }),
  fc.record({ remove: fc.nat({ max: 9 }) }),
  fc.record({ pass: fc.nat({ max: 3000 }) }),
)

/** The naive model: job -> when it is due. */
function agrees(make: () => FenceWaits<number>) {
  return fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
    const waits = make()
    const model = new Map<number, { sinceUs: number; dueUs: number }>()
    let nowUs = 0
    for (const each of steps) {
      if ('add' in each) {
        if (model.has(each.add)) continue
        waits.add(each.add, nowUs)
        model.set(each.add, { sinceUs: nowUs, dueUs: nowUs })
      } else if ('remove' in each) {
        waits.remove(each.remove)
        model.delete(each.remove)
      } else nowUs += each.pass
      const due = [...model].filter(([, wait]) => wait.dueUs <= nowUs)
      for (const [, wait] of due) wait.dueUs = nowUs + lookDelayUs(nowUs - wait.sinceUs)
      const is = waits.takeDue(nowUs).sort()
      if (String(is) !== String(due.map(([job]) => job).sort())) throw new Error(`due ${is}`)
      const next = Math.min(...[...model.values()].map((wait) => wait.dueUs), Number.POSITIVE_INFINITY)
      if (waits.nextLookUs !== next || waits.size !== model.size) throw new Error(`next ${waits.nextLookUs}`)
    }
  })
}

test('FenceWaits: agrees with a map of due times', (t) => {
  fc.assert(agrees(() => new FenceWaits()))
  t.pass()
})

test('FenceWaits: the property catches a twin that forgets who else waits when one is removed', (t) => {
  class Forgetful extends FenceWaits<number> {
    override takeDue(nowUs: number): number[] {
      return super.takeDue(nowUs).slice(0, 1)
    }
  }
  t.true(fc.check(agrees(() => new Forgetful())).failed)
})
