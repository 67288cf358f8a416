import { must } from './violation.js'

/** What a descriptor of the Manager's process stands for. */
export type Opened =
  | { readonly kind: 'memory'; readonly memory: EngineMemory; readonly sealed: boolean }
  | { readonly kind: 'slots'; readonly slots: number; readonly part: 0 | 1 | 2 }

/** The descriptor table of the Manager's process: numbers are reused at once, as a kernel does. */
export class Descriptors {
  readonly #open: (Opened | undefined)[] = []

  get count(): number {
    return this.#open.filter((opened) => opened !== undefined).length
  }

  open(opened: Opened): number {
    const free = this.#open.indexOf(undefined)
    const fd = free < 0 ? this.#open.length : free
    this.#open[fd] = opened
    return fd
  }

  at(fd: number): Opened {
    const opened = this.#open[fd]
    must(opened !== undefined, 'D1', () => `descriptor ${fd} is used after it was closed`)
    return opened as Opened
  }

  close(fd: number): void {
    this.at(fd)
    this.#open[fd] = undefined
  }
}

/**
 * The KV memory of one engine process, and beside it what it should hold: every byte that the engine did not offer as
 * a destination must equal `shadow` at all times.
 */
export class EngineMemory {
  readonly name: string
  readonly words: Uint32Array
  readonly bytes: Uint8Array
  readonly shadowWords: Uint32Array
  readonly shadow: Uint8Array

  constructor(name: string, bytes: number) {
    this.name = name
    this.words = new Uint32Array(bytes / 4)
    this.bytes = new Uint8Array(this.words.buffer)
    this.shadowWords = new Uint32Array(bytes / 4)
    this.shadow = new Uint8Array(this.shadowWords.buffer)
  }
}
