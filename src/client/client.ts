import { CancelledError, ClosedError, OrbitError, ProtocolError } from '../shared/base/errors.js'
import type { MessageOf } from '../shared/layout/wire/messages.js'
import { Driver } from './driver.js'
import { Exchange, type Reply } from './exchange.js'
import { cancelledBy, errorOfReply } from './failures.js'
import type { Link, LinkEvent } from './link.js'
import { type Operation, type OperationResult, Operations } from './operations.js'
import { Queries } from './queries.js'
import { type Registered, type Registration, registerMessage } from './registration.js'
import type {
  Attached,
  ClaimRequest,
  Fields,
  PrepareAnswer,
  PrepareRequest,
  PublishRequest,
  PublishResult,
  QueryAnswer,
  QueryRequest,
  QueryResult,
  RestoreRequest,
  TransferOptions,
  WaitOptions,
  WarmAnswer,
} from './requests.js'
import { bySignal } from './waits.js'

/**
 * One session with a Manager process. Every wait ends by the caller's signal, except that of a restore or publication
 * which was submitted: its signal cancels it, and the promise settles when the Manager says that nothing touches the
 * pages any more, or when the Manager's process has ended. Not before: the pages are not the caller's until then.
 */
export class OrbitClient {
  readonly #link: Link
  readonly #exchange: Exchange
  readonly #driver: Driver
  readonly #queries: Queries
  readonly #closeFd: (fd: number) => void
  #welcome: Fields<MessageOf<'welcome'>> | null = null
  #operations: Operations | null = null
  #leaving: Promise<void> | null = null
  #ended = false

  /** Use connect(). */
  constructor(link: Link, closeFd: (fd: number) => void) {
    this.#link = link
    this.#closeFd = closeFd
    this.#exchange = new Exchange(link, () => this.#driver.hurry())
    this.#queries = new Queries(this.#exchange)
    this.#driver = new Driver(
      () => this.#poll(),
      () => this.#exchange.outstanding > 0 || (this.#operations?.outstanding ?? 0) > 0,
    )
  }

  /** What the Manager said in its WELCOME. */
  get welcome(): Fields<MessageOf<'welcome'>> {
    if (this.#welcome === null) throw new ProtocolError('not_greeted', 'Cannot read limits before the greeting')
    return this.#welcome
  }

  /** Operations that still own pages of the caller. */
  get operationsOutstanding(): number {
    return this.#operations?.outstanding ?? 0
  }

  /** First exchange of a connection; connect() does it. */
  async greet(hello: Fields<MessageOf<'hello'>>, options: WaitOptions = {}): Promise<void> {
    const { message } = await this.#exchange.ask({ kind: 'hello', ...hello }, ['welcome'], options)
    this.#welcome = message
  }

  /** Joins an instance as one of its ranks. The memory stays the caller's and must outlive unregister(). */
  async register(registration: Registration, options: WaitOptions = {}): Promise<Registered> {
    const register = registerMessage(registration, this.welcome.proto)
    const asked = { ...options, fds: register.fds }
    const { message, fds } = await this.#exchange.ask(register.message, ['registered'], asked)
    if (this.#ended || fds.length !== 3) {
      for (const fd of fds) this.#closeFd(fd)
      // The session has ended between the answer and this line.
      if (this.#exchange.closed !== null) throw this.#exchange.closed
      throw new ProtocolError('missing_descriptor', `Cannot open completion slots: ${fds.length} descriptors of 3 came`)
    }
    this.#operations = new Operations(this.#link.openSlots(fds, message.slots), message.slots)
    return message
  }

  /** Speaks for an instance whose workers have begun to register. */
  async attach(instanceId: Uint8Array, options: WaitOptions = {}): Promise<Attached> {
    const { message } = await this.#exchange.ask({ kind: 'attach', instanceId }, ['attached'], options)
    return message
  }

  /** Asks once and never waits for a device: a scheduler keeps the ticket of `loading` for its next step. */
  async beginQuery(query: QueryRequest, options: WaitOptions = {}): Promise<QueryAnswer> {
    return await this.#queries.beginQuery(query, options)
  }

  /** Asks again for a ticket. */
  async pollQuery(ticket: number, options: WaitOptions = {}): Promise<QueryAnswer> {
    return await this.#queries.pollQuery(ticket, options)
  }

  /** Asks until the answer is not `loading`. A signal ends the wait and gives the ticket back. */
  async query(query: QueryRequest, options: WaitOptions = {}): Promise<QueryResult> {
    return await this.#queries.query(query, options)
  }

  /**
   * Reads the blocks of a coming request into DRAM and holds them. Poll it, or send it again, at least once in the time
   * that `expiresInMs` says; then claim it with the same groups and keys, or release the ticket.
   */
  async prepare(request: PrepareRequest, options: WaitOptions = {}): Promise<PrepareAnswer> {
    return await this.#queries.prepare(request, options)
  }

  /** How far a preparation is; keeps it alive. @throws ProtocolError ticket_unknown once it has ended. */
  async pollPreparation(ticket: number, options: WaitOptions = {}): Promise<MessageOf<'prepared'>> {
    return await this.#queries.pollPreparation(ticket, options)
  }

  /**
   * Turns a preparation into the query of a request; answered and polled as beginQuery is.
   * @throws ProtocolError ticket_unknown when it has ended, ticket_mismatch for other keys: then query as usual.
   */
  async beginClaim(request: ClaimRequest, options: WaitOptions = {}): Promise<QueryAnswer> {
    return await this.#queries.beginClaim(request, options)
  }

  /** As beginClaim, until the answer is not `loading`. */
  async claim(request: ClaimRequest, options: WaitOptions = {}): Promise<QueryResult> {
    return await this.#queries.claim(request, options)
  }

  /** Hints that blocks may be of use soon. Nothing is held for the session and nothing is promised. */
  async warm(groups: QueryRequest['groups'], options: WaitOptions = {}): Promise<WarmAnswer> {
    return await this.#queries.warm(groups, options)
  }

  async release(what: 'lease' | 'ticket', id: number, options: WaitOptions = {}): Promise<void> {
    await this.#queries.release(what, id, options)
  }

  /** Returns how long the lease now lasts, in milliseconds. */
  async renew(lease: number, extendMs: number, options: WaitOptions = {}): Promise<number> {
    return await this.#queries.renew(lease, extendMs, options)
  }

  /**
   * Fills pages from a lease; all or nothing as the engine sees it. Settles at the end of the operation (see above).
   * @throws CorruptionError, IoError, CapacityError or ProtocolError with `firstFailed`; CancelledError; ClosedError.
   */
  async restore(request: RestoreRequest, options: TransferOptions = {}): Promise<OperationResult> {
    const { operation } = this.#submit('restore', ['ack'], options, (slot) => ({
      kind: 'restore',
      ...slot,
      ...request,
    }))
    return await operation.ended
  }

  /** Saves pages under their keys; the first publication of a key wins. Settles at the end of the operation. */
  async publish(request: PublishRequest, options: TransferOptions = {}): Promise<PublishResult> {
    const { operation, reply } = this.#submit('publish', ['publishing'], options, (slot) => ({
      kind: 'publish',
      ...slot,
      partialOk: request.partialOk ?? false,
      groups: request.groups,
    }))
    const result = await operation.ended
    const { accepted, present, assembling, skipped } = await reply
    return { ...result, accepted, present, assembling, skipped }
  }

  /**
   * Submits an operation. Refused or never sent, its line comes back at once and `ended` rejects; otherwise only its
   * slot, or the end of the Manager's process, ends it: also when the acknowledgement never comes.
   */
  #submit<K extends 'ack' | 'publishing'>(
    what: string,
    replies: readonly K[],
    { signal, after }: TransferOptions,
    request: (slot: { slot: number; generation: number; fence: number }) => MessageOf<'restore' | 'publish'>,
  ): { operation: Operation; reply: Promise<MessageOf<K>> } {
    if (signal?.aborted) throw cancelledBy(signal, what)
    const operations = this.#operations
    if (this.#exchange.closed !== null) throw this.#exchange.closed
    if (operations === null) throw new ProtocolError('instance_unknown', `Cannot ${what}: nothing is registered`)
    const opId = this.#exchange.takeRequest()
    const operation = operations.submit(opId)
    const { slot, generation } = operation
    let asked: Promise<Reply<K | 'error'>>
    try {
      const message = request({ slot, generation, fence: after === undefined ? 0 : 1 })
      asked = this.#exchange.ask(message, [...replies, 'error'], { request: opId })
    } catch (error) {
      operations.refuse(operation, error)
      throw error
    }
    // CANCEL follows its request on the same stream: the Manager knows the operation when it reads it.
    const cancel = () => this.#tell({ kind: 'cancel', slot, generation })
    signal?.addEventListener('abort', cancel, { once: true })
    operation.ended.catch(() => {}).finally(() => signal?.removeEventListener('abort', cancel))
    after?.then(() => operations.raiseFence(operation, 1), cancel)
    const reply = asked.then(({ message }) => {
      if (message.kind !== 'error') return message as MessageOf<K>
      const error = errorOfReply(message)
      operations.refuse(operation, error)
      throw error
    })
    reply.catch(() => {})
    return { operation, reply }
  }

  /** Sends what the caller does not wait for; a failure means that the session ended and took the interest along. */
  #tell(message: MessageOf<'cancel'>): void {
    try {
      this.#exchange.ask(message, ['ack']).catch(() => {})
    } catch (error) {
      if (!(error instanceof OrbitError)) throw error
    }
  }

  /** Waits until what was published before is findable; with `ssd` also until its writes ended. */
  async sync(ssd: boolean, options: WaitOptions = {}): Promise<void> {
    await this.#exchange.ask({ kind: 'sync', ssd }, ['ack'], options)
  }

  async dropDram(options: WaitOptions = {}): Promise<ReadonlyMap<string, number>> {
    return await this.#numbers({ kind: 'drop_dram' }, options)
  }

  async drain(options: WaitOptions = {}): Promise<void> {
    await this.#exchange.ask({ kind: 'drain' }, ['ack'], options)
  }

  async inspect(what: string, options: WaitOptions = {}): Promise<ReadonlyMap<string, number>> {
    return await this.#numbers({ kind: 'inspect', what }, options)
  }

  async stats(options: WaitOptions = {}): Promise<ReadonlyMap<string, number>> {
    return await this.#numbers({ kind: 'stats' }, options)
  }

  async ping(seq: number, options: WaitOptions = {}): Promise<Fields<MessageOf<'pong'>>> {
    const slotsOutstanding = this.operationsOutstanding
    const { message } = await this.#exchange.ask({ kind: 'ping', seq, slotsOutstanding }, ['pong'], options)
    return message
  }

  async #numbers(
    message: MessageOf<'drop_dram' | 'inspect' | 'stats'>,
    options: WaitOptions,
  ): Promise<ReadonlyMap<string, number>> {
    const { message: reply } = await this.#exchange.ask(message, ['numbers'], options)
    return new Map(reply.values.map(({ name, value }) => [name, value]))
  }

  /**
   * Leaves the instance: answered after everything of this session drained and its memory was unmapped. A signal ends
   * the wait, not the leaving; calling again waits again.
   */
  async unregister(options: WaitOptions = {}): Promise<void> {
    this.#leaving ??= this.#leave()
    await bySignal(this.#leaving, options.signal, 'unregister')
  }

  async #leave(): Promise<void> {
    try {
      await this.#exchange.ask({ kind: 'unregister' }, ['ack'])
      // Drained, so every line in use is terminal; one that is not was never admitted.
      this.#operations?.abandon(new ClosedError('session_closed', 'The session left before the operation was admitted'))
      this.#operations?.close()
      this.#operations = null
    } finally {
      this.#leaving = null
    }
  }

  /**
   * Unregisters when registered, then closes the connection. When the signal ends it early, the session stays open
   * with the pages that operations still own, and close() may be called again.
   */
  async close(options: WaitOptions = {}): Promise<void> {
    if (this.#operations !== null && this.#exchange.closed === null) {
      // A session that cannot leave in peace still waits for what runs.
      await this.unregister(options).catch((error: unknown) => {
        if (error instanceof CancelledError) throw error
      })
    }
    await bySignal(this.#operations?.idle() ?? Promise.resolve(), options.signal, 'close')
    this.#finish(new ClosedError('session_closed', 'The client closed its session'))
  }

  /** One look at the link and the slots. True when something came. */
  #poll(): boolean {
    let came = false
    this.#link.poll((event) => {
      came = true
      this.#take(event)
    })
    if (this.#operations?.poll()) came = true
    if (this.#exchange.closed !== null && this.operationsOutstanding === 0) this.#finish(this.#exchange.closed)
    return came
  }

  #take(event: LinkEvent): void {
    if (event.kind === 'frame') {
      try {
        for (const fd of this.#exchange.receive(event.frame, event.fds)) this.#closeFd(fd)
      } catch (error) {
        for (const fd of event.fds) this.#closeFd(fd)
        this.#disconnected(new ClosedError('session_closed', 'The Manager broke the protocol', {}, error))
      }
      return
    }
    const gone = new ClosedError('manager_gone', 'The Manager has gone: its connection ended')
    if (event.kind === 'closed') this.#disconnected(gone)
    else this.#finish(gone)
  }

  /** The stream ended. Pages stay with their operations until their slots or the process end. */
  #disconnected(error: OrbitError): void {
    this.#exchange.close(error)
  }

  #finish(error: OrbitError): void {
    if (this.#ended) return
    this.#ended = true
    this.#exchange.close(error)
    this.#operations?.abandon(error)
    this.#operations?.close()
    this.#operations = null
    this.#driver.stop()
    this.#link.close()
  }
}
