import { loadNative } from '../../src/binding/load.js'
import { RingProducer } from '../../src/shared/rings/ring.js'
import { testControls } from '../support/test-controls.js'
import { FAULTS } from './injection.js'

/**
 * Preloaded after test-addon.ts, into every thread: a push into a ring may find it full by injection. A full ring always
 * holds a record that its reader has not given back, or nobody would ever wake the writer; so a push into an empty ring
 * is neither counted nor failed. Sticky, every ring is as good as one of a single record.
 */
const FAULT = FAULTS.indexOf('ringPush')
const controls = testControls(loadNative())

interface Inside {
  readonly claimed: number
  readonly freed: number
  reclaim(): void
}

const claim = RingProducer.prototype.claim

RingProducer.prototype.claim = function (this: RingProducer, listDoubles: number): number {
  const inside = this as unknown as Inside
  inside.reclaim()
  if (inside.claimed !== inside.freed && controls.fails(FAULT)) return -1
  return claim.call(this, listDoubles)
}
