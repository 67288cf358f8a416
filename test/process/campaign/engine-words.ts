import type { Publication } from './ledger.js'

/** What an engine at work says, a JSON object a line; the Python engine says the same. */
export type Word =
  /** It runs, and looks for a Manager. */
  | { readonly word: 'there' }
  /** Registered with the incarnation `epoch`. */
  | { readonly word: 'on'; readonly epoch: number }
  /** Before the request of a publication is sent. */
  | ({ readonly word: 'begun' } & Publication)
  | ({ readonly word: 'acknowledged' } & Publication)
  /** A restore ended well; each block has exactly the bytes of the version named. */
  | { readonly word: 'restored'; readonly epoch: number; readonly name: string; readonly versions: readonly number[] }
  | { readonly word: 'wrong'; readonly what: string }
  /** One operation has ended. */
  | { readonly word: 'step' }
  /** The Manager has gone, with the code of the typed error. */
  | { readonly word: 'off'; readonly code: string }
  | { readonly word: 'failed'; readonly error: string }
