import test from 'ava'
import { ERROR_CODES, errorCodeName } from '../../src/shared/base/errors.js'
import { codeOf, document, tableRows } from '../support/document.js'

/** Code and number of every row that explains a code; the first table explains classes. */
function explained(text: string): Map<string, number> {
  const found = new Map<string, number>()
  for (const row of tableRows(text)) {
    const name = codeOf(row[0])
    if (name === null || !/^[a-z][a-z_]*$/.test(name)) continue
    if (found.has(name)) throw new Error(`${name} is explained twice`)
    found.set(name, Number(row[1]))
  }
  return found
}

const CODES = new Map<string, number>(Object.entries(ERROR_CODES))

test('docs/errors.md explains every error code with its number, and no other', (t) => {
  const page = explained(document('docs/errors.md'))
  const sorted = (codes: Map<string, number>) => [...codes].sort((a, b) => a[1] - b[1])
  t.deepEqual(sorted(page), sorted(CODES))
})

test('docs/errors.md: a code that is missing, extra, misnumbered or doubled is noticed', (t) => {
  const text = document('docs/errors.md')
  t.notDeepEqual(explained(text.replace(/^\| `slot_busy`.*\n/m, '')), CODES)
  t.notDeepEqual(explained(`${text}\n| \`slot_gone\` | 98 | invented | |\n`), CODES)
  t.notDeepEqual(explained(text.replace('| `slot_busy` | 97 |', '| `slot_busy` | 96 |')), CODES)
  t.throws(() => explained(`${text}\n| \`slot_busy\` | 97 | again | |\n`), { message: 'slot_busy is explained twice' })
})

test('docs/errors.md says what to do with every code that asks for something', (t) => {
  const silent = tableRows(document('docs/errors.md')).filter((row) => row.length === 4 && row[3] === '')
  t.deepEqual(
    silent.map((row) => codeOf(row[0])),
    ['ok', 'cancelled'],
  )
})

test('errors: numbers are never shared, fit a byte pair and translate back', (t) => {
  t.is(new Set(CODES.values()).size, CODES.size)
  for (const [name, number] of CODES) {
    t.true(Number.isInteger(number) && number >= 0 && number < 65_536)
    t.is(errorCodeName(number), name as keyof typeof ERROR_CODES)
  }
  t.is(errorCodeName(65_535), 'invariant')
})
