import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { drawWorkload, readTrace, seededNumbers } from '../../../src/cli/demo/workload.js'
import { ConfigError } from '../../../src/shared/base/errors.js'

const SHAPE = { seed: 20261129, prefixes: 16, blocksPerPrefix: 4, requests: 200 } as const

function withTrace<T>(text: string, use: (path: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'orbitkv-trace-'))
  try {
    const path = join(folder, 'trace.jsonl')
    writeFileSync(path, text)
    return use(path)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test('seededNumbers: repeat for a seed, differ between seeds, fill [0, 1) evenly', (t) => {
  const draw = (seed: number, count: number) => Array.from({ length: count }, seededNumbers(seed))
  t.deepEqual(draw(7, 50), draw(7, 50))
  t.notDeepEqual(draw(7, 50), draw(8, 50))
  const tenths = new Uint32Array(10)
  for (const number of draw(7, 10_000)) {
    t.true(number >= 0 && number < 1)
    const tenth = Math.floor(number * 10)
    tenths[tenth] = (tenths[tenth] ?? 0) + 1
  }
  for (const count of tenths) t.true(count > 850 && count < 1150, String(tenths))
})

test('drawWorkload: every prefix once in order, then prefixes drawn again', (t) => {
  const requests = drawWorkload(SHAPE)
  t.is(requests.length, 200)
  const names = (prefix: number) => [0, 1, 2, 3].map((block) => `20261129/${prefix}/${block}`)
  for (let prefix = 0; prefix < 16; prefix++) t.deepEqual(requests[prefix]?.blocks, names(prefix))
  const known = new Set(requests.slice(0, 16).map(({ blocks }) => blocks.join()))
  const later = requests.slice(16).map(({ blocks }) => blocks.join())
  for (const request of later) t.true(known.has(request))
  t.is(new Set(later).size, 16, 'all of 16 prefixes come again in 184 draws')
})

test('drawWorkload: the same on every machine for one seed', (t) => {
  t.deepEqual(drawWorkload(SHAPE), drawWorkload(SHAPE))
  t.notDeepEqual(drawWorkload(SHAPE), drawWorkload({ ...SHAPE, seed: 1 }))
})

test('readTrace: prefix blocks in order, other fields and empty lines ignored, the limit kept', (t) => {
  const text = '{"timestamp": 0, "input_length": 9, "hash_ids": [0, 7, 3]}\n\n{"hash_ids": []}\n{"hash_ids": [0]}\n'
  withTrace(text, (path) => {
    t.deepEqual(readTrace(path, 10), [{ blocks: ['trace/0', 'trace/7', 'trace/3'] }, { blocks: ['trace/0'] }])
    t.is(readTrace(path, 1).length, 1)
  })
})

test('readTrace: a line that is not of the format is named', (t) => {
  for (const bad of ['{', '[]', 'null', '{"hash_ids": 3}', '{"hash_ids": ["a"]}', '{"hash_ids": [1.5]}', '{}']) {
    withTrace(`{"hash_ids": [1]}\n${bad}\n`, (path) => {
      const error = t.throws(() => readTrace(path, 10), { instanceOf: ConfigError }, bad)
      t.is(error?.code, 'config_bad_value')
      t.regex(error?.message ?? '', /line 2 is not/)
    })
  }
})

test('readTrace: what lies behind the limit is not read', (t) => {
  withTrace('{"hash_ids": [1]}\nbroken\n', (path) => {
    t.is(readTrace(path, 1).length, 1)
  })
})
