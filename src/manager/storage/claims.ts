import { NONE } from '../../shared/directory/directory.js'
import { KEY_BYTES } from '../../shared/directory/key-hash.js'
import type { DramCache } from '../cache/dram-cache.js'
import type { Assemblies } from './assemblies.js'
import type { Entries } from './entries.js'
import type { Claim } from './ports.js'
import type { Victims } from './victims.js'
import type { WritePolicy } from './write-policy.js'

/** Where a publication of a key begins: the generation that is known already, or a new row of the directory. */
export class Claims {
  readonly #entries: Entries
  readonly #assemblies: Assemblies
  readonly #cache: DramCache
  readonly #policy: WritePolicy
  readonly #victims: Victims
  readonly #one = new Int32Array(1)

  constructor(entries: Entries, assemblies: Assemblies, cache: DramCache, policy: WritePolicy, victims: Victims) {
    this.#entries = entries
    this.#assemblies = assemblies
    this.#cache = cache
    this.#policy = policy
    this.#victims = victims
  }

  claim(classId: number, keys: Uint8Array, keyIndex: number, nowUs: number): Claim {
    this.#entries.directory.lookup(classId, keys.subarray(keyIndex * KEY_BYTES), 1, this.#one)
    const known = this.#one[0] as number
    if (known !== NONE) {
      this.#cache.saved(known)
      if (!this.#entries.published(known)) return { entry: known, outcome: 'assembling' }
      this.#policy.savedAgain(known, nowUs)
      return { entry: known, outcome: 'present' }
    }
    let entry = this.#entries.insert(classId, keys, keyIndex)
    if (entry === NONE && this.#victims.makeRoom()) entry = this.#entries.insert(classId, keys, keyIndex)
    if (entry === NONE) return { entry, outcome: 'directory-full' }
    this.#assemblies.begin(entry, nowUs)
    this.#cache.saved(entry)
    return { entry, outcome: 'new' }
  }
}
