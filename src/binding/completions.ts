/** Completion kinds in word 3 of a completion: who reports. */
export const COMPLETION = {
  /** A read or write: result = bytes or -errno; aux = 0. -EBADMSG: the checksum differs. */
  io: 0,
  /**
   * A stream job of copies or checksums: result 0 or -errno (-EIO: the device refused this job; -ENODEV: the device is
   * lost for this process, see cudaProbe). aux: nanoseconds on the device of a timed stream, else 0.
   */
  stream: 1,
  /** A listener accepted: tag = listener, result = connection or -errno; aux = 0, or -errno: the peer's end is not seen. */
  accepted: 2,
  /** A whole frame waits: tag = connection, result = bytes of the frame without its length word. */
  frame: 3,
  /**
   * The stream ended: tag = connection, result = 0 (peer closed) or -errno (-EMSGSIZE: no such frame, -ECONNRESET:
   * inside a frame). The peer's process may live on: it is watched until closeConnection().
   */
  closed: 4,
  /** The peer process of a connection ended (pidfd): tag = connection. */
  peerExited: 5,
} as const

/** int32 words of one completion: [tag, result, aux, kind]. */
export const COMPLETION_WORDS = 4
