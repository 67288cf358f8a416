import test from 'ava'
import fc from 'fast-check'
import { nextRun } from '../../../src/shared/codec/coded-run.js'
import { CODEC_PART_BYTES } from '../../../src/shared/codec/lane-series.js'
import { COPY } from '../../../src/shared/layout/descriptors.js'

const MAX = { partDescriptors: 3, codedDescriptors: 5 }

function descriptors(stored: readonly number[]): Float64Array {
  const doubles = new Float64Array(stored.length * COPY.doubles)
  for (const [at, bytes] of stored.entries()) doubles[at * COPY.doubles + COPY.storedBytes] = bytes
  return doubles
}

const storedBytes = fc.oneof(fc.constant(0), fc.constantFrom(1, 512, CODEC_PART_BYTES / 2, CODEC_PART_BYTES))

test('nextRun: runs cover a list once and in order, each of one kind, bounded, and as long as they may be', (t) => {
  fc.assert(
    fc.property(fc.array(storedBytes, { minLength: 1, maxLength: 40 }), (stored) => {
      const doubles = descriptors(stored)
      for (let first = 0; first < stored.length; ) {
        const { coded, count, storedBytes } = nextRun(doubles, first * COPY.doubles, doubles.length, MAX)
        const run = stored.slice(first, first + count)
        const sum = run.reduce((total, bytes) => total + bytes, 0)
        const countMax = coded ? MAX.codedDescriptors : MAX.partDescriptors
        if (count < 1 || count > countMax) throw new Error('a run is bounded and not empty')
        if (run.some((bytes) => bytes > 0 !== coded) || sum !== storedBytes) throw new Error('a run is of one kind')
        if (count > 1 && sum > CODEC_PART_BYTES) throw new Error('a run is a part full at most')
        const next = stored[first + count]
        const goesOn = next !== undefined && next > 0 === coded && count < countMax && sum + next <= CODEC_PART_BYTES
        if (goesOn) throw new Error('a run is as long as it may be')
        first += count
      }
    }),
    { numRuns: 300 },
  )
  t.pass()
})

test('nextRun: where nothing may be coded a coded run is empty, which its caller refuses', (t) => {
  t.deepEqual(nextRun(descriptors([512]), 0, COPY.doubles, { partDescriptors: 3 }), {
    coded: true,
    count: 0,
    storedBytes: 0,
  })
})
