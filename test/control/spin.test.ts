import test from 'ava'
import { SPIN_US, spinUsOf } from '../../src/control/spin.js'

test('lanes spin only where a core is left for it, unless the operator decides', (t) => {
  t.is(spinUsOf(null, 6, 6), 0)
  t.is(spinUsOf(null, 7, 6), SPIN_US)
  t.is(spinUsOf(0, 64, 6), 0)
  t.is(spinUsOf(200, 2, 6), 200)
})
