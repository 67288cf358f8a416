import test from 'ava'
import { OrbitKV } from '../../src/index.js'

const SHAPE = { model: 'm', layers: 2, pages: 8, segmentBytes: 4096 } as const
const DEVICE = 'GPU-ffffffff-ffff-ffff-ffff-ffffffffffff'
const BYTES = 2 * 2 * 8 * 4096

test('OrbitKV: device pages that are too few, or of a device that is not here, are refused and nothing stays mapped', async (t) => {
  const kv = await OrbitKV.open({ poolBytes: 16 << 20 })
  const register = (bytes: number, device = DEVICE) =>
    kv.register({ ...SHAPE, memory: { device, address: 0x7f00_0000_0000, bytes } })
  await t.throwsAsync(register(BYTES - 1), { instanceOf: RangeError, message: /131071 bytes of device memory/ })
  const missing = await t.throwsAsync(register(BYTES))
  t.regex(missing?.message ?? '', /device|CUDA/i)
  const engine = await kv.register(SHAPE)
  t.notThrows(() => engine.segment(1, 7, 1))
  await engine.close()
  const { leaks } = await kv.close()
  t.deepEqual(leaks, {})
})
