import { closeSync, openSync, readSync } from 'node:fs'
import { Wiring } from '../../src/actors/runtime/wiring.js'
import { WRITEBACK_COUNT } from '../../src/actors/writeback/counters.js'
import * as writeback from '../../src/actors/writeback/messages.js'
import { WRITEBACK_ENTRY, WRITEBACK_LAYOUT, type WritebackParams } from '../../src/actors/writeback/params.js'
import { loadNative } from '../../src/binding/load.js'
import { IO_DEPTH } from '../../src/control/lane-plan.js'
import { MIB, PAGE_BYTES } from '../../src/shared/base/units.js'
import { WRITE } from '../../src/shared/layout/descriptors.js'
import { CounterReader } from '../../src/shared/rings/counter-page.js'
import { RandomOffsets } from './io-loop.js'
import { keepBusy } from './keep-busy.js'
import { BenchSeat, type LaneTalk } from './seat.js'

/** Bytes that a lane has in flight at once, as by default (`--ssd-write-inflight`). */
export const WINDOW_BYTES = 16 * MIB

/** Granules of one block; `apart`: in the pool each lies by itself, as it does where pages come and go. */
export interface BlockShape {
  readonly granules: number
  readonly bytes: number
  readonly apart: boolean
}

type Talk = LaneTalk<writeback.WritebackRequest, writeback.WritebackReply>

/** What one turn of a lane brought. */
export interface Sample {
  readonly blocksPerSecond: number
  /** Processor time of this process: lane, kernel and bench. */
  readonly cpuUsPerBlock: number
  readonly writesPerBlock: number
}

/** Blocks of one shape on their way from places in the pool to random places in the file. */
export class BlockLoad {
  readonly blockBytes: number
  readonly depth: number
  readonly file: number
  readonly #offsets: RandomOffsets
  readonly #doubles: Float64Array
  readonly #shape: BlockShape
  readonly #placeBytes: number

  constructor(shape: BlockShape, file: number, fileBytes: number) {
    const { granules, bytes, apart } = shape
    this.#shape = shape
    this.file = file
    this.blockBytes = granules * bytes
    this.depth = Math.floor(WINDOW_BYTES / this.blockBytes)
    // A page between two granules, where they lie apart.
    this.#placeBytes = apart ? Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES + PAGE_BYTES : bytes
    this.#offsets = new RandomOffsets(this.blockBytes, fileBytes)
    this.#doubles = new Float64Array(granules * WRITE.doubles)
  }

  /** Where block `place` has granule `granule` in the pool. */
  poolOffset(place: number, granule: number): number {
    return (place * this.#shape.granules + granule) * this.#placeBytes
  }

  request(place: number, fileOffsetBytes = this.#offsets.next()): writeback.WritebackRequest {
    const { granules, bytes } = this.#shape
    const doubles = this.#doubles
    for (let granule = 0; granule < granules; granule++) {
      doubles[granule * WRITE.doubles + WRITE.poolOffsetBytes] = this.poolOffset(place, granule)
      doubles[granule * WRITE.doubles + WRITE.bytes] = bytes
    }
    const list = { doubles, offset: 0, length: doubles.length }
    return { kind: 'write', job: place, file: this.file, fileOffsetBytes, list }
  }

  /** The block as it has to be in the file. */
  content(memory: Uint8Array, place: number): Buffer {
    const { granules, bytes } = this.#shape
    return Buffer.concat(
      Array.from({ length: granules }, (_, granule) => {
        const at = this.poolOffset(place, granule)
        return memory.subarray(at, at + bytes)
      }),
    )
  }
}

/** A writeback lane as the Manager starts it. */
export class WritebackSeat {
  readonly #seat: BenchSeat
  readonly #talk: Talk
  readonly #counts: CounterReader

  private constructor(seat: BenchSeat, talk: Talk, counts: CounterReader) {
    this.#seat = seat
    this.#talk = talk
    this.#counts = counts
  }

  static async start(pool: number, joinBytes: number): Promise<WritebackSeat> {
    const wiring = new Wiring()
    wiring.actor('manager', { series: [], histograms: [] })
    wiring.actor('writeback', WRITEBACK_LAYOUT)
    wiring.connectPair('manager', 'writeback')
    const seat = new BenchSeat(loadNative(), wiring, 'manager')
    const common = { client: 'manager', pool, depth: IO_DEPTH, io: 'uring', register: true } as const
    const params: WritebackParams = { ...common, windowBytes: WINDOW_BYTES, joinBytes }
    const talk = await seat.lane('writeback', WRITEBACK_ENTRY, params, writeback)
    return new WritebackSeat(seat, talk, new CounterReader(wiring.seat('writeback').counters, WRITEBACK_LAYOUT))
  }

  run(load: BlockLoad, ms: number): Sample {
    const cpu = process.cpuUsage()
    const writes = this.#writes()
    let blocks = 0
    const ask = (places: readonly number[]) => {
      for (const place of places) this.#talk.requests.send(load.request(place))
      blocks += places.length
    }
    const blocksPerSecond = keepBusy(load.depth, ms, ask, (ended) => this.#await(ended))
    const { user, system } = process.cpuUsage(cpu)
    return {
      blocksPerSecond,
      cpuUsPerBlock: (user + system) / blocks,
      writesPerBlock: (this.#writes() - writes) / blocks,
    }
  }

  /** Writes one block and compares it. */
  proves(load: BlockLoad, path: string, memory: Uint8Array): void {
    this.#talk.requests.send(load.request(1, load.blockBytes))
    this.#await([])
    const stored = Buffer.alloc(load.blockBytes)
    const fd = openSync(path, 'r')
    readSync(fd, stored, 0, stored.length, load.blockBytes)
    closeSync(fd)
    if (!stored.equals(load.content(memory, 1))) throw new Error('a block is not in the file as it was in the pool')
  }

  #await(ended: number[]): void {
    const before = ended.length
    this.#seat.await(
      this.#talk,
      (reply) => {
        if (reply.kind !== 'write-done' || reply.status !== 0)
          throw new Error(`a write ended: ${JSON.stringify(reply)}`)
        ended.push(reply.job)
      },
      () => ended.length > before,
    )
  }

  #writes(): number {
    return this.#counts.series(WRITEBACK_COUNT.writeOperations)
  }

  close(): Promise<void> {
    return this.#seat.close()
  }
}
