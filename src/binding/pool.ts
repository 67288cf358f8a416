/** The pinned pool: anonymous, 2 MiB aligned, populated, not inherited by children, left out of core dumps. */
export interface PoolReport {
  readonly pool: number
  readonly bytes: number
  /** What the kernel gave, read back from smaps: bytes in huge pages. */
  readonly hugePageBytes: number
  readonly populateMs: number
}

/** The pinned pool, at the addon. */
export interface PoolFunctions {
  /**
   * Refuses (ENOMEM) when `bytes` is above what the cgroup limit or available memory allows; the message has both.
   * `pages`: `huge` by default; `ordinary` (4 KiB) is for benches, which compare on equal memory.
   */
  openPool(bytes: number, pages?: 'huge' | 'ordinary'): PoolReport
  closePool(pool: number): void
  /** Test and demo only: an external view of pool bytes for this thread. */
  poolView(pool: number, offset: number, bytes: number): Uint8Array
}
