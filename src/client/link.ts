/**
 * What the client needs of the outside: a connection that carries frames and descriptors, and the two files of
 * completion slots. native-link.ts binds them to the addon; tests bind them to a Manager in the same process.
 */

/** What came over a connection since the last poll. */
export type LinkEvent =
  /** `frame` is without its length word and valid inside the call; `fds` belong to the receiver. */
  | { readonly kind: 'frame'; readonly frame: Uint8Array; readonly fds: readonly number[] }
  /** The stream ended or failed. The peer process may live on and still write into this session's pages. */
  | { readonly kind: 'closed' }
  /** The peer process has ended, and every copy of it with it. */
  | { readonly kind: 'peer-exited' }

export interface Link {
  /** Queues a frame. Returns 0, or -errno: -EAGAIN when the peer does not read. */
  send(frame: Uint8Array, bytes: number, fds: readonly number[]): number
  /** Takes what has come, without waiting. */
  poll(each: (event: LinkEvent) => void): void
  /** Maps the slot files that REGISTERED brought, and closes their descriptors. */
  openSlots(fds: readonly number[], count: number): SlotLines
  close(): void
}

/** Fields of a finished line, as SlotLines.poll leaves them in its result. */
export const SLOT_RESULT = {
  doubles: 7,
  opId: 0,
  errorCode: 1,
  firstFailed: 2,
  bytes: 3,
  admitUs: 4,
  doneUs: 5,
  layers: 6,
} as const

/** The client's side of a slot table: see the methods of the same names in binding/slots.ts. */
export interface SlotLines {
  submit(index: number, generation: number, opId: number, fence: number): void
  raiseFence(index: number, fence: number): void
  free(index: number, generation: number): void
  /** The manager's word; a terminal one with `result` filled. Negative: ask again. */
  poll(index: number, result: Float64Array): number
  close(): void
}
