import type { DramWorkerRequest } from '../../src/actors/dram-worker/messages.js'
import type { HostReaderRequest } from '../../src/actors/host-reader/messages.js'
import type { HostRestoreRequest } from '../../src/actors/host-restore/messages.js'
import type { SsdWorkerRequest } from '../../src/actors/ssd-worker/messages.js'
import type { WritebackRequest } from '../../src/actors/writeback/messages.js'
import { alignUp, PAGE_BYTES } from '../../src/shared/base/units.js'
import { CHECKSUM, COPY, NO_OFFSET, READ, SOURCE, TARGET, WRITE } from '../../src/shared/layout/descriptors.js'
import { type List, listAt } from '../../src/shared/layout/records.js'
import { Engagements } from './ledger.js'
import type { Pool, WatchedPool } from './pool.js'
import type { Shard } from './shard.js'
import { must } from './violation.js'

interface Piece {
  readonly at: Engagements
  readonly offsetBytes: number
  readonly bytes: number
  readonly writes: boolean
}

/**
 * All memory and file bytes that the Manager has named to a lane in a job that the lane has not answered: from the
 * moment the request is sent to the moment before the Manager learns of its end.
 */
export class Engaged {
  readonly pool: Engagements
  readonly #pool: Pool
  readonly #shards: ReadonlyMap<number, Shard>
  readonly #jobs = new Map<string, Piece[]>()

  constructor(pool: Pool, shards: ReadonlyMap<number, Shard>) {
    this.#pool = pool
    this.#shards = shards
    this.pool = new Engagements('the pool', pool.bytes.length, 4096)
  }

  get count(): number {
    return this.#jobs.size
  }

  reads(store: number, request: HostReaderRequest): void {
    if (request.kind !== 'read-batch') return
    each(request.list, READ.doubles, (field) => {
      const bytes = field(READ.bytes)
      this.#take(`r${store}/${request.batch}/${field(READ.index)}`, [
        { at: this.pool, offsetBytes: field(READ.poolOffsetBytes), bytes, writes: true },
        this.#inFile(field(READ.file), field(READ.fileOffsetBytes), bytes, false),
      ])
    })
  }

  writes(writer: number, request: WritebackRequest): void {
    if (request.kind !== 'write') return
    const pieces: Piece[] = []
    let offsetBytes = request.fileOffsetBytes
    each(request.list, WRITE.doubles, (field) => {
      const bytes = field(WRITE.bytes)
      pieces.push({ at: this.pool, offsetBytes: field(WRITE.poolOffsetBytes), bytes, writes: false })
      pieces.push(this.#inFile(request.file, offsetBytes, bytes, true))
      offsetBytes += bytes
    })
    this.#take(`w${writer}/${request.job}`, pieces)
  }

  copies(device: number, request: DramWorkerRequest): void {
    if (request.kind !== 'save' && request.kind !== 'restore' && request.kind !== 'checksum') return
    const pieces: Piece[] = []
    const checksum = request.kind === 'checksum'
    each(request.list, checksum ? CHECKSUM.doubles : COPY.doubles, (field) => {
      const offsetBytes = field(checksum ? CHECKSUM.poolOffsetBytes : COPY.poolOffsetBytes)
      pieces.push(this.#allocation(offsetBytes, request.kind === 'save'))
    })
    this.#take(`d${device}/${request.job}`, pieces)
  }

  restores(device: number, request: HostRestoreRequest): void {
    if (request.kind === 'restore') this.#take(`h${device}/${request.job}`, this.#sources(request.list))
  }

  /**
   * A restore holds its sources; a write its extents (`s`), and until its copies have ended its memory (`sc`); so does an
   * encoding, whose extents are named later.
   */
  stagings(device: number, request: SsdWorkerRequest): void {
    if (request.kind === 'restore') this.#take(`s${device}/${request.job}`, this.#sources(request.list))
    if (request.kind === 'encode') {
      const memory: Piece[] = []
      each(request.list, COPY.doubles, (field) => {
        memory.push(this.#allocation(field(COPY.poolOffsetBytes), true))
      })
      this.#take(`sc${device}/${request.job}`, memory)
      this.#take(`s${device}/${request.job}`, [])
    }
    if (request.kind === 'write-codes') this.#take(`s${device}/${request.job}`, this.#extents(request.list))
    if (request.kind !== 'write') return
    const memory: Piece[] = []
    each(request.list, TARGET.doubles, (field) => {
      memory.push(this.#allocation(field(TARGET.poolOffsetBytes), true))
    })
    this.#take(`sc${device}/${request.job}`, memory)
    this.#take(`s${device}/${request.job}`, this.#extents(request.list))
  }

  #extents(list: List): Piece[] {
    const extents: Piece[] = []
    each(list, TARGET.doubles, (field) => {
      const start = field(TARGET.fileOffsetBytes)
      const end = alignUp(start + field(TARGET.bytes), PAGE_BYTES)
      extents.push(this.#inFile(field(TARGET.file), start, end - start, true))
    })
    return extents
  }

  #sources(list: List): Piece[] {
    const pieces: Piece[] = []
    each(list, SOURCE.doubles, (field) => {
      const offsetBytes = field(SOURCE.poolOffsetBytes)
      const inDram = offsetBytes !== NO_OFFSET
      if (inDram) pieces.push(this.#allocation(offsetBytes, false))
      else pieces.push(this.#inFile(field(SOURCE.file), field(SOURCE.fileOffsetBytes), field(SOURCE.bytes), false))
    })
    return pieces
  }

  /** The lane has answered: the Manager may do what it likes with the bytes. Once a job; returns where its pieces began. */
  end(job: string): number[] {
    const pieces = this.#jobs.get(job)
    // A reader answers a cancelled read once; a completion made up by a fault never gets here.
    must(pieces !== undefined, 'O5', () => `${job} is answered twice, or was never asked`)
    this.#jobs.delete(job)
    for (const { at, offsetBytes, bytes, writes } of pieces ?? []) at.engage(offsetBytes, bytes, writes, -1)
    return (pieces ?? []).map(({ offsetBytes }) => offsetBytes)
  }

  #take(job: string, pieces: Piece[]): void {
    for (const { at, offsetBytes, bytes, writes } of pieces) at.engage(offsetBytes, bytes, writes, 1)
    const known = this.#jobs.get(job)
    if (known === undefined) this.#jobs.set(job, pieces)
    else known.push(...pieces)
  }

  #allocation(offsetBytes: number, writes: boolean): Piece {
    this.#pool.mustBeOwned(offsetBytes, 1, 'a job')
    return { at: this.pool, offsetBytes, bytes: (this.#pool.allocator as WatchedPool).bytesAt(offsetBytes), writes }
  }

  /** What is engaged of a file. */
  file(file: number): Engagements {
    const shard = this.#shards.get(file)
    must(shard !== undefined, 'X3', () => `file ${file} does not exist`)
    return (shard as Shard).engaged
  }

  #inFile(file: number, offsetBytes: number, bytes: number, writes: boolean): Piece {
    return { at: this.file(file), offsetBytes, bytes, writes }
  }
}

function each(list: List, doubles: number, take: (field: (name: number) => number) => void): void {
  for (let at = 0; at < list.length; at += doubles) take((name) => listAt(list, at + name))
}
