import { WordRows } from './word-rows.js'

/**
 * The index of the directory: a linear hash table of chains that grows one bucket at a time.
 *
 * There is never a rehash: whenever there are more entries than buckets, the bucket at `split` is divided in two, which
 * relinks the one or two entries of its chain. Removal unlinks; there are no tombstones. Buckets are not given back
 * (4 bytes each at the peak).
 *
 * A link is one uint32:   | tag: the rest, high bits of the hash | last: 1 bit | entry + 1: entryBits |
 * 0 is the end of a chain. `last` says that the entry it names has no successor, so that a lookup whose tag differs
 * ends without touching that entry's row. The link to the successor lies in the row itself (`linkWord`).
 */
export class Chains {
  readonly entryBits: number
  private readonly entryMask: number
  private readonly lastBit: number
  private readonly tagShift: number
  private readonly heads: WordRows
  private readonly rows: WordRows
  private readonly linkWord: number
  private readonly hashOf: (entry: number) => number
  /** Buckets = mask + 1 + split: those below `split`, and their new partners, use one more bit of the hash. */
  private mask: number
  private split = 0

  constructor(rows: WordRows, linkWord: number, hashOf: (entry: number) => number) {
    this.entryBits = 32 - Math.clz32(rows.rowsMax)
    this.entryMask = 2 ** this.entryBits - 1
    this.lastBit = 2 ** this.entryBits
    this.tagShift = this.entryBits + 1
    this.rows = rows
    this.linkWord = linkWord
    this.hashOf = hashOf
    this.mask = Math.min(1024, 2 ** (this.entryBits - 1)) - 1
    this.heads = new WordRows(1, 2 ** this.entryBits)
    this.heads.reach(this.mask)
  }

  get buckets(): number {
    return this.mask + 1 + this.split
  }

  get bytesReserved(): number {
    return this.heads.bytesReserved
  }

  /** The bucket of a hash. */
  bucket(hash: number): number {
    const bucket = hash & this.mask
    return bucket < this.split ? hash & (this.mask * 2 + 1) : bucket
  }

  /** First link of a bucket. */
  head(bucket: number): number {
    return this.heads.get(bucket, 0)
  }

  /** The part of a hash that links carry. */
  tag(hash: number): number {
    return hash >>> this.tagShift
  }

  tagOf(link: number): number {
    return link >>> this.tagShift
  }

  entryOf(link: number): number {
    return (link & this.entryMask) - 1
  }

  isLast(link: number): boolean {
    return (link & this.lastBit) !== 0
  }

  next(entry: number): number {
    return this.rows.get(entry, this.linkWord)
  }

  /** Puts `entry` at the head of its chain, then splits one bucket when there are more entries than buckets. */
  add(entry: number, hash: number, entries: number): void {
    const bucket = this.bucket(hash)
    this.heads.set(bucket, 0, this.pushed(entry, this.tag(hash), this.head(bucket)))
    if (entries > this.buckets && this.buckets < 2 ** this.entryBits) this.splitOne()
  }

  /** Takes `entry` out of its chain. False when it is not there. */
  remove(entry: number, hash: number): boolean {
    const bucket = this.bucket(hash)
    let before = -1
    let beforeBefore = -1
    for (let link = this.head(bucket); link !== 0; link = this.next(this.entryOf(link))) {
      const at = this.entryOf(link)
      if (at === entry) {
        const rest = this.next(entry)
        this.setLink(bucket, before, rest)
        if (rest === 0 && before !== -1) this.markLast(bucket, beforeBefore)
        return true
      }
      beforeBefore = before
      before = at
    }
    return false
  }

  private pushed(entry: number, tag: number, rest: number): number {
    this.rows.set(entry, this.linkWord, rest)
    return tag * 2 ** this.tagShift + (rest === 0 ? this.lastBit : 0) + entry + 1
  }

  private setLink(bucket: number, before: number, link: number): void {
    if (before === -1) this.heads.set(bucket, 0, link)
    else this.rows.set(before, this.linkWord, link)
  }

  /** Protected so that a test can plant a bug. */
  protected markLast(bucket: number, before: number): void {
    const link = before === -1 ? this.head(bucket) : this.next(before)
    this.setLink(bucket, before, (link | this.lastBit) >>> 0)
  }

  private splitOne(): void {
    const low = this.split
    const high = low + this.mask + 1
    this.heads.reach(high)
    let lowHead = 0
    let highHead = 0
    for (let link = this.head(low); link !== 0; ) {
      const entry = this.entryOf(link)
      const rest = this.next(entry)
      if ((this.hashOf(entry) & (this.mask + 1)) === 0) lowHead = this.pushed(entry, this.tagOf(link), lowHead)
      else highHead = this.pushed(entry, this.tagOf(link), highHead)
      link = rest
    }
    this.heads.set(low, 0, lowHead)
    this.heads.set(high, 0, highHead)
    this.split++
    if (this.split > this.mask) {
      this.mask = this.mask * 2 + 1
      this.split = 0
    }
  }
}
