import { type ChildProcess, spawn } from 'node:child_process'

/** Processes that do nothing but run: what a host is like that has other work. Their processor time is theirs alone. */
export class Neighbours {
  readonly #children: readonly ChildProcess[]

  constructor(count: number) {
    this.#children = Array.from({ length: count }, () =>
      spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
    )
    process.once('exit', () => this.stop())
  }

  stop(): void {
    for (const child of this.#children) child.kill('SIGKILL')
  }
}
