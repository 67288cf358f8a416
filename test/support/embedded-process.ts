import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const CHILD = fileURLToPath(new URL('embedded-child.js', import.meta.url))

/** How a process of embedded-child.ts ended, and what it said. */
export interface ChildEnd {
  readonly code: number | null
  readonly signal: string | null
  readonly lines: readonly Readonly<Record<string, unknown>>[]
  readonly stderr: string
}

/** Runs a mode to its end. */
export async function runChild(...args: string[]): Promise<ChildEnd> {
  const child = spawn(process.execPath, [CHILD, ...args], { timeout: 120_000, killSignal: 'SIGKILL' })
  const texts = { out: '', err: '' }
  child.stdout.on('data', (chunk: Buffer) => {
    texts.out += chunk
  })
  child.stderr.on('data', (chunk: Buffer) => {
    texts.err += chunk
  })
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    child.on('close', (...end) => resolve(end))
  })
  const lines = texts.out.split('\n').filter((line) => line !== '')
  return { code, signal, lines: lines.map((line) => JSON.parse(line)), stderr: texts.err }
}
