import { ERROR_CODES } from '../../shared/base/errors.js'
import { invariant, unreachable } from '../../shared/base/invariant.js'
import type { Tally } from '../../shared/base/tally.js'
import { NO_CRC, READ } from '../../shared/layout/descriptors.js'
import { OperationSlots } from '../../shared/scheduling/operation-slots.js'
import { HOST_READER_COUNT as COUNT, HOST_READER_HISTOGRAM as HISTOGRAM } from './counters.js'
import { CLIENT_READS_MAX, type HostReaderReply, type HostReaderRequest } from './messages.js'
import { ReadQueue } from './read-queue.js'

/**
 * What the host-reader does next. It owns the reads of its clients from their request to their reply.
 *
 *   queued ──turn of its client, a free place──▶ submitted ──completion──▶ answered
 *      └──────cancel-batch, stop──────────────────────────────────────────▶ answered (cancelled, draining)
 *
 * | state     | who may touch the pool bytes | leaves by                                             |
 * |-----------|------------------------------|-------------------------------------------------------|
 * | queued    | the client                   | submission, cancel-batch, stop                        |
 * | submitted | the device                   | its completion only: cancel and stop wait for it      |
 * | answered  | the client                   |                                                       |
 *
 * Invariants
 * - submitted reads never exceed `depth`; queued + submitted of one client never exceed CLIENT_READS_MAX;
 * - every read of a batch is answered exactly once, and never while it is submitted;
 * - a status of 0 means that every byte arrived and, where a checksum was given, matched it;
 * - while places are free nothing is queued; clients with queued reads take places in turns, each in its own order;
 * - a completion that names no submitted read is counted and changes nothing;
 * - after `stop` nothing is submitted; `stopped` is answered once, after the last reply.
 */
export class HostReaderMachine {
  readonly #tally: Tally
  readonly #queues: ReadQueue[]
  readonly #places: OperationSlots
  readonly #client: Int32Array
  readonly #batch: Float64Array
  readonly #index: Float64Array
  readonly #bytes: Float64Array
  readonly #askedUs: Float64Array
  readonly #submittedOf: Int32Array
  #nextClient = 0
  #nowUs = 0
  /** The client that asked to stop, or -1. */
  #stopper = -1
  #stopped = false

  constructor(options: HostReaderOptions, tally: Tally) {
    invariant(options.clients >= 1, 'a reader has a client', { clients: options.clients })
    this.#tally = tally
    this.#queues = Array.from({ length: options.clients }, () => new ReadQueue(CLIENT_READS_MAX))
    this.#places = new OperationSlots(options.depth)
    this.#client = new Int32Array(options.depth)
    this.#batch = new Float64Array(options.depth)
    this.#index = new Float64Array(options.depth)
    this.#bytes = new Float64Array(options.depth)
    this.#askedUs = new Float64Array(options.depth)
    this.#submittedOf = new Int32Array(options.clients)
  }

  /** Reads submitted and not ended. */
  get inFlight(): number {
    return this.#places.heldCount
  }

  /** Reads that wait for a place. */
  get queued(): number {
    return this.#queues.reduce((sum, queue) => sum + queue.length, 0)
  }

  get idle(): boolean {
    return this.inFlight === 0 && this.queued === 0
  }

  /** True once `stopped` was answered: nothing is owned and nothing follows. */
  get stopped(): boolean {
    return this.#stopped
  }

  step(input: HostReaderInput, out: HostReaderEffect[]): void {
    switch (input.kind) {
      case 'request':
        return this.#request(input.client, input.request, out)
      case 'io-completed':
        return this.#complete(input.tag, input.result, out)
      case 'tick':
        this.#nowUs = input.nowUs
        return
      default:
        return unreachable(input)
    }
  }

  #request(client: number, request: HostReaderRequest, out: HostReaderEffect[]): void {
    switch (request.kind) {
      case 'read-batch':
        return this.#enqueue(client, request, out)
      case 'cancel-batch':
        return this.#drop(client, request.batch, ERROR_CODES.cancelled, out)
      case 'stop':
        return this.#beginDrain(client, out)
      default:
        return unreachable(request)
    }
  }

  #enqueue(client: number, request: HostReaderRequest & { kind: 'read-batch' }, out: HostReaderEffect[]): void {
    const { list, batch } = request
    const queue = this.#queueOf(client)
    const count = list.length / READ.doubles
    invariant(Number.isInteger(count), 'a read list is a whole number of descriptors', { length: list.length })
    const outstanding = queue.length + (this.#submittedOf[client] as number) + count
    invariant(outstanding <= CLIENT_READS_MAX, 'a client keeps within its completion ring', { client, outstanding })
    for (let at = list.offset; at < list.offset + list.length; at += READ.doubles) {
      if (this.#stopper >= 0) {
        this.#answer(client, batch, list.doubles[at + READ.index] as number, ERROR_CODES.draining, 0, out)
      } else queue.push(list.doubles, at, batch, this.#nowUs)
    }
    this.#submitInTurns(out)
  }

  /** Answers every queued read of `batch` (of all batches when null) with `status`; submitted ones go on. */
  #drop(client: number, batch: number | null, status: number, out: HostReaderEffect[]): void {
    const queue = this.#queueOf(client)
    for (let left = queue.length; left > 0; left--) {
      const head = queue.head
      if (batch !== null && queue.batchAt(head) !== batch) queue.rotate()
      else {
        this.#tally.add(COUNT.readsCancelled, 1)
        this.#answer(client, queue.batchAt(head), queue.fieldAt(head, READ.index), status, 0, out)
        queue.shift()
      }
    }
    this.#gauge()
  }

  #beginDrain(client: number, out: HostReaderEffect[]): void {
    if (this.#stopper >= 0) return
    this.#stopper = client
    for (let each = 0; each < this.#queues.length; each++) this.#drop(each, null, ERROR_CODES.draining, out)
    this.#endWhenDrained(out)
  }

  #submitInTurns(out: HostReaderEffect[]): void {
    const clients = this.#queues.length
    for (let empty = 0; empty < clients && this.#places.freeCount > 0; ) {
      const client = this.#nextClient
      this.#nextClient = (client + 1) % clients
      const queue = this.#queueOf(client)
      if (queue.length === 0) empty += 1
      else {
        empty = 0
        this.#submit(client, queue, out)
      }
    }
    this.#gauge()
  }

  #submit(client: number, queue: ReadQueue, out: HostReaderEffect[]): void {
    const place = this.#places.acquire()
    const head = queue.head
    const bytes = queue.fieldAt(head, READ.bytes)
    const crc32 = queue.fieldAt(head, READ.crc32)
    this.#client[place] = client
    this.#batch[place] = queue.batchAt(head)
    this.#index[place] = queue.fieldAt(head, READ.index)
    this.#bytes[place] = bytes
    this.#askedUs[place] = queue.askedUsAt(head)
    this.#submittedOf[client] = (this.#submittedOf[client] as number) + 1
    out.push({
      kind: 'submit-read',
      tag: this.#places.tagOf(place),
      file: queue.fieldAt(head, READ.file),
      fileOffsetBytes: queue.fieldAt(head, READ.fileOffsetBytes),
      poolOffsetBytes: queue.fieldAt(head, READ.poolOffsetBytes),
      bytes,
      segmentBytes: queue.fieldAt(head, READ.segmentBytes),
      segmentStrideBytes: queue.fieldAt(head, READ.segmentStrideBytes),
      crc32: crc32 === NO_CRC ? 0 : crc32,
      verify: crc32 !== NO_CRC,
    })
    queue.shift()
    this.#tally.add(COUNT.readOperations, 1)
  }

  #complete(tag: number, result: number, out: HostReaderEffect[]): void {
    const place = this.#places.resolve(tag)
    if (place < 0) return this.#tally.add(COUNT.completionsStray, 1)
    const client = this.#client[place] as number
    const bytes = this.#bytes[place] as number
    const status = readStatus(result, bytes)
    this.#count(status, bytes, this.#nowUs - (this.#askedUs[place] as number))
    this.#places.release(place)
    this.#submittedOf[client] = (this.#submittedOf[client] as number) - 1
    const read = status === ERROR_CODES.ok ? bytes : 0
    this.#answer(client, this.#batch[place] as number, this.#index[place] as number, status, read, out)
    this.#submitInTurns(out)
    this.#endWhenDrained(out)
  }

  #answer(client: number, batch: number, index: number, status: number, bytes: number, out: HostReaderEffect[]): void {
    out.push({ kind: 'reply', client, reply: { kind: 'read-done', batch, index, status, bytes } })
  }

  #endWhenDrained(out: HostReaderEffect[]): void {
    if (this.#stopper < 0 || this.#stopped || this.inFlight > 0) return
    this.#stopped = true
    out.push({ kind: 'reply', client: this.#stopper, reply: { kind: 'stopped' } })
  }

  #queueOf(client: number): ReadQueue {
    const queue = this.#queues[client]
    invariant(queue !== undefined, 'a request comes from a known client', { client })
    return queue
  }

  #count(status: number, bytes: number, latencyUs: number): void {
    this.#tally.observe(HISTOGRAM.readDuration, latencyUs)
    if (status === ERROR_CODES.ok) {
      this.#tally.add(COUNT.readSuccesses, 1)
      this.#tally.add(COUNT.readBytes, bytes)
      return
    }
    this.#tally.add(COUNT.readFailures, 1)
    if (status === ERROR_CODES.checksum_mismatch) this.#tally.add(COUNT.checksumMismatches, 1)
    if (status === ERROR_CODES.io_short) this.#tally.add(COUNT.readsShort, 1)
  }

  #gauge(): void {
    this.#tally.set(COUNT.readsInFlight, this.inFlight)
    this.#tally.set(COUNT.readsQueued, this.queued)
  }
}

export interface HostReaderOptions {
  /** Inboxes, in order: the manager first, then the host-restore lanes. */
  readonly clients: number
  /** Reads in flight at once, a power of two: the depth of the port. */
  readonly depth: number
}

export type HostReaderInput =
  | { readonly kind: 'request'; readonly client: number; readonly request: HostReaderRequest }
  /** `result`: bytes read, or -errno; -EBADMSG says that the checksum differs. */
  | { readonly kind: 'io-completed'; readonly tag: number; readonly result: number }
  | { readonly kind: 'tick'; readonly nowUs: number }

export type HostReaderEffect =
  | {
      readonly kind: 'submit-read'
      readonly tag: number
      readonly file: number
      readonly fileOffsetBytes: number
      readonly poolOffsetBytes: number
      readonly bytes: number
      readonly segmentBytes: number
      readonly segmentStrideBytes: number
      readonly crc32: number
      readonly verify: boolean
    }
  | { readonly kind: 'reply'; readonly client: number; readonly reply: HostReaderReply }

/** Linux errno of a checksum that differs, as the port reports it. */
const EBADMSG = 74

/** What a read's result means. A short read is a failed read: nothing of it is handed on. */
function readStatus(result: number, bytes: number): number {
  if (result === bytes) return ERROR_CODES.ok
  if (result >= 0) return ERROR_CODES.io_short
  return result === -EBADMSG ? ERROR_CODES.checksum_mismatch : ERROR_CODES.io_read_failed
}
