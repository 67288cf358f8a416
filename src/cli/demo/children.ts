import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import type { EngineCommand, EngineEvent, EngineParams } from './protocol.js'

type Child = ChildProcessByStdio<Writable, Readable, null>

/** A process that answers in JSON lines; lines that are not JSON are kept for the error message. */
class LineProcess<E> {
  readonly child: Child
  readonly exited: Promise<number>
  #waiting: {
    readonly accept: (event: E) => boolean
    readonly resolve: (event: E) => void
    readonly reject: (e: Error) => void
  }[] = []
  #tail: string[] = []

  constructor(name: string, command: string, args: readonly string[], logPath: string | null, env: NodeJS.ProcessEnv) {
    this.child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], env })
    const log = logPath === null ? null : createWriteStream(logPath)
    this.child.stdin.on('error', () => {})
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      log?.write(`${line}\n`)
      this.#tail = [...this.#tail.slice(-20), line]
      let event: E
      try {
        event = JSON.parse(line) as E
      } catch {
        return
      }
      const index = this.#waiting.findIndex(({ accept }) => accept(event))
      if (index >= 0) this.#waiting.splice(index, 1)[0]?.resolve(event)
    })
    this.exited = new Promise((resolve) => {
      this.child.on('error', () => resolve(127))
      this.child.on('close', (code) => resolve(code ?? -1))
    })
    void this.exited.then((code) => {
      for (const { reject } of this.#waiting.splice(0)) {
        reject(new Error(`${name} ended with code ${code}; its last lines:\n${this.#tail.join('\n')}`))
      }
    })
  }

  /** The next event that `accept` takes. Rejects when the process ends first. */
  next(accept: (event: E) => boolean): Promise<E> {
    return new Promise((resolve, reject) => this.#waiting.push({ accept, resolve, reject }))
  }
}

/** What of a log line of the Manager is looked at. */
interface ManagerLine {
  readonly msg?: string
  readonly http?: string
  readonly unfinished?: number
  readonly leaks?: Readonly<Record<string, number>>
  readonly gauges?: Readonly<Record<string, number>>
}

/** How the Manager ended: its exit code and its own last count of what was still owned. */
export interface ManagerEnd {
  readonly exitCode: number
  readonly leaks: Readonly<Record<string, number>>
  readonly gaugesSeen: number
}

/** A real Manager process. */
export class ManagerChild {
  readonly #process: LineProcess<ManagerLine>
  readonly http: string

  private constructor(process_: LineProcess<ManagerLine>, http: string) {
    this.#process = process_
    this.http = http
  }

  static async start(binary: readonly string[], flags: readonly string[], logPath: string): Promise<ManagerChild> {
    const [command, ...args] = binary
    const child = new LineProcess<ManagerLine>(
      'The Manager',
      command as string,
      [...args, ...flags],
      logPath,
      process.env,
    )
    try {
      const serving = await child.next(({ msg }) => msg === 'serving')
      return new ManagerChild(child, serving.http ?? '')
    } catch {
      const code = await child.exited
      throw new Error(`The Manager did not start: exit code ${code}; its reason stands on standard error`)
    }
  }

  /** One counter or gauge, summed over its labels, or over those that contain `label`; 0 when it is absent. */
  async metric(name: string, label = ''): Promise<number> {
    const text = await (await fetch(`http://${this.http}/metrics`)).text()
    let sum = 0
    for (const line of text.split('\n')) {
      const match = /^(\w+)(\{[^}]*\})? (\S+)$/.exec(line)
      if (match?.[1] === name && (match[2] ?? '').includes(label)) sum += Number(match[3])
    }
    return sum
  }

  async stop(): Promise<ManagerEnd> {
    const drained = this.#process.next(({ msg }) => msg === 'drained')
    this.#process.child.kill('SIGTERM')
    const { leaks, gauges } = await drained
    return { exitCode: await this.#process.exited, leaks: leaks ?? {}, gaugesSeen: Object.keys(gauges ?? {}).length }
  }

  kill(): void {
    this.#process.child.kill('SIGKILL')
  }
}

/** How an engine process is started: `command` gets the parameters as its last argument. */
export interface EngineCommandLine {
  readonly language: 'TypeScript' | 'Python'
  readonly command: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
}

/** What an engine answers. One that is to hang in a restore is done when there was nothing to restore. */
const ANSWERS: Readonly<Record<EngineCommand['op'], readonly EngineEvent['event'][]>> = {
  request: ['done'],
  hang: ['restoring', 'done'],
  sync: ['synced'],
  stop: [],
}

/** A real engine process. */
export class EngineChild {
  readonly #process: LineProcess<EngineEvent>

  private constructor(process_: LineProcess<EngineEvent>) {
    this.#process = process_
  }

  static async start(line: EngineCommandLine, params: EngineParams): Promise<EngineChild> {
    const args = [...line.args, JSON.stringify(params)]
    const child = new LineProcess<EngineEvent>(`Engine ${params.name}`, line.command, args, null, line.env)
    const engine = new EngineChild(child)
    await engine.#expect(['ready'])
    return engine
  }

  async ask(command: EngineCommand): Promise<EngineEvent> {
    const answered = this.#expect(ANSWERS[command.op])
    this.#process.child.stdin.write(`${JSON.stringify(command)}\n`)
    return answered
  }

  async stop(): Promise<number> {
    this.#process.child.stdin.end(`${JSON.stringify({ op: 'stop' })}\n`)
    return this.#process.exited
  }

  /** SIGKILL, and the end of it. */
  async kill(): Promise<void> {
    this.#process.child.kill('SIGKILL')
    await this.#process.exited
  }

  async #expect(events: readonly EngineEvent['event'][]): Promise<EngineEvent> {
    const got = await this.#process.next(({ event }) => events.includes(event) || event === 'failed')
    if (got.event === 'failed') throw new Error(`An engine failed: ${got.message}`)
    return got
  }
}
