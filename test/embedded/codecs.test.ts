import test from 'ava'
import { Oracle } from '../../src/cli/demo/oracle.js'
import { OrbitKV } from '../../src/index.js'
import type { CodecName } from '../../src/shared/codec/setting.js'
import { keysOf, metricOf } from '../support/engine-content.js'
import { open, optionsOf, testWithSsd } from '../support/runtime-bed.js'

/** Storage codecs in the embedded runtime; what may come back is computed by the demo's oracle. */

const SHAPE = { model: 'test', layers: 6, pages: 8, segmentBytes: 16_384, headDim: 128, heads: 8 } as const
const pages = Array.from({ length: SHAPE.pages }, (_, page) => page)

for (const codec of ['fp8', 'turboquant-4', 'turboquant-3'] as const satisfies readonly CodecName[]) {
  testWithSsd(`OrbitKV: ${codec} pages come back from DRAM and SSD as the format has them`, async (t) => {
    const kv = await open(t, { storageCodec: codec, readRoute: 'uring' })
    const engine = await kv.register(SHAPE)
    const keys = keysOf(codec, SHAPE.pages)
    const oracle = new Oracle(codec, SHAPE.layers)
    const each = (visit: (page: number, layer: number, part: 0 | 1) => void) => {
      for (const page of pages) {
        for (let layer = 0; layer < SHAPE.layers; layer++) for (const part of [0, 1] as const) visit(page, layer, part)
      }
    }
    const contentOf = (page: number, layer: number, part: 0 | 1) =>
      oracle.content(keys[page] as Buffer, layer, part, SHAPE.segmentBytes)
    each((page, layer, part) => engine.segment(layer, page, part).set(contentOf(page, layer, part)))
    await engine.publish(keys, pages)
    for (const tier of ['DRAM', 'SSD']) {
      if (tier === 'SSD') {
        await kv.sync({ ssd: true })
        await kv.dropDram()
      }
      engine.bytes.fill(0xa5)
      const found = await engine.query(keys)
      t.is(tier === 'SSD' ? found.blocksSsd : found.blocksDram, SHAPE.pages)
      await engine.restore(found, pages)
      let wrong = 0
      each((page, layer, part) => {
        if (!oracle.accepts(layer, part, contentOf(page, layer, part), engine.segment(layer, page, part))) wrong++
      })
      t.is(wrong, 0, tier)
    }
    t.true((await metricOf(kv, 'orbitkv_storage_codec_bytes_total')) > 0)
    t.is(await metricOf(kv, 'orbitkv_storage_codec_silent_zero'), 0)
    const { unfinished, leaks } = await kv.close()
    t.deepEqual([unfinished, leaks], [0, {}])
  })
}

test.serial('OrbitKV: a codec that cannot be had or that nobody knows is a typed error of open()', async (t) => {
  const refused = (options: object) => t.throwsAsync(OrbitKV.open({ ...optionsOf(t), ...options } as never))
  t.like(await refused({ storageCodec: 'ans' }), { code: 'codec_unavailable' })
  t.like(await refused({ storageCodec: 'lz4' }), { code: 'config_bad_value' })
  t.like(await refused({ storageCodec: 'fp8', storageCodecBudgetBytes: 100 }), { code: 'config_bad_value' })
})
