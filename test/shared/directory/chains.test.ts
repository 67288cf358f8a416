import test from 'ava'
import fc from 'fast-check'
import { Chains } from '../../../src/shared/directory/chains.js'
import { WordRows } from '../../../src/shared/directory/word-rows.js'
import { catches, holds } from '../../support/model-commands.js'

const ROWS = 40
const LINK = 0

type MakeChains = (rows: WordRows, hashOf: (entry: number) => number) => Chains

/** What is wrong with the whole structure: every entry once, in its bucket, under its tag, `last` where a chain ends. */
function breach(chains: Chains, hashes: ReadonlyMap<number, number>): string | null {
  const seen = new Set<number>()
  for (let bucket = 0; bucket < chains.buckets; bucket++) {
    for (let link = chains.head(bucket); link !== 0; ) {
      const entry = chains.entryOf(link)
      const hash = hashes.get(entry)
      if (hash === undefined || seen.has(entry)) return `entry ${entry} is not to be in bucket ${bucket}`
      if (chains.bucket(hash) !== bucket) return `entry ${entry} is in bucket ${bucket}, not ${chains.bucket(hash)}`
      if (chains.tagOf(link) !== chains.tag(hash)) return `the tag of entry ${entry} is not its own`
      const next = chains.next(entry)
      if (chains.isLast(link) !== (next === 0)) return `entry ${entry}: last is ${chains.isLast(link)}, next ${next}`
      seen.add(entry)
      link = next
    }
  }
  return seen.size === hashes.size ? null : `${seen.size} of ${hashes.size} entries are linked`
}

/** Random additions and removals over few hashes, so that chains are long; the structure is checked after each. */
function staysSound(make: MakeChains): fc.IProperty<[number, [boolean, number, number][]]> {
  const hash = fc.oneof(fc.nat(63), fc.integer({ min: 0, max: 2 ** 32 - 1 }), fc.constant(2 ** 31 + 5))
  const steps = fc.array(fc.tuple(fc.boolean(), hash, fc.nat(ROWS - 1)), { maxLength: 120, size: 'max' })
  return fc.property(fc.integer({ min: 1, max: ROWS }), steps, (rowsMax, list) => {
    const rows = new WordRows(1, rowsMax)
    rows.reach(rowsMax - 1)
    const hashes = new Map<number, number>()
    const chains = make(rows, (entry) => hashes.get(entry) as number)
    for (const [add, value, nth] of list) {
      const entry = nth % rowsMax
      if (add && !hashes.has(entry)) {
        hashes.set(entry, value)
        chains.add(entry, value, hashes.size)
      } else if (!add) {
        const present = hashes.has(entry)
        if (chains.remove(entry, hashes.get(entry) ?? value) !== present) return false
        hashes.delete(entry)
      }
      const wrong = breach(chains, hashes)
      if (wrong !== null) throw new Error(wrong)
    }
    return true
  })
}

test('Chains: every entry stays in its bucket under its tag, through additions, removals and splits', (t) => {
  t.true(
    holds(
      staysSound((rows, hashOf) => new Chains(rows, LINK, hashOf)),
      500,
    ),
  )
})

test('Chains: twins that forget the end of a chain, or split by the wrong bit, are caught', (t) => {
  class Endless extends Chains {
    protected override markLast(): void {}
  }
  t.true(catches(staysSound((rows, hashOf) => new Endless(rows, LINK, hashOf))))
  t.true(catches(staysSound((rows, hashOf) => new Chains(rows, LINK, (entry) => hashOf(entry) >>> 1))))
})

test('Chains: one addition splits at most one bucket, whatever the number of entries', (t) => {
  const rows = new WordRows(1, 50_000)
  const asked: number[] = []
  const chains = new Chains(rows, LINK, (entry) => {
    asked.push(entry)
    return Math.imul(entry, 0x9e3779b1) >>> 0
  })
  let most = 0
  for (let entry = 0; entry < 50_000; entry++) {
    rows.reach(entry)
    asked.length = 0
    chains.add(entry, Math.imul(entry, 0x9e3779b1) >>> 0, entry + 1)
    most = Math.max(most, asked.length)
  }
  t.true(most >= 1 && most < 16, `${most} rows were rehashed at once`)
  t.is(chains.buckets, 50_000)
})
