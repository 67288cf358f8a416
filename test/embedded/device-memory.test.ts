import { readdirSync, readFileSync } from 'node:fs'
import type { ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { layoutOf, segmentOffset } from '../../src/embedded/engine-layout.js'
import { Runtime } from '../../src/embedded/runtime.js'
import { ClosedError, type Engine, OrbitKV } from '../../src/index.js'
import { noCudaTwin } from '../support/cuda-twin.js'
import { CuFileShim, shimMissing } from '../support/cufile-shim.js'
import { directIoWorks } from '../support/direct-io.js'
import { contentOf, keysOf, killLane, metricOf } from '../support/engine-content.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { open, optionsOf } from '../support/runtime-bed.js'

/**
 * Engines whose pages this process has allocated on a CUDA device and lends by address, over a twin of the driver in
 * which device memory is shared memory.
 */

const reason = noCudaTwin() || (shimMissing() ?? '')
const testOverTwin = needs(reason === '', reason)
const disk = loadNative().probe().available && directIoWorks(loadNative())
const ssdTest = needs(
  reason === '' && disk,
  reason || 'an SSD tier needs io_uring and a temporary folder with direct I/O',
)

const SHAPE = { model: 'device', layers: 3, pages: 8, segmentBytes: 5_000 } as const
const GUARD_BYTES = 4096
const GUARD = 0xc3
const POISON = 0xa5
const pages = Array.from({ length: SHAPE.pages }, (_, page) => page)

/** Pages on the device with guard bytes behind them, and their address: what an engine in this process has. */
class DevicePages {
  readonly device: string
  readonly address: number
  readonly bytes: number
  readonly #mapping: number
  readonly #native = loadNative()

  constructor() {
    const [device] = this.#native.cudaProbe().devices
    if (device === undefined) throw new Error('the twin of the driver has a device')
    this.device = device.uuid
    this.bytes = layoutOf(SHAPE).bytes
    const before = new Set(addresses())
    this.#mapping = this.#native.allocateDeviceMemory(this.device, this.bytes + GUARD_BYTES).mapping
    const [address] = addresses().filter((each) => !before.has(each))
    if (address === undefined) throw new Error('the twin maps what it allocates')
    this.address = address
    this.fill(POISON)
  }

  /** What a registration is given. */
  get lent() {
    return { device: this.device, address: this.address, bytes: this.bytes }
  }

  /** Every page, and the guard behind them. */
  fill(byte: number): void {
    const content = new Uint8Array(this.bytes + GUARD_BYTES).fill(byte)
    content.fill(GUARD, this.bytes)
    this.#native.writeMapping(this.#mapping, 0, content)
  }

  compute(): void {
    for (const page of pages) {
      for (const { offsetBytes, index } of segmentsOf(page)) {
        this.#native.writeMapping(this.#mapping, offsetBytes, contentOf(page, index, SHAPE.segmentBytes))
      }
    }
  }

  /** Blocks whose bytes do not stand in `at[i]`, and -1 for a guard that was touched. */
  wrong(at: readonly number[]): number[] {
    const all = new Uint8Array(this.bytes + GUARD_BYTES)
    this.#native.readMapping(this.#mapping, 0, all)
    const wrong = at.flatMap((page, block) =>
      segmentsOf(page).every(({ offsetBytes, index }) =>
        contentOf(block, index, SHAPE.segmentBytes).equals(all.subarray(offsetBytes, offsetBytes + SHAPE.segmentBytes)),
      )
        ? []
        : [block],
    )
    return all.subarray(this.bytes).every((byte) => byte === GUARD) ? wrong : [...wrong, -1]
  }

  free(): void {
    this.#native.releaseMapping(this.#mapping)
  }
}

function segmentsOf(page: number): { readonly offsetBytes: number; readonly index: number }[] {
  const layout = layoutOf(SHAPE)
  return layout.layers.flatMap((_, layer) =>
    [0, 1].map((part) => ({ offsetBytes: segmentOffset(layout, layer, page, part), index: 2 * layer + part })),
  )
}

/** Where the twin has mapped what this process allocated: its driver knows the memory by this address. */
function addresses(): number[] {
  const found = readFileSync('/proc/self/maps', 'utf8').matchAll(
    new RegExp(`^([0-9a-f]+)-.*/orbitkv-shim-${process.pid}-`, 'gm'),
  )
  return [...found].map(([, start]) => Number.parseInt(start as string, 16))
}

async function onSsdAlone(kv: OrbitKV, engine: Engine, memory: DevicePages, keys: readonly Buffer[]): Promise<void> {
  memory.compute()
  await engine.publish(keys, pages)
  await kv.sync({ ssd: true })
  await kv.dropDram()
  memory.fill(POISON)
}

function useCuFile(t: ExecutionContext): CuFileShim {
  const shim = new CuFileShim(folderOf(t))
  process.env['ORBITKV_CUFILE_LIBRARY'] = shim.library
  process.env['ORBITKV_CUFILE_SHIM'] = shim.folder
  return shim
}

const ROUTES = [
  ['dram', { readRoute: 'dram', ssdBackend: 'uring' }],
  ['uring', { readRoute: 'uring', ssdBackend: 'uring' }],
  ['cufile', { readRoute: 'cufile', ssdBackend: 'cufile' }],
] as const

for (const [route, options] of ROUTES) {
  ssdTest(
    `OrbitKV: pages lent by device address come back from SSD by route ${route}, byte for byte, with nothing beside them`,
    async (t) => {
      const shim = useCuFile(t)
      const memory = new DevicePages()
      const kv = await open(t, { ...options, devices: 'all' })
      const engine = await kv.register({ ...SHAPE, memory: memory.lent })
      const keys = keysOf(t.title, SHAPE.pages)
      await onSsdAlone(kv, engine, memory, keys)
      t.is(memory.wrong(pages).length, SHAPE.pages, 'nothing is right by chance')

      const found = await engine.query(keys)
      t.deepEqual([found.kind, found.blocks, found.blocksSsd], ['hit', SHAPE.pages, SHAPE.pages])
      const reversed = [...pages].reverse()
      await engine.restore(found, reversed)
      t.deepEqual(memory.wrong(reversed), [])
      t.like(kv.health(), {
        readRoute: route,
        ssd: { readRoute: route, cause: route === 'cufile' ? 'configured' : 'chosen' },
      })
      t.is((await metricOf(kv, 'orbitkv_ssd_restore_read_bytes_total')) > 0, route === 'uring')
      t.is((await metricOf(kv, 'orbitkv_ssd_fill_bytes_total')) > 0, route === 'dram')
      t.is((await metricOf(kv, 'orbitkv_ssd_cufile_read_bytes_total')) > 0, route === 'cufile')
      t.is(shim.loaded, route === 'cufile')

      t.throws(() => engine.segment(0, 0), { instanceOf: RangeError, message: /on a device/ })
      await engine.close()
      const { unfinished, leaks } = await kv.close()
      t.deepEqual([unfinished, leaks], [0, {}])
      t.deepEqual(memory.wrong(reversed), [], "the memory is its owner's, and still there")
      memory.free()
      t.is(loadNative().mappingsAlive(), 0)
    },
  )
}

ssdTest(
  'Runtime: a death while staging is registered is reported, ends everything, and leaves the memory to its owner',
  async (t) => {
    useCuFile(t)
    // The library's log goes into a folder there while the runtime has no socket.
    const options = optionsOf(t, { readRoute: 'cufile', ssdBackend: 'cufile', devices: 'all' })
    const temporary = folderOf(t)
    const before = process.env['TMPDIR']
    process.env['TMPDIR'] = temporary
    t.teardown(() => {
      if (before === undefined) delete process.env['TMPDIR']
      else process.env['TMPDIR'] = before
    })
    const memory = new DevicePages()
    const reports: string[] = []
    const runtime = await Runtime.open({ ...options, onDeath: ({ name }) => void reports.push(name) })
    const kv = Reflect.construct(OrbitKV, [runtime]) as OrbitKV
    const engine = await kv.register({ ...SHAPE, memory: memory.lent })
    const keys = keysOf(t.title, SHAPE.pages)
    await onSsdAlone(kv, engine, memory, keys)
    await engine.restore(await engine.query(keys), pages)
    t.true((await metricOf(kv, 'orbitkv_ssd_gpu_staging_bytes')) > 0)
    t.is(readdirSync(temporary).length, 1)
    killLane(runtime, 'ssd-worker-cuda0')
    t.is((await kv.died).name, 'ssd-worker-cuda0')
    t.is(kv.health().status, 'died')
    t.is((await t.throwsAsync(engine.query(keys), { instanceOf: ClosedError }))?.code, 'manager_gone')
    t.deepEqual(reports, ['ssd-worker-cuda0'])
    t.deepEqual(memory.wrong(pages), [])
    memory.free()
    t.deepEqual(readdirSync(temporary), [], 'the folder of the log goes with the runtime')
  },
)

testOverTwin(
  'OrbitKV: pages on a device go to DRAM and back without an SSD tier, and so for the next engine on the same memory',
  async (t) => {
    const memory = new DevicePages()
    const kv = await open(t, { ssd: undefined as never, devices: 'all' })
    const engine = await kv.register({ ...SHAPE, memory: memory.lent })
    const keys = keysOf(t.title, SHAPE.pages)
    memory.compute()
    await engine.publish(keys, pages)
    memory.fill(POISON)
    await engine.restore(await engine.query(keys), pages)
    t.deepEqual(memory.wrong(pages), [])
    await engine.close()
    const heir = await kv.register({ ...SHAPE, memory: memory.lent })
    memory.fill(POISON)
    await heir.restore(await heir.query(keys), pages)
    t.deepEqual(memory.wrong(pages), [])
    await heir.close()
    t.deepEqual((await kv.close()).leaks, {})
    memory.free()
  },
)

testOverTwin(
  'OrbitKV: an address that is no memory of the device, or not all of it, is refused and nothing stays mapped',
  async (t) => {
    const memory = new DevicePages()
    const kv = await open(t, { ssd: undefined as never, devices: 'all' })
    const { device, address } = memory
    const alive = loadNative().mappingsAlive()
    const beyond = kv.register({
      ...SHAPE,
      memory: { device, address: address + 2 * GUARD_BYTES, bytes: memory.bytes },
    })
    await t.throwsAsync(beyond, undefined, 'it ends before the pages do')
    await t.throwsAsync(kv.register({ ...SHAPE, memory: { device, address: 0x1000, bytes: memory.bytes } }))
    const engine = await kv.register({ ...SHAPE, memory: memory.lent })
    await engine.close()
    t.deepEqual((await kv.close()).leaks, {})
    t.is(loadNative().mappingsAlive(), alive)
    memory.free()
  },
)

testOverTwin('OrbitKV: a runtime that serves no device refuses pages on one by name', async (t) => {
  const memory = new DevicePages()
  const kv = await OrbitKV.open({ poolBytes: 16 << 20 })
  await t.throwsAsync(kv.register({ ...SHAPE, memory: memory.lent }), { code: 'device_unknown' } as object)
  t.deepEqual((await kv.close()).leaks, {})
  memory.free()
})
