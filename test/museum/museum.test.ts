import test from 'ava'
import { document } from '../support/document.js'
import { COLLECTION, NOT_HERE } from './collection.js'
import { look } from './exhibit.js'

/** Found by the simulation within its first seeds: the rest takes minutes, see `npm run museum`. */
const QUICK = new Set(['vllm#53498', 'sglang#28468', 'FlexKV#236', 'Mooncake#3066', 'PegaFlow#418'])
const SLICE = COLLECTION.filter(({ id, foundBy }) => foundBy !== 'simulation' || QUICK.has(id))

test('museum: it has at least the nineteen bugs that need no GPU, codec or engine, each once', (t) => {
  t.true(COLLECTION.length >= 19, `${COLLECTION.length} exhibits`)
  t.is(new Set(COLLECTION.map(({ id }) => id)).size, COLLECTION.length)
  t.is(SLICE.filter(({ foundBy }) => foundBy === 'simulation').length, QUICK.size)
})

test('museum: docs/internals/museum.md lists every exhibit, and what is not here', (t) => {
  const text = document('docs/internals/museum.md')
  for (const { id, what } of COLLECTION) t.true(text.includes(`| ${id} | ${what} |`), id)
  for (const { id, why } of NOT_HERE) t.true(text.includes(`| ${id} | ${why} |`), id)
})

for (const exhibit of SLICE) {
  test(`museum: ${exhibit.id}, ${exhibit.what}: is found, and nothing is where it is not planted`, (t) => {
    const { said, operations, bound, found } = look(exhibit)
    t.true(found, `${said} after ${operations} of ${bound} operations`)
    t.log(`${operations} of at most ${bound} operations: ${said}`)
  })
}
