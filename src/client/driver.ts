/**
 * Polls the link from Node's event loop. The addon's socket is not visible to libuv, and waiting in the addon would
 * stop the caller's JavaScript, so the link is polled: at every turn of the loop for `SPIN_TURNS` turns after
 * something was sent or came (a round trip to the Manager takes 20 to 100 us), then every millisecond while anything
 * is outstanding, then every `IDLE_MS` to notice that the Manager has gone. An idle driver does not keep the process
 * alive. Cost: one system call a poll.
 */

/** Turns of the event loop polled back to back after activity. */
const SPIN_TURNS = 200
/** Between polls while an answer or a slot is outstanding; the least that Node's timers do. */
const BUSY_MS = 1
/** Between polls while nothing is outstanding. */
const IDLE_MS = 100

export class Driver {
  readonly #poll: () => boolean
  readonly #outstanding: () => boolean
  #spins = 0
  #immediate: NodeJS.Immediate | null = null
  #timer: NodeJS.Timeout | null = null
  #stopped = false

  /** `poll` returns true when something came; `outstanding` says whether anything is awaited. */
  constructor(poll: () => boolean, outstanding: () => boolean) {
    this.#poll = poll
    this.#outstanding = outstanding
    this.#plan()
  }

  /** Something was sent: poll closely for a while. */
  hurry(): void {
    this.#spins = SPIN_TURNS
    if (this.#immediate === null) this.#plan()
  }

  stop(): void {
    this.#stopped = true
    this.#clear()
  }

  #clear(): void {
    if (this.#immediate !== null) clearImmediate(this.#immediate)
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#immediate = null
    this.#timer = null
  }

  #plan(): void {
    this.#clear()
    if (this.#stopped) return
    const awaited = this.#outstanding()
    if (awaited && this.#spins > 0) {
      this.#immediate = setImmediate(() => this.#turn())
      return
    }
    this.#timer = setTimeout(() => this.#turn(), awaited ? BUSY_MS : IDLE_MS)
    if (!awaited) this.#timer.unref()
  }

  #turn(): void {
    this.#spins = this.#poll() ? SPIN_TURNS : Math.max(0, this.#spins - 1)
    this.#plan()
  }
}
