/** The two sealed memfds of a session's completion slots. */
export interface SlotTableReport {
  readonly slots: number
  /** Descriptor of the client's words: the client writes, we read. */
  readonly clientFd: number
  /** Descriptor of the manager's words: read-only for the client (future writes sealed). */
  readonly managerFd: number
  /** Descriptor of the eventfd that hints at completions. */
  readonly eventFd: number
}

/** The manager's side of slot tables, at the addon. */
export interface SlotFunctions {
  /** The three descriptors are the caller's: send them, then close them. At most 65,536 slots. */
  createSlots(count: number): SlotTableReport
  /** The client's word of a slot: generation * 65536 + state, acquire load; -1 when it is 2^53 or more (a broken client). */
  slotClientWord(slots: number, index: number): number
  /** The client's fence word of a slot (acquire load); -1 when it is 2^53 or more. */
  slotFence(slots: number, index: number): number
  /** Our own word of a slot (acquire load), whichever thread wrote it; 0 before the first. */
  slotManagerWord(slots: number, index: number): number
  /**
   * Moves the manager's word of a slot to (generation, state) with a release store; payload words are untouched.
   * Throws EOVERFLOW for a generation of 2^37 or more, ENOENT for no such slot; so does slotFinish.
   */
  slotState(slots: number, index: number, generation: number, state: number): void
  /** Writes payload (with the client's op id) and CRC, then the word with a release store, then the eventfd. Terminal states only. */
  slotFinish(
    slots: number,
    index: number,
    generation: number,
    state: number,
    errorCode: number,
    firstFailed: number,
    bytes: number,
    admitUs: number,
    doneUs: number,
  ): void
  releaseSlots(slots: number): void
}

/** The client's side of slot tables, at the addon. */
export interface ClientSlotFunctions {
  /**
   * The client's side of a slot table: maps the client's words read-write and the manager's words read-only, after
   * checking that both are memfds sealed against shrink and grow and hold `count` lines (throws EPERM, EINVAL).
   * The descriptors stay the caller's. Returns a number of its own kind for the four calls below.
   */
  openSlots(clientFd: number, managerFd: number, count: number): number
  /** Writes op id and fence of a line, then the word (generation, SUBMITTED) with a release store. */
  slotSubmit(slots: number, index: number, generation: number, opId: number, fence: number): void
  /** Raises the fence word of a line with a release store: pages may be touched from `fence` on. */
  slotRaiseFence(slots: number, index: number, fence: number): void
  /** Sets the client's word of a line to (generation, FREE) with a release store. */
  slotFree(slots: number, index: number, generation: number): void
  /**
   * Acquire-loads the manager's word. A terminal one: copies the line, re-reads the word and checks the CRC, a few
   * times over; then fills `result` with [opId, errorCode, firstFailed, bytes, admitUs, doneUs, layers] and returns
   * the word. Otherwise returns the word and leaves `result` alone. -EAGAIN: word and payload did not agree.
   */
  slotPoll(slots: number, index: number, result: Float64Array): number
  closeSlots(slots: number): void
}
