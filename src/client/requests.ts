import type { MessageOf } from '../shared/layout/wire/messages.js'
import type { OperationResult } from './operations.js'

/** What callers ask and what they are answered, as the methods of OrbitClient take and give it. */

/** A message without its kind, which the method's name says. */
export type Fields<M> = Omit<M, 'kind'>

/** Who connects. */
export interface Greeting {
  readonly role: 'scheduler' | 'worker'
  readonly engine: string
  readonly engineVersion: string
  readonly adapterVersion?: string
}

export type Attached = Fields<MessageOf<'attached'>>
export type QueryRequest = Fields<MessageOf<'query'>>
/** An answer to a query that still loads, too. */
export type QueryAnswer = MessageOf<'ready' | 'loading' | 'miss' | 'busy'>
export type QueryResult = MessageOf<'ready' | 'miss' | 'busy'>
export type PrepareRequest = Fields<MessageOf<'prepare'>>
export type ClaimRequest = Fields<MessageOf<'claim'>>
export type PrepareAnswer = MessageOf<'prepared' | 'miss' | 'busy'>
export type WarmAnswer = MessageOf<'warming' | 'busy'>
export interface RestoreRequest {
  readonly lease: number
  readonly groups: MessageOf<'restore'>['groups']
}
export interface PublishRequest {
  readonly partialOk?: boolean
  readonly groups: MessageOf<'publish'>['groups']
}
/**
 * How the items were taken, and what was copied: `accepted` are copied from here, `present` were sealed already,
 * `assembling` are on their way from somebody else, `skipped` found no room.
 */
export interface PublishResult extends OperationResult {
  readonly accepted: number
  readonly present: number
  readonly assembling: number
  readonly skipped: number
}

export interface WaitOptions {
  readonly signal?: AbortSignal | undefined
}
export interface TransferOptions extends WaitOptions {
  /** The Manager touches the pages only after this resolves; when it rejects, the operation is cancelled. */
  readonly after?: PromiseLike<unknown> | undefined
}
