import { OrbitError } from '../shared/base/errors.js'
import type { MessageOf, WireReply } from '../shared/layout/wire/messages.js'
import type { Exchange } from './exchange.js'
import type {
  ClaimRequest,
  PrepareAnswer,
  PrepareRequest,
  QueryAnswer,
  QueryRequest,
  QueryResult,
  WaitOptions,
  WarmAnswer,
} from './requests.js'
import { pause } from './waits.js'

const QUERY_REPLIES = ['ready', 'loading', 'miss', 'busy'] as const
/** Between polls of a query that loads: doubles from the first to the last. */
const POLL_FIRST_MS = 1
const POLL_LAST_MS = 8

/**
 * What a session asks of the directory: queries, preparations, hints, and the leases and tickets they give. Invariant:
 * what is granted to a caller that has left goes back to the Manager.
 */
export class Queries {
  readonly #exchange: Exchange

  constructor(exchange: Exchange) {
    this.#exchange = exchange
  }

  /** Asks once and never waits for a device: a scheduler keeps the ticket of `loading` for its next step. */
  async beginQuery(query: QueryRequest, options: WaitOptions = {}): Promise<QueryAnswer> {
    const { message } = await this.#exchange.ask({ kind: 'query', ...query }, QUERY_REPLIES, {
      ...options,
      abandoned: (reply) => this.#handBack(reply),
    })
    return message
  }

  /** Asks again for a ticket. */
  async pollQuery(ticket: number, options: WaitOptions = {}): Promise<QueryAnswer> {
    const { message } = await this.#exchange.ask({ kind: 'query_poll', ticket }, QUERY_REPLIES, {
      ...options,
      abandoned: (reply) => this.#handBack(reply),
    })
    return message
  }

  /** Asks until the answer is not `loading`. A signal ends the wait and gives the ticket back. */
  async query(query: QueryRequest, options: WaitOptions = {}): Promise<QueryResult> {
    return await this.#untilAnswered(await this.beginQuery(query, options), options)
  }

  async #untilAnswered(first: QueryAnswer, options: WaitOptions): Promise<QueryResult> {
    let answer = first
    for (let waitMs = POLL_FIRST_MS; answer.kind === 'loading'; waitMs = Math.min(2 * waitMs, POLL_LAST_MS)) {
      const { ticket } = answer
      try {
        await pause(waitMs, options.signal)
        answer = await this.pollQuery(ticket, options)
      } catch (error) {
        if (options.signal?.aborted) this.#handBack({ kind: 'loading', ticket })
        throw error
      }
    }
    return answer
  }

  /**
   * Reads the blocks of a coming request into DRAM and holds them. Poll it, or send it again, at least once in the time
   * that `expiresInMs` says; then claim it with the same groups and keys, or release the ticket.
   */
  async prepare(request: PrepareRequest, options: WaitOptions = {}): Promise<PrepareAnswer> {
    const { message } = await this.#exchange.ask({ kind: 'prepare', ...request }, ['prepared', 'miss', 'busy'], {
      ...options,
      abandoned: (reply) => this.#handBack(reply),
    })
    return message
  }

  /** How far a preparation is; keeps it alive. @throws ProtocolError ticket_unknown once it has ended. */
  async pollPreparation(ticket: number, options: WaitOptions = {}): Promise<MessageOf<'prepared'>> {
    const { message } = await this.#exchange.ask({ kind: 'prepare_poll', ticket }, ['prepared'], options)
    return message
  }

  /**
   * Turns a preparation into the query of a request; answered and polled as beginQuery is.
   * @throws ProtocolError ticket_unknown when it has ended, ticket_mismatch for other keys: then query as usual.
   */
  async beginClaim(request: ClaimRequest, options: WaitOptions = {}): Promise<QueryAnswer> {
    const { message } = await this.#exchange.ask({ kind: 'claim', ...request }, QUERY_REPLIES, {
      ...options,
      abandoned: (reply) => this.#handBack(reply),
    })
    return message
  }

  /** As beginClaim, until the answer is not `loading`. */
  async claim(request: ClaimRequest, options: WaitOptions = {}): Promise<QueryResult> {
    return await this.#untilAnswered(await this.beginClaim(request, options), options)
  }

  /** Hints that blocks may be of use soon. Nothing is held for the session and nothing is promised. */
  async warm(groups: QueryRequest['groups'], options: WaitOptions = {}): Promise<WarmAnswer> {
    const { message } = await this.#exchange.ask({ kind: 'warm', groups }, ['warming', 'busy'], options)
    return message
  }

  async release(what: 'lease' | 'ticket', id: number, options: WaitOptions = {}): Promise<void> {
    await this.#exchange.ask({ kind: 'release', what, id }, ['ack'], options)
  }

  /** Returns how long the lease now lasts, in milliseconds. */
  async renew(lease: number, extendMs: number, options: WaitOptions = {}): Promise<number> {
    const { message } = await this.#exchange.ask({ kind: 'renew', lease, extendMs }, ['renewed'], options)
    return message.expiresInMs
  }

  /** What an abandoned query was granted goes back. */
  #handBack(reply: WireReply): void {
    if (reply.kind === 'ready') this.#tell({ kind: 'release', what: 'lease', id: reply.lease })
    if (reply.kind === 'loading' || reply.kind === 'prepared')
      this.#tell({ kind: 'release', what: 'ticket', id: reply.ticket })
  }

  /** Sends what the caller does not wait for; a failure means that the session ended and took the interest along. */
  #tell(message: MessageOf<'release'>): void {
    try {
      this.#exchange.ask(message, ['ack']).catch(() => {})
    } catch (error) {
      if (!(error instanceof OrbitError)) throw error
    }
  }
}
