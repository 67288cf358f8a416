import test from 'ava'
import { codeOf, document, tableUnder } from '../support/document.js'

/** Bounds of the page that the named file does not define with that value. */
function wrongBounds(text: string): string[] {
  return tableUnder(text, 'Bounds').flatMap((row) => {
    const name = codeOf(row[0]) ?? ''
    const defined = new RegExp(`const ${name} = ${row[1] ?? ''}$`, 'm').test(document(codeOf(row[2]) ?? ''))
    return defined ? [] : [name]
  })
}

test('docs/internals/lanes.md: every bound has the value that its file defines', (t) => {
  const text = document('docs/internals/lanes.md')
  t.true(tableUnder(text, 'Bounds').length >= 10)
  t.deepEqual(wrongBounds(text), [])
  t.deepEqual(wrongBounds(text.replace('| `STOP_MS_MAX` | 5_000 |', '| `STOP_MS_MAX` | 9_000 |')), ['STOP_MS_MAX'])
})
