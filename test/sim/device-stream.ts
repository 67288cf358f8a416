import { crc32Strided } from '../../src/shared/codec/crc32.js'
import { CHECKSUM, COPY } from '../../src/shared/layout/descriptors.js'
import type { Actor, ActorHost } from './actor.js'
import type { Device, Move } from './device.js'
import type { CHECKSUM_FAULTS, COPY_FAULTS, FaultSite, Stream, Strike } from './faults.js'
import type { Flights } from './ledger.js'
import type { Pool } from './pool.js'
import { must } from './violation.js'

const EINVAL = -22
const EIO = -5

/** What a stream is made on. */
export interface StreamWorld {
  readonly host: ActorHost & { readonly exited: boolean }
  readonly device: Device
  readonly pool: Pool
  readonly flights: Flights
  readonly copyUs: Stream
  readonly copies: FaultSite<(typeof COPY_FAULTS)[number]>
  readonly checksums: FaultSite<(typeof CHECKSUM_FAULTS)[number]>
  /** A twin whose completions come before the bytes. */
  readonly early: boolean
  /** The device has failed for good: its process has to be started anew. */
  readonly failed: () => void
}

/** How long an early event of a broken device is ahead of its bytes. */
const EARLY_US = 150

/** One stream of the device: jobs complete in the order they were queued; bytes move at the moment of completion. */
export class DeviceStream {
  readonly #world: StreamWorld
  readonly #actor: Actor
  readonly #completed: (tag: number, result: number) => void
  #held: (() => void)[] = []
  #lastAtUs = 0
  #stalled = false
  inFlight = 0
  completions = 0
  duplicates = 0

  constructor(world: StreamWorld, actor: Actor, completed: (tag: number, result: number) => void) {
    this.#world = world
    this.#actor = actor
    this.#completed = completed
  }

  /** As Port.copy: 0, or -errno and no completion follows. */
  copy(tag: number, toPages: boolean, doubles: Float64Array, offset: number, count: number): number {
    const { device, copies } = this.#world
    const moves: Move[] = []
    for (let index = 0; index < count; index++) {
      const some = device.moves(doubles, offset + index * COPY.doubles)
      must(some !== null, 'X3', () => 'a copy names a template, granule or page that is not there')
      for (const move of some as Move[]) moves.push(move)
    }
    const strike = copies.strike()
    if (strike?.kind === 'copy-refused') return EINVAL
    if (strike?.kind === 'device-sticky' && !device.sticky) {
      device.sticky = true
      this.#world.failed()
    }
    const ranges = device.depart(moves, toPages, toPages ? 'copy to pages' : 'copy from pages')
    this.#queue(strike, tag, () => {
      const partial = strike?.kind === 'copy-partial'
      const failed = partial || strike?.kind === 'copy-failed' || device.sticky
      const landed = partial ? 1 + (strike.amount % moves.length) : failed ? 0 : moves.length
      device.land(moves, ranges, toPages, landed, partial && (strike.amount & 1) === 1)
      return failed ? EIO : 0
    })
    return 0
  }

  /** As Port.checksum. */
  checksum(
    tag: number,
    doubles: Float64Array,
    offset: number,
    count: number,
    results: Uint32Array,
    base: number,
  ): number {
    const { pool, flights, checksums, device } = this.#world
    const granules = Array.from({ length: count }, (_, index) => {
      const at = offset + index * CHECKSUM.doubles
      const start = doubles[at + CHECKSUM.poolOffsetBytes] as number
      const bytes = doubles[at + CHECKSUM.bytes] as number
      pool.mustBeOwned(start, bytes, 'checksum')
      return {
        start,
        bytes,
        segmentBytes: doubles[at + CHECKSUM.segmentBytes] as number,
        strideBytes: doubles[at + CHECKSUM.segmentStrideBytes] as number,
        range: flights.take('pool', start, start + bytes, false, 'checksum'),
      }
    })
    const strike = checksums.strike()
    this.#queue(strike, tag, () => {
      for (let index = 0; index < count; index++) {
        const { start, bytes, segmentBytes, strideBytes, range } = granules[index] as (typeof granules)[number]
        flights.land(range)
        const crc = crc32Strided(pool.bytes.subarray(start, start + bytes), segmentBytes, strideBytes)
        const flipped = strike?.kind === 'checksum-flipped' && index === strike.amount % count
        results[base + index] = flipped ? crc ^ 1 : crc
      }
      return strike?.kind === 'checksum-failed' || device.sticky ? EIO : 0
    })
    return 0
  }

  /** Phase two: what was held up for ever goes on. */
  unstall(): void {
    this.#stalled = false
    const held = this.#held
    this.#held = []
    for (const run of held) run()
  }

  #queue(strike: Strike | null, tag: number, land: () => number): void {
    const { host, copyUs, early } = this.#world
    this.inFlight++
    const kind = strike?.kind
    const lateUs = kind === 'copy-late' || kind === 'checksum-late' ? 500 + (strike?.amount ?? 0) * 40 : 0
    if (kind === 'copy-stalled') this.#stalled = true
    const run = () => {
      this.#lastAtUs = Math.max(this.#lastAtUs, host.clock.nowUs + copyUs.next() + lateUs)
      host.clock.after(this.#lastAtUs - host.clock.nowUs, () => {
        // A killed process is not gone before its device work is: until its exit is reported, bytes may still move.
        if (host.exited) return
        this.inFlight--
        if (early) {
          host.clock.after(EARLY_US, land)
          return this.#complete(tag, 0, false)
        }
        const result = land()
        if (host.alive) this.#complete(tag, result, kind === 'copy-duplicate')
      })
    }
    // A stream keeps its order: behind a job that never ends everything waits.
    if (this.#stalled) this.#held.push(run)
    else run()
  }

  #complete(tag: number, result: number, twice: boolean): void {
    this.completions++
    this.#actor.post(0, () => this.#completed(tag, result))
    if (!twice) return
    this.duplicates++
    this.#actor.post(1, () => this.#completed(tag, result))
  }
}
