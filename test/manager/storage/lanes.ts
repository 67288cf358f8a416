import type { HostReaderRequest } from '../../../src/actors/host-reader/messages.js'
import type { WritebackRequest } from '../../../src/actors/writeback/messages.js'
import type { StoragePorts } from '../../../src/manager/storage/ports.js'
import type { Storage } from '../../../src/manager/storage/storage.js'
import { ERROR_CODES, type ErrorCode } from '../../../src/shared/base/errors.js'
import type { Tally } from '../../../src/shared/base/tally.js'
import { alignUp, SECTOR_BYTES } from '../../../src/shared/base/units.js'
import { READ, WRITE } from '../../../src/shared/layout/descriptors.js'
import { type List, listAt } from '../../../src/shared/layout/records.js'

/** One granule read that a fake lane has. */
export interface FakeRead {
  readonly store: number
  readonly batch: number
  readonly index: number
  readonly file: number
  readonly fileOffsetBytes: number
  readonly poolOffsetBytes: number
  readonly bytes: number
  readonly segmentBytes: number
  readonly crc32: number
}

/** One write job that a fake lane has. */
export interface FakeWrite {
  readonly writer: number
  readonly job: number
  readonly file: number
  readonly fileOffsetBytes: number
  readonly pieces: readonly { readonly poolOffsetBytes: number; readonly bytes: number }[]
}

/**
 * Lanes that answer when the test says so, over a pool and files that hold, instead of bytes, one token a granule at
 * its offset. A token says which generation and granule wrote it, so that a wrong byte shows.
 */
export class FakeLanes implements StoragePorts {
  readonly reads: FakeRead[] = []
  readonly writes: FakeWrite[] = []
  readonly windows = new Map<number, number>()
  readonly filledCalls: { waiter: number; entry: number; status: ErrorCode }[] = []
  readonly syncedCalls: number[] = []
  readonly pool = new Map<number, string>()
  readonly disk = new Map<string, string>()
  /** Where a codec is at work: how long the granule of a token is. What is read or written in another length is torn. */
  readonly lengths = new Map<string, number>()
  readBatches = 0

  read(store: number, request: HostReaderRequest): void {
    if (request.kind !== 'read-batch') throw new Error(`unexpected ${request.kind}`)
    this.readBatches++
    const { list, batch } = request
    for (let at = 0; at < list.length; at += READ.doubles) {
      this.reads.push({
        store,
        batch,
        index: listAt(list, at + READ.index),
        file: listAt(list, at + READ.file),
        fileOffsetBytes: listAt(list, at + READ.fileOffsetBytes),
        poolOffsetBytes: listAt(list, at + READ.poolOffsetBytes),
        bytes: listAt(list, at + READ.bytes),
        segmentBytes: listAt(list, at + READ.segmentBytes),
        crc32: listAt(list, at + READ.crc32),
      })
    }
  }

  write(writer: number, request: WritebackRequest): void {
    if (request.kind === 'set-window') this.windows.set(writer, request.bytes)
    else if (request.kind === 'write') {
      const { job, file, fileOffsetBytes } = request
      this.writes.push({ writer, job, file, fileOffsetBytes, pieces: piecesOf(request.list) })
    }
  }

  filled(waiter: number, entry: number, status: ErrorCode): void {
    this.filledCalls.push({ waiter, entry, status })
  }

  synced(waiter: number): void {
    this.syncedCalls.push(waiter)
  }

  /** Ends read `at` of those outstanding: the granule lands in the pool when all is well. */
  endRead(storage: Storage, at: number, status: ErrorCode = 'ok', short = 0): FakeRead {
    const [read] = this.reads.splice(at, 1)
    if (read === undefined) throw new Error(`no read ${at}`)
    // Even a read that fails may have written its destination.
    this.pool.set(read.poolOffsetBytes, 'torn')
    if (status === 'ok' && short === 0) {
      const token = this.disk.get(`${read.file}:${read.fileOffsetBytes}`) ?? 'nothing'
      const whole = (this.lengths.get(token) ?? read.segmentBytes) === read.segmentBytes
      this.pool.set(read.poolOffsetBytes, whole ? token : 'torn')
    }
    storage.readDone(read.store, {
      kind: 'read-done',
      batch: read.batch,
      index: read.index,
      status: ERROR_CODES[status],
      bytes: status === 'ok' ? read.bytes - short : 0,
    })
    return read
  }

  /** Ends write `at`: what the pool holds at this moment is what the file holds from now on, in part when it fails. */
  endWrite(storage: Storage, at: number, status: ErrorCode = 'ok', short = 0): FakeWrite {
    const [write] = this.writes.splice(at, 1)
    if (write === undefined) throw new Error(`no write ${at}`)
    let fileOffsetBytes = write.fileOffsetBytes
    let bytes = 0
    for (const piece of write.pieces) {
      const found = status === 'ok' ? (this.pool.get(piece.poolOffsetBytes) ?? 'nothing') : 'torn'
      const length = this.lengths.get(found)
      const whole = length === undefined || alignUp(length, SECTOR_BYTES) === piece.bytes
      const token = whole ? found : 'torn'
      this.disk.set(`${write.file}:${fileOffsetBytes}`, token)
      fileOffsetBytes += piece.bytes
      bytes += piece.bytes
    }
    storage.writeDone(write.writer, {
      kind: 'write-done',
      job: write.job,
      status: ERROR_CODES[status],
      bytes: bytes - short,
      latencyUs: 1,
    })
    return write
  }

  endAll(storage: Storage): void {
    while (this.reads.length + this.writes.length > 0) {
      while (this.reads.length > 0) this.endRead(storage, 0)
      while (this.writes.length > 0) this.endWrite(storage, 0)
    }
  }
}

function piecesOf(list: List): { poolOffsetBytes: number; bytes: number }[] {
  const pieces = []
  for (let at = 0; at < list.length; at += WRITE.doubles) {
    pieces.push({
      poolOffsetBytes: listAt(list, at + WRITE.poolOffsetBytes),
      bytes: listAt(list, at + WRITE.bytes),
    })
  }
  return pieces
}

/** Counters and gauges by position. */
export class FakeTally implements Tally {
  readonly counts: number[] = []
  readonly observed: number[] = []

  add(counter: number, amount: number): void {
    if (amount < 0) throw new Error(`counter ${counter} went back`)
    this.counts[counter] = this.of(counter) + amount
  }

  set(gauge: number, value: number): void {
    this.counts[gauge] = value
  }

  observe(histogram: number): void {
    this.observed[histogram] = (this.observed[histogram] ?? 0) + 1
  }

  of(counter: number): number {
    return this.counts[counter] ?? 0
  }
}
