import { Storage } from '../../src/manager/storage/storage.js'
import type { Exhibit } from './exhibit.js'
import { simulation } from './simulated.js'

type Args = ConstructorParameters<typeof Storage>

/** Bugs of what is found: too early, too much, after a failure, or never. */
export const VISIBILITY: readonly Exhibit[] = [
  simulation({
    id: 'LMCache#4991',
    what: 'a store that failed leaves its key visible',
    where: 'Storage.abandon',
    shows: /V1|V2|a block is sealed when every item has landed/,
    twin: {
      storage: (...args: Args) =>
        new (class extends Storage {
          override abandon(entry: number): void {
            if (this.assembling(entry) && this.allocate(entry) === 'ok') this.seal(entry)
            else super.abandon(entry)
          }
        })(...args),
    },
  }),
  simulation({
    id: 'LMCache#2517',
    what: 'a key is found while its block is still being written',
    where: 'Storage.lookup',
    shows: /V1/,
    twin: {
      storage: (...args: Args) =>
        new (class extends Storage {
          #finding = false
          override published(entry: number): boolean {
            return super.published(entry) || (this.#finding && entry >= 0 && this.assembling(entry))
          }
          // Only who looks keys up is fooled: whoever publishes still sees what is there.
          override lookup(...keys: Parameters<Storage['lookup']>): number {
            this.#finding = true
            const found = super.lookup(...keys)
            this.#finding = false
            return found
          }
        })(...args),
    },
  }),
  simulation({
    id: 'LMCache#3207',
    what: 'a prefix that is there in part is taken for whole',
    where: 'Storage.lookup',
    shows: /: V1: /,
    twin: {
      storage: (...args: Args) =>
        new (class extends Storage {
          override lookup(classId: number, keys: Uint8Array, count: number, entries: Int32Array): number {
            if (super.lookup(classId, keys, count, entries) === 0) return 0
            // What is missing is taken from what is there.
            let last = entries.find((entry) => entry >= 0) as number
            for (let at = 0; at < count; at++) {
              if ((entries[at] as number) >= 0) last = entries[at] as number
              else entries[at] = last
            }
            return count
          }
        })(...args),
    },
  }),
  simulation({
    id: 'vllm#53498',
    what: 'what was stored is never found: it is in no lookup map',
    where: 'Storage.lookup',
    shows: /: D4: /,
    twin: {
      storage: (...args: Args) =>
        new (class extends Storage {
          override lookup(_: number, __: Uint8Array, count: number, entries: Int32Array): number {
            entries.fill(-1, 0, count)
            return 0
          }
        })(...args),
    },
  }),
  simulation({
    id: 'sglang#31881, sglang#30322',
    what: 'a read that was refused counts as a hit',
    where: 'Storage.fill',
    shows: /: V3: /,
    twin: {
      storage: (...args: Args) =>
        new (class extends Storage {
          override fill(...args: Parameters<Storage['fill']>): ReturnType<Storage['fill']> {
            const outcome = super.fill(...args)
            return outcome === 'no-memory' || outcome === 'draining' ? 'resident' : outcome
          }
        })(...args),
    },
  }),
]
