// Two worker threads as engines of one runtime: node examples/worker-engines.mjs [folder]
// The first saves its pages, the second restores them into its own. Control goes over comlink, pages never do.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { OrbitKV, wrapOrbitKV } from 'orbitkv'

const shape = { model: 'example', layers: 4, pages: 32, segmentBytes: 16384 }
const blocks = Array.from({ length: shape.pages }, (_, block) => block)
const keys = blocks.map((block) => createHash('sha256').update(`block ${block}`).digest())
const content = (block) => Buffer.alloc(shape.segmentBytes, `content of block ${block}, `)

async function main() {
  const ssd = { paths: [`${process.argv[2] ?? '.'}/orbitkv-workers.dat`], capacityBytes: 256 << 20 }
  const kv = await OrbitKV.open({ poolBytes: 64 << 20, ssd, readRoute: 'uring' })
  for (const role of ['writer', 'reader']) {
    const port = kv.facade()
    const worker = new Worker(new URL(import.meta.url), { workerData: { role, port }, transferList: [port] })
    worker.on('message', (line) => console.log(`${role}: ${line}`))
    await once(worker, 'exit')
  }
  const { unfinished, leaks } = await kv.close()
  console.log(`closed: ${unfinished} unfinished, ${Object.keys(leaks).length} leaks`)
}

async function writer(kv, engine) {
  for (const block of blocks) for (const segment of engine.segments(block)) segment.set(content(block))
  const { accepted } = await engine.publish(keys, blocks)
  await kv.sync({ ssd: true })
  await kv.dropDram()
  return `published ${accepted} blocks, and all of them are on SSD`
}

async function reader(kv, engine) {
  const found = await engine.query(keys)
  const pages = [...blocks].reverse()
  const { bytes } = await engine.restore(found, pages)
  const right = blocks.filter((block) => engine.segments(pages[block]).every((bytes) => content(block).equals(bytes)))
  const { readRoute } = await kv.health()
  return `restored ${bytes} bytes, ${found.blocksSsd} blocks from SSD by route ${readRoute}, ${right.length} right`
}

async function engine(role) {
  const kv = wrapOrbitKV(workerData.port)
  const own = await kv.register(shape)
  parentPort.postMessage(await (role === 'writer' ? writer : reader)(kv, own))
  await kv.close()
}

// Not awaited here: a worker's entry module must not hold a top-level await.
if (isMainThread) main()
else engine(workerData.role)
