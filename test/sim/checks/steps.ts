import type { Context } from '../../../src/manager/context.js'
import type { Storage } from '../../../src/manager/storage/storage.js'
import { StorageCheck } from './storage.js'
import { checkVerbs } from './verbs.js'

/** What is checked after every single step of the Manager's machine. */
export class StepChecks {
  readonly #context: Context
  readonly #storage: Storage
  readonly #scans: StorageCheck
  readonly #jobsMax: number

  constructor(context: Context, storage: Storage, jobsMax: number) {
    this.#context = context
    this.#storage = storage
    this.#scans = new StorageCheck(storage)
    this.#jobsMax = jobsMax
  }

  /** `worked`: an input, or a tick that was due; any other tick finds nothing to do. */
  after(worked: boolean): void {
    this.#scans.mustAgree()
    if (worked) checkVerbs(this.#context, this.#jobsMax, this.#storage.entries.interests)
  }
}
