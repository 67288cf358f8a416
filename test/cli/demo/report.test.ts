import test from 'ava'
import type { RequestResult } from '../../../src/cli/demo/protocol.js'
import { type DemoReport, quantile, summarize, tableOf } from '../../../src/cli/demo/report.js'

function result(change: Partial<RequestResult>): RequestResult {
  return {
    id: 0,
    blocks: 4,
    fromDram: 1,
    fromSsd: 2,
    missed: 1,
    mismatches: 0,
    restoredBytes: 3_000,
    restoreUs: 1_000,
    restoreFailures: 0,
    publishedBlocks: 1,
    deviation: [0, 0, 0, 0],
    ...change,
  }
}

test('quantile: the value below which the fraction lies; nothing gives 0', (t) => {
  const hundred = Array.from({ length: 100 }, (_, i) => i)
  t.is(quantile(hundred, 0.5), 50)
  t.is(quantile(hundred, 0.99), 99)
  t.is(quantile(hundred, 1), 99)
  t.is(quantile([7], 0.5), 7)
  t.is(quantile([], 0.5), 0)
})

test('summarize: adds every field; requests that restored nothing are no times', (t) => {
  const sums = summarize([
    result({}),
    result({ restoreUs: 3_000, mismatches: 2, restoreFailures: 1 }),
    result({ restoreUs: 0, fromDram: 0, fromSsd: 0, missed: 4, restoredBytes: 0 }),
  ])
  t.deepEqual(sums, {
    requests: 3,
    blocks: 12,
    blocksFromDram: 2,
    blocksFromSsd: 4,
    blocksMissed: 6,
    restoredBytes: 6_000,
    restoreFailures: 1,
    mismatches: 2,
    relativeErrors: [0, 0],
    restoreP50Ms: 3,
    restoreP99Ms: 3,
  })
})

test('summarize: without requests everything is zero', (t) => {
  t.true(
    Object.values(summarize([]))
      .flat()
      .every((value) => value === 0),
  )
})

test('tableOf: aligned rows with shares of the blocks asked for', (t) => {
  const report: DemoReport = {
    ...summarize([result({}), result({ mismatches: 1 })]),
    ok: false,
    ssdRestoredBytes: 4_096,
    enginesKilled: 1,
    gaugesAtRest: 0,
    gaugesSeen: 31,
    skipped: [],
    managerExitCode: 0,
    seconds: 1.5,
    io: 'uring',
    route: 'dram',
    engines: ['TypeScript', 'Python'],
    device: 'host',
    codec: null,
  }
  const lines = tableOf(report).split('\n')
  const cellOf = (name: string) =>
    lines
      .find((line) => line.trim().startsWith(name))
      ?.split(/ {3,}/)
      .at(-1)
  t.is(cellOf('requests'), '2 by TypeScript and Python')
  t.is(cellOf('from SSD'), '4 (50.0 %)')
  t.is(cellOf('computed and published'), '2 (25.0 %)')
  t.is(cellOf('bytes read from SSD, verified'), '4 KiB')
  t.is(cellOf('blocks with a wrong byte'), '1')
  t.is(cellOf('gauges left over after SIGTERM'), '0 of 31')
  t.is(new Set(lines.map((line) => /^ {2}(.*?) {3}(?=\S)/.exec(line)?.[0].length)).size, 1, 'one column')
})

test('tableOf: no blocks at all is no division by zero', (t) => {
  const empty = { ...summarize([]), engines: [], skipped: [], codec: null } as unknown as DemoReport
  t.false(/NaN|Infinity/.test(tableOf(empty).replace(/undefined/g, '')))
})

test('summarize: errors of all requests over their power, K and V apart', (t) => {
  const sums = summarize([result({ deviation: [1, 100, 3, 50] }), result({ deviation: [2, 200, 0, 50] }), result({})])
  t.deepEqual(sums.relativeErrors, [0.01, 0.03])
})

test('tableOf: a codec has rows of its own, and none without one', (t) => {
  const base = { ...summarize([result({ deviation: [1, 100, 3, 100] })]), engines: [], skipped: [] }
  const codec = { name: 'turboquant-4', logicalBytes: 4_096, storedBytes: 1_024, itemsRaw: 3, silent: false }
  const text = tableOf({ ...base, codec } as unknown as DemoReport)
  t.regex(text, /storage codec +turboquant-4\n/)
  t.regex(text, /encoded bytes +1 KiB for 4 KiB, 25\.0 %\n/)
  t.regex(text, /items kept raw +3\n/)
  t.regex(text, /K \/ V +0\.01 \/ 0\.03\n/)
  t.notRegex(tableOf({ ...base, codec: null } as unknown as DemoReport), /codec|square/)
})
