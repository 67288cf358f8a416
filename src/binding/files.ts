/** One opened shard file. */
export interface ShardReport {
  readonly file: number
  readonly bytes: number
  /** Memory and offset alignment of direct I/O from statx, 0 when the filesystem does not say. */
  readonly directMemoryAlign: number
  readonly directOffsetAlign: number
  /** st_dev of the file, major:minor as text. */
  readonly device: string
  /** Filesystem magic as a number. */
  readonly filesystem: number
}

/** Shard files and locks, at the addon. */
export interface FileFunctions {
  /**
   * Creates a new inode beside `path` (random name, O_CREAT|O_EXCL|O_RDWR|O_DIRECT, 0600, no symlink in any
   * component), sizes it sparse, marks it as ours, and renames it over `path`, which must be absent or marked as ours.
   */
  openShard(path: string, bytes: number, direct: boolean): ShardReport
  /** Allocates a shard's whole length on the disk. Returns 0 or -errno; after an error the file is cut to nothing. */
  reserveShard(file: number): number
  /** Takes the advisory lock `path`; returns a lock number. Throws EWOULDBLOCK when another process holds it. */
  lockPath(path: string): number
  unlockPath(lock: number): void
  /** Closes when nothing in flight names it. */
  closeShard(file: number): void
}
