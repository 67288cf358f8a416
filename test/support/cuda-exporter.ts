import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'

/** A process that owns device memory, exports it, and says what is in it: an engine without an engine. */
export interface Exporter {
  readonly uuid: string
  readonly handle: Uint8Array
  readonly offsetBytes: number
  readonly content: Uint8Array
  read(offset: number, bytes: number): Promise<number[]>
  /** Ends it at once, mapped or not. */
  kill(): Promise<void>
}

const contentOf = (bytes: number): Uint8Array => Uint8Array.from({ length: bytes }, (_, i) => (i * 13 + (i >> 7)) & 255)

export async function exportingChild(t: ExecutionContext, bytes: number): Promise<Exporter> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), String(bytes)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.stdin.end()
    await exited
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const answer = async (): Promise<unknown> => {
    const { value, done } = await lines.next()
    if (done === true) throw new Error('the exporting process ended')
    return JSON.parse(value)
  }
  const first = (await answer()) as { uuid: string; handle: number[]; offsetBytes: number }
  return {
    uuid: first.uuid,
    handle: Uint8Array.from(first.handle),
    offsetBytes: first.offsetBytes,
    content: contentOf(bytes),
    async read(offset, count) {
      child.stdin.write(`${offset} ${count}\n`)
      return (await answer()) as number[]
    },
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

async function main(bytes: number): Promise<void> {
  const native = loadNative()
  const [device] = native.cudaProbe().devices
  const { mapping } = native.allocateDeviceMemory(device?.uuid ?? '', bytes)
  native.writeMapping(mapping, 0, contentOf(bytes))
  const { uuid, handle, offsetBytes } = native.exportDeviceMemory(mapping)
  console.log(JSON.stringify({ uuid, handle: [...handle], offsetBytes }))
  for await (const line of createInterface({ input: process.stdin })) {
    const [offset = 0, count = 0] = line.split(' ').map(Number)
    const read = new Uint8Array(count)
    native.readMapping(mapping, offset, read)
    console.log(JSON.stringify([...read]))
  }
  native.releaseMapping(mapping)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(Number(process.argv[2]))
