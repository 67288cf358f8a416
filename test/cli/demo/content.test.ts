import { createHash } from 'node:crypto'
import test from 'ava'
import fc from 'fast-check'
import { keyOf, LAYERS, segmentContent, shapeOf } from '../../../src/cli/demo/content.js'

test('shapeOf: a block is cut into whole sectors for every layer and part, or not at all', (t) => {
  t.deepEqual(shapeOf(65_536), { layers: LAYERS, segmentBytes: 8_192 })
  t.deepEqual(shapeOf(4_096), { layers: LAYERS, segmentBytes: 512 })
  for (const bytes of [0, 512, 2_048, 4_095, 4_096 + 512, 65_535]) t.is(shapeOf(bytes), null, String(bytes))
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1 << 24 }), (bytes) => {
      const shape = shapeOf(bytes)
      t.is(shape !== null, bytes % 4_096 === 0)
      if (shape !== null) t.is(shape.layers * 2 * shape.segmentBytes, bytes)
    }),
  )
})

test('keyOf: 32 bytes, one key a name', (t) => {
  t.is(keyOf('a').length, 32)
  t.deepEqual(keyOf('a'), keyOf('a'))
  const names = Array.from({ length: 1_000 }, (_, i) => `trace/${i}`)
  t.is(new Set(names.map((name) => keyOf(name).toString('hex'))).size, 1_000)
})

test('segmentContent: SHAKE-128 of key, layer and part, as the Python engine computes it', (t) => {
  const key = keyOf('a')
  const expected = createHash('shake128', { outputLength: 512 })
    .update(Buffer.concat([key, Buffer.from([2, 1])]))
    .digest()
  t.deepEqual(segmentContent(key, 2, 1, 512), expected)
})

test('segmentContent: another key, layer, part or offset never looks right', (t) => {
  const content = (name: string, layer: number, part: 0 | 1) => segmentContent(keyOf(name), layer, part, 1_024)
  const right = content('a', 0, 0)
  for (const wrong of [content('b', 0, 0), content('a', 1, 0), content('a', 0, 1)]) t.notDeepEqual(wrong, right)
  t.notDeepEqual(right.subarray(0, 512), right.subarray(512))
  t.deepEqual(segmentContent(keyOf('a'), 0, 0, 512), right.subarray(0, 512), 'shorter is a prefix')
})
