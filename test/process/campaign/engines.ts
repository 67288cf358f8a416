import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Word } from './engine-words.js'
import type { Ledger } from './ledger.js'

/** Which client library an engine uses. */
export type EngineLanguage = 'typescript' | 'python'

const ENTRIES: Record<EngineLanguage, readonly [command: string, script: string]> = {
  typescript: [process.execPath, fileURLToPath(new URL('./at-work.js', import.meta.url))],
  python: ['python3', fileURLToPath(new URL('../../../../python/tests/campaign_engine.py', import.meta.url))],
}

/** Engines that run: they end with this process. */
const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** An engine process at work. What it says goes to the ledger; what it counts, and when it has done what, is here. */
export class EngineAtWork {
  readonly #child: ChildProcess
  readonly #ledger: Ledger
  readonly #listeners = new Set<() => void>()
  readonly ended: Promise<number | null>
  #epoch: number | null = null
  #there = false
  #over = false
  steps = 0
  /** What it failed with; a typed end of its Manager is no failure. */
  failure: string | null = null

  constructor(language: EngineLanguage, socketPath: string, seed: number, number: number, ledger: Ledger) {
    const [command, script] = ENTRIES[language]
    this.#ledger = ledger
    this.#child = spawn(command, [script, socketPath, String(seed), String(number)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    running.add(this.#child)
    const lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream })
    lines.on('line', (line) => this.#heard(JSON.parse(line) as Word))
    this.ended = once(this.#child, 'close').then(([code]) => {
      running.delete(this.#child)
      this.#over = true
      this.#tell()
      return code as number | null
    })
  }

  /** Resolves when the process runs its own code. */
  async there(): Promise<void> {
    await this.#until(() => this.#there, 'to begin')
  }

  /** Resolves when it is registered with an incarnation. */
  async registered(epoch: number): Promise<void> {
    await this.#until(() => this.#epoch === epoch, `to register with ${epoch}`)
  }

  /** Resolves when it has done so many more operations. */
  async progress(steps: number): Promise<void> {
    const goal = this.steps + steps
    await this.#until(() => this.steps >= goal, `to do ${steps} operations`)
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.ended
  }

  /** Asks it to leave in order; its exit code. */
  async leave(): Promise<number | null> {
    this.#child.kill('SIGTERM')
    return await this.ended
  }

  #heard(word: Word): void {
    switch (word.word) {
      case 'there':
        this.#there = true
        break
      case 'on':
        this.#epoch = word.epoch
        break
      case 'begun':
        return this.#ledger.begun(word)
      case 'acknowledged':
        return this.#ledger.acknowledged(word)
      case 'restored':
        return this.#ledger.restored(word.epoch, word.name, word.versions)
      case 'wrong':
        return this.#ledger.wrong(word.what)
      case 'step':
        this.steps++
        break
      case 'off':
        this.#epoch = null
        break
      case 'failed':
        this.failure = word.error
        break
    }
    this.#tell()
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }

  async #until(holds: () => boolean, what: string): Promise<void> {
    const deadlineMs = performance.now() + WAIT_MS_MAX
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(
        () => settle(new Error(`an engine took more than ${WAIT_MS_MAX} ms ${what}`)),
        WAIT_MS_MAX,
      )
      const settle = (error: Error | null) => {
        clearTimeout(timer)
        this.#listeners.delete(look)
        if (error === null) resolve()
        else reject(error)
      }
      const look = () => {
        if (holds()) settle(null)
        else if (this.failure !== null) settle(new Error(`an engine failed: ${this.failure}`))
        else if (this.#over) settle(new Error(`an engine ended before it came ${what}`))
        else if (performance.now() > deadlineMs) settle(new Error(`an engine did not come ${what}`))
      }
      this.#listeners.add(look)
      look()
    })
  }
}

/** Tells a hang from a loaded machine. */
const WAIT_MS_MAX = 60_000
