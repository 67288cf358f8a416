import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface, type Interface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { ExecutionContext } from 'ava'
import type { EngineShape } from './engine.js'
import type { EngineCommand } from './engine-process.js'

/** An engine in a process of its own: see engine-process.ts. Killed by the test or by its teardown. */
export class EngineChild {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>
  readonly ended: Promise<number | null>

  private constructor(t: ExecutionContext, socketPath: string, shape: Partial<EngineShape>) {
    const entry = fileURLToPath(new URL('./engine-process.js', import.meta.url))
    this.#child = spawn(process.execPath, [entry, socketPath, JSON.stringify(shape)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#child.stdin?.on('error', () => {})
    this.#lines = (createInterface({ input: this.#child.stdout as NodeJS.ReadableStream }) as Interface)[
      Symbol.asyncIterator
    ]()
    this.ended = new Promise((resolve) => this.#child.on('close', resolve))
    t.teardown(() => this.kill())
  }

  static async start(t: ExecutionContext, socketPath: string, shape: Partial<EngineShape> = {}): Promise<EngineChild> {
    const engine = new EngineChild(t, socketPath, shape)
    await engine.#answer()
    return engine
  }

  /** Sends a command; returns its result. @throws what the engine failed with */
  async ask(op: EngineCommand['op'], name: string, count: number): Promise<number> {
    this.#child.stdin?.write(`${JSON.stringify({ op, name, count })}\n`)
    return await this.#answer()
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** SIGKILL, and the end of it. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.ended
  }

  /** Ends its standard input: it leaves in order. */
  async stop(): Promise<number | null> {
    this.#child.stdin?.end()
    return await this.ended
  }

  async #answer(): Promise<number> {
    const { value, done } = await this.#lines.next()
    if (done === true) throw new Error('the engine process ended')
    const { result, error } = JSON.parse(value) as { result: number; error?: string }
    if (error !== undefined) throw new Error(`the engine process failed: ${error}`)
    return result
  }
}
