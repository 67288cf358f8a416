// Pages go to SSD and come back, in one process: node examples/embedded.mjs [folder]
import { createHash, randomFillSync } from 'node:crypto'
import { OrbitKV } from 'orbitkv'

const ssd = { paths: [`${process.argv[2] ?? '.'}/orbitkv-example.dat`], capacityBytes: 256 << 20 }
const kv = await OrbitKV.open({ poolBytes: 64 << 20, ssd, readRoute: 'uring' })
const engine = await kv.register({ model: 'example', layers: 4, pages: 64, segmentBytes: 16384 })
const keys = Array.from({ length: 64 }, (_, block) => createHash('sha256').update(`block ${block}`).digest())
const pages = keys.map((_, page) => page)
const saved = randomFillSync(engine.bytes).slice()
await engine.publish(keys, pages)
await kv.sync({ ssd: true })
await kv.dropDram()
engine.bytes.fill(0xa5)
const found = await engine.query(keys)
const { bytes } = await engine.restore(found, pages)
const equal = Buffer.compare(saved, engine.bytes) === 0
console.log(`${found.blocksSsd} blocks from SSD, route ${kv.health().readRoute}, ${bytes} bytes, equal: ${equal}`)
await kv.close()
