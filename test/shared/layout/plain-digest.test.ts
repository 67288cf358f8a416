import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import test from 'ava'
import { plainDigest } from '../../../src/shared/layout/namespace.js'

interface Vector {
  readonly inputs: readonly { readonly tag: string; readonly hex: string }[]
  readonly digest: string
}

test('namespace: plain digests are those that the Python client computes', (t) => {
  const file = new URL('../../../../test/golden/plain-digest.json', import.meta.url)
  const vectors = JSON.parse(readFileSync(file, 'utf8')) as Vector[]
  for (const { inputs, digest } of vectors) {
    const plain = new Map(inputs.map(({ tag, hex }) => [tag, new Uint8Array(Buffer.from(hex, 'hex'))]))
    const computed = plainDigest((bytes) => createHash('sha256').update(bytes).digest(), plain)
    t.is(Buffer.from(computed).toString('hex'), digest)
  }
  t.is(vectors.length, 5)
})
