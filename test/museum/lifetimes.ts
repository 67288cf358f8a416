import type { CancelOutcome } from '../../src/manager/storage/ports.js'
import { Storage } from '../../src/manager/storage/storage.js'
import type { Exhibit } from './exhibit.js'
import { simulation } from './simulated.js'

type Args = ConstructorParameters<typeof Storage>

/** Bugs of who owns what, and until when. */
export const LIFETIMES: readonly Exhibit[] = [
  simulation({
    id: 'sglang#28468',
    what: 'memory is freed while copies into it are in flight',
    where: 'Entries.hide',
    shows: /O2/,
    twin: {
      entries: (Base) =>
        class extends Base {
          override hide(entry: number): void {
            const inUse = this.directory.interests(entry) > 0
            super.hide(entry)
            if (inUse && this.directory.dramSlot(entry) >= 0 && !this.resident(entry)) this.deallocate(entry)
          }
        },
    },
  }),
  simulation({
    id: 'FlexKV#236',
    what: 'cancelling what was never submitted gives nothing back',
    where: 'Storage.cancelFill',
    shows: /D1/,
    twin: {
      storage: (...args: Args) =>
        new (class extends Storage {
          override cancelFill(entry: number, waiter: number): CancelOutcome {
            super.cancelFill(entry, waiter)
            return 'draining'
          }
        })(...args),
    },
  }),
  simulation({
    id: 'PegaFlow#399',
    what: 'what an owner that died had leased stays leased',
    where: 'LeaseTable.release',
    shows: /: O1: .*leases/,
    twin: {
      context: (context) => {
        context.leases.release = () => 'ok'
      },
    },
  }),
  simulation({
    id: 'LMCache#3770',
    what: 'blocks of all namespaces but one are locked with a key and unlocked with another',
    where: 'Storage.drop',
    shows: /: (D1|D4|O1): /,
    twin: {
      storage: (...args: Args) =>
        new (class extends Storage {
          override drop(entry: number): void {
            if (this.classOf(entry) === 0) super.drop(entry)
          }
        })(...args),
    },
  }),
]
