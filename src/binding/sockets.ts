export interface PeerReport {
  readonly uid: number
  readonly pid: number
}

/** Sockets, at a port. */
export interface SocketMethods {
  /** Sockets: binds, listens (mode 0600), accepts; completions carry `accepted`. Returns the listener number. Throws. */
  listen(path: string): number
  closeListener(listener: number): void
  /**
   * Connects to a listener; the connection then behaves as an accepted one (frames, descriptors, `closed`,
   * `peerExited` through the peer's pidfd). The caller checks peer(). Throws ENOENT, ECONNREFUSED, EACCES, EAGAIN.
   */
  connect(path: string): number
  /**
   * Takes over a connected UNIX stream socket, which the port closes, also when it throws (EBADF, ENOTSOCK, EPROTOTYPE,
   * ENOTCONN, EMFILE). The connection then behaves as an accepted one.
   */
  adopt(fd: number): number
  /** Credentials of a connection's peer. */
  peer(connection: number): PeerReport
  /** Copies the waiting frame (without its length word) into `target`; returns its bytes or -errno. */
  takeFrame(connection: number, target: Uint8Array): number
  /** Descriptors that came with the frame just taken, in order; they are the caller's now. */
  takeFds(connection: number): number[]
  /** Queues one frame (length word added) with descriptors (duplicated). -EAGAIN: the peer does not read (over 4 MiB queued). */
  send(connection: number, frame: Uint8Array, bytes: number, fds: readonly number[]): number
  /** Frees the number, also after `closed`. No completion follows, but one already reaped may name it. Idempotent. */
  closeConnection(connection: number): void
}

/** Sockets, at the addon. */
export interface SocketFunctions {
  /** Two connected UNIX stream sockets, for adopt(); each sees this process as its peer. The descriptors are the caller's. */
  socketPair(): [number, number]
}
