/**
 * What an outsider knows about one campaign: which publications were begun and which were acknowledged, under which
 * incarnation of the Manager. Judges every hit. A publication is in the ledger before its request is sent, so what is
 * not there was never published.
 */

/** One publication as its engine tells it: the first `blocks` keys of a prefix, all of one version. */
export interface Publication {
  readonly epoch: number
  readonly name: string
  readonly blocks: number
  readonly version: number
}

export class Ledger {
  /** Versions by key, of each incarnation. */
  readonly #begun = new Map<number, Map<string, Set<number>>>()
  readonly #wrong: string[] = []
  published = 0
  blocksChecked = 0

  begun({ epoch, name, blocks, version }: Publication): void {
    let keys = this.#begun.get(epoch)
    if (keys === undefined) {
      keys = new Map()
      this.#begun.set(epoch, keys)
    }
    for (let block = 0; block < blocks; block++) {
      const key = `${name}/${block}`
      const versions = keys.get(key)
      if (versions === undefined) keys.set(key, new Set([version]))
      else versions.add(version)
    }
  }

  acknowledged(publication: Publication): void {
    this.published++
    const last = `${publication.name}/${publication.blocks - 1}`
    if (!this.#begun.get(publication.epoch)?.get(last)?.has(publication.version)) {
      this.#wrong.push(`an acknowledgement of what nobody began: ${JSON.stringify(publication)}`)
    }
  }

  /** A restore brought blocks whose bytes are exactly those of `versions`: are these versions that may be served? */
  restored(epoch: number, name: string, versions: readonly number[]): void {
    for (const [block, version] of versions.entries()) {
      this.blocksChecked++
      if (this.#begun.get(epoch)?.get(`${name}/${block}`)?.has(version)) continue
      const from = [...this.#begun].find(([, keys]) => keys.get(`${name}/${block}`)?.has(version))?.[0]
      const whose = from === undefined ? 'which nobody published' : `of incarnation ${from}`
      this.#wrong.push(`${name}/${block} was served under incarnation ${epoch} with version ${version}, ${whose}`)
    }
  }

  /** Bytes that are no version of their key, or a hit of what was never published. */
  wrong(what: string): void {
    this.#wrong.push(what)
  }

  get wrongs(): readonly string[] {
    return this.#wrong
  }
}
