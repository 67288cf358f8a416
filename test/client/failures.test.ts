import { readFileSync } from 'node:fs'
import test from 'ava'
import { errorOf, errorOfReply } from '../../src/client/failures.js'
import { ERROR_CODES, type ErrorCode } from '../../src/shared/base/errors.js'

/** Held against the Python client, too: python/tests/test_wire.py reads the same file. */
const GOLDEN = new URL('../../../test/golden/error-classes.json', import.meta.url)

test('client: every code has one class, the same in both languages', (t) => {
  const classes = Object.fromEntries(
    (Object.keys(ERROR_CODES) as ErrorCode[])
      .filter((code) => code !== 'ok')
      .map((code) => [code, errorOf(code, 'text').constructor.name]),
  )
  t.deepEqual(classes, JSON.parse(readFileSync(GOLDEN, 'utf8')))
})

test('client: a code number from a newer Manager is still an error', (t) => {
  const error = errorOfReply({ kind: 'error', code: 65535, message: 'Cannot', values: [{ name: 'a', value: '1' }] })
  t.is(error.code, 'invariant')
  t.is(error.message, 'Cannot')
  t.deepEqual(error.values, { a: '1' })
})
