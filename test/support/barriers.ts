import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { testAddonEnvironment } from './test-addon-build.js'

/**
 * Points at which a process that runs the test build of the addon holds one of its threads, or ends it. In the order of
 * Point in native/testing/points.h. docs/internals/testing-points.md says where each stands.
 */
export const POINTS = [
  'ssd-read',
  'ssd-write',
  'write-error',
  'write-completion',
  'read-completion',
  'host-completion',
  'copy',
  'notification',
  'publish',
  'publish-acknowledgement',
  'restore',
] as const

export type PointName = (typeof POINTS)[number]

/** Generous: it is only ever waited out when a test fails. */
const REACHED_MS_MAX = 60_000
const POLL_MS = 2

/** The named points of one process, reached through a folder that only it and the test know. */
export class Barriers {
  /** An existing private folder of the test; absolute. */
  readonly folder: string
  readonly #tokens = new Map<PointName, string>()

  constructor(folder: string) {
    this.folder = folder
  }

  /** Variables that a process must be started with to have these points. */
  async environment(): Promise<Readonly<Record<string, string>>> {
    return { ...(await testAddonEnvironment()), ORBITKV_TEST_POINTS: this.folder }
  }

  /** The same as a command that stands before the process's own: a `launcher` of ManagerChild. */
  async launcher(): Promise<readonly string[]> {
    return ['env', ...Object.entries(await this.environment()).map(([name, value]) => `${name}=${value}`)]
  }

  /** From now on every thread that comes to `name` waits there, until resume(). */
  pause(name: PointName): void {
    this.#arm(name, '')
  }

  /** The first thread that comes to `name` throws out of the call it is in: a lane dies of that. */
  die(name: PointName): void {
    this.#arm(name, ' die')
  }

  /** Whether a thread has come to `name` since it was paused. */
  isReached(name: PointName): boolean {
    try {
      return readFileSync(this.#file(name, 'reached'), 'utf8') === this.#tokens.get(name)
    } catch {
      return false
    }
  }

  /** Waits until a thread has come to `name`. Rejects after a minute, and at once when `ended` settles first. */
  async reached(name: PointName, ended: Promise<unknown> = new Promise(() => {})): Promise<void> {
    let over = false
    const end = () => {
      over = true
    }
    ended.then(end, end)
    const deadlineMs = performance.now() + REACHED_MS_MAX
    while (!this.isReached(name)) {
      if (over && !this.isReached(name)) throw new Error(`the process ended before it came to ${name}`)
      if (performance.now() > deadlineMs) throw new Error(`nothing came to ${name} within ${REACHED_MS_MAX} ms`)
      await delay(POLL_MS)
    }
  }

  /** Lets everybody go on who waits at `name`, and opens it. */
  resume(name: PointName): void {
    rmSync(this.#file(name, 'pause'), { force: true })
  }

  isPaused(name: PointName): boolean {
    return existsSync(this.#file(name, 'pause'))
  }

  /** A token of its own for each pause: an answer to an earlier one does not count. Whole at once, so never half read. */
  #arm(name: PointName, order: '' | ' die'): void {
    const token = randomUUID()
    this.#tokens.set(name, token)
    const draft = this.#file(name, 'arming')
    writeFileSync(draft, token + order)
    renameSync(draft, this.#file(name, 'pause'))
  }

  #file(name: PointName, ending: string): string {
    return join(this.folder, `${name}.${ending}`)
  }
}
