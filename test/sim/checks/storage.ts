import { census } from '../../../src/manager/storage/census.js'
import type { Storage } from '../../../src/manager/storage/storage.js'
import { Violation } from '../violation.js'

/**
 * Methods of storage that change nothing that a census reads. Whatever is not named here counts as a change, so that a
 * method that is added tomorrow is scanned after from the start.
 */
const READS: ReadonlySet<string> = new Set([
  'constructor',
  'geometryOf',
  'classOf',
  'generationOf',
  'nextTickUs',
  'lookup',
  'countRequest',
  'hashKeys',
  'requested',
  'inDram',
  'onSsd',
  'published',
  'duplicate',
  'complete',
  'assembling',
  'granuleOffset',
  'granule',
  'codedRoom',
  'encoded',
  'extentBytes',
  'extentOffset',
  'unchecked',
  'crc',
  'source',
  'gauges',
  'refreshGauges',
])

/** Every so many steps a scan is made whatever was called: it would find a change that came another way. */
const ALWAYS_EACH = 64

interface Watched {
  changed: boolean
}

type Method = (this: Storage & Watched, ...args: unknown[]) => unknown

/** For each prototype of a storage, or of a twin of it: one that notes that a method was called which may change it. */
const NOTING = new WeakMap<object, object>()

/** From now on `mustAgree` knows whether anything can have changed. Called once, on a storage that nobody has used. */
export function watchStorage(storage: Storage): void {
  const real = Object.getPrototypeOf(storage) as object
  let noting = NOTING.get(real)
  if (noting === undefined) {
    noting = notingOver(real)
    NOTING.set(real, noting)
  }
  ;(storage as Storage & Partial<Watched>).changed = true
  Object.setPrototypeOf(storage, noting)
}

function notingOver(real: object): object {
  const noting = Object.create(real) as Record<string, unknown>
  for (let from = real; from !== Object.prototype; from = Object.getPrototypeOf(from) as object) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(from))) {
      if (typeof value !== 'function' || READS.has(name) || Object.hasOwn(noting, name)) continue
      const method = value as Method
      noting[name] =
        name === 'tick'
          ? function (this: Storage & Watched, nowUs: number): unknown {
              // A tick that is not due moves a clock and nothing else.
              if (nowUs >= this.nextTickUs()) this.changed = true
              return method.call(this, nowUs)
            }
          : function (this: Storage & Watched, ...args: unknown[]): unknown {
              this.changed = true
              return method.apply(this, args)
            }
    }
  }
  return noting
}

/** O1: every page, extent and interest has exactly one owner, counted anew after every step that may have moved one. */
export class StorageCheck {
  readonly #storage: Storage & Watched
  #skipped = 0
  scans = 0

  constructor(storage: Storage) {
    this.#storage = storage as Storage & Watched
  }

  mustAgree(): void {
    if (!this.#storage.changed && ++this.#skipped % ALWAYS_EACH !== 0) return
    this.#storage.changed = false
    this.scans++
    const breaches = census(this.#storage)
    if (breaches.length > 0) throw new Violation('O1', breaches.join('; '))
  }
}
