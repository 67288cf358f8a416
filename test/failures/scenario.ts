import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LaneDeath } from '../../src/index.js'
import { OrbitError, OrbitKV } from '../../src/index.js'
import { MIB } from '../../src/shared/base/units.js'
import { compute, keysOf, SMALL, wrongBlocks } from '../support/engine-content.js'

/**
 * One small life of an embedded runtime: open, register, publish four blocks, write them to the SSD, drop them from
 * DRAM, query, restore, compare every byte, close. It says how that ended, and what must not have been.
 */

export interface Setting {
  /** An empty folder; runs after one another may share it. */
  readonly folder: string
  readonly io: 'uring' | 'posix'
  readonly readRoute: 'dram' | 'uring'
  /** Under one every segment is a granule, and those of a block go in one write. It changes no byte: segments have no type. */
  readonly codec: 'none' | 'turboquant-4'
}

/** `whole`: everything came back. `less`: no error, and a miss or fewer blocks. */
export type Outcome = 'whole' | 'less' | 'error' | 'refused' | 'death'

export interface Ended {
  readonly outcome: Outcome
  /** Code of the error, or name of the lane. */
  readonly detail: string
  /** Broken promises; empty when all were kept. */
  readonly broken: readonly string[]
  readonly wrongBytes: number
}

const BLOCKS = 4
/** Their segments do not fill whole pages of the pool: in none do two adjoin, and a write of two has two spans. */
const APART = { ...SMALL, segmentBytes: 4608 } as const
const KEYS = keysOf('failures', BLOCKS)
const PUBLISHED = [0, 1, 2, 3]
const RESTORED = [9, 4, 12, 7]
const POISON = 0xa5
const CLOSE_MS = 20_000

class Run {
  readonly #setting: Setting
  readonly #broken: string[] = []
  #death: LaneDeath | null = null
  #wrong = 0
  #blocks = 0

  constructor(setting: Setting) {
    this.#setting = setting
  }

  async live(): Promise<Ended> {
    const { folder, io, readRoute, codec } = this.#setting
    let kv: OrbitKV
    try {
      kv = await OrbitKV.open({
        poolBytes: 8 * MIB,
        ssd: { paths: [join(folder, 'kv.dat')], capacityBytes: 16 * MIB },
        io,
        readRoute,
        storageCodec: codec,
        onDeath: (death) => {
          this.#death ??= death
        },
      })
    } catch (error) {
      return this.#end('refused', error)
    }
    let failure: unknown = null
    try {
      await this.#work(kv)
    } catch (error) {
      failure = error
    }
    try {
      const { unfinished, leaks } = await kv.close({ limitMs: CLOSE_MS })
      if (unfinished !== 0) this.#broken.push(`${unfinished} operations were open after close`)
      for (const [name, value] of Object.entries(leaks)) this.#broken.push(`gauge ${name} is ${value} at rest`)
    } catch (error) {
      failure ??= error
    }
    return this.#end('error', failure)
  }

  async #work(kv: OrbitKV): Promise<void> {
    const engine = await kv.register(this.#setting.codec === 'none' ? SMALL : APART)
    try {
      compute(engine, PUBLISHED)
      await engine.publish(KEYS, PUBLISHED)
      await kv.sync({ ssd: true })
      await kv.dropDram()
      engine.bytes.fill(POISON)
      const found = await engine.query(KEYS)
      const pages = RESTORED.slice(0, found.blocks)
      if (pages.length > 0) await engine.restore(found, pages)
      this.#wrong += wrongBlocks(engine, pages).length
      const others = Array.from({ length: SMALL.pages }, (_, page) => page).filter((page) => !pages.includes(page))
      const touched = others.filter((page) =>
        engine.segments(page).some((part) => part.some((byte) => byte !== POISON)),
      )
      if (touched.length > 0) this.#broken.push(`pages ${touched.join()} were written though nobody named them`)
      this.#blocks = found.blocks
    } finally {
      await engine.close()
    }
  }

  #end(kind: 'error' | 'refused', failure: unknown): Ended {
    const broken = this.#broken
    if (this.#wrong > 0) broken.push(`${this.#wrong} blocks came back with wrong bytes`)
    if (failure !== null && !isTyped(failure)) broken.push(`an error without a type: ${describe(failure)}`)
    const common = { broken, wrongBytes: this.#wrong }
    if (this.#death !== null) {
      if (this.#death.error === null) broken.push(`lane ${this.#death.name} died without saying why`)
      return { outcome: 'death', detail: `${this.#death.name}: ${describe(this.#death.error)}`, ...common }
    }
    if (failure !== null) return { outcome: kind, detail: describe(failure), ...common }
    return { outcome: this.#blocks === BLOCKS ? 'whole' : 'less', detail: `${this.#blocks} blocks`, ...common }
  }
}

/** What the documentation of OrbitKV promises of its errors. */
function isTyped(error: unknown): boolean {
  if (error instanceof OrbitError) return true
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).code === 'string'
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as NodeJS.ErrnoException
  return code === undefined ? `${error.name}: ${error.message}` : String(code)
}

export async function live(setting: Setting): Promise<Ended> {
  return await new Run(setting).live()
}

/** What a process holds that a runtime must give back. */
export interface Held {
  readonly fds: number
  readonly threads: number
}

export function held(): Held {
  const threads = /Threads:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  return { fds: readdirSync('/proc/self/fd').length, threads: Number(threads) }
}
