import { loadNative } from '../../src/binding/load.js'
import { testControls } from '../support/test-controls.js'

/** What can be made to fail. In the order of Fault in native/testing/faults.h. */
export const FAULTS = ['allocation', 'io', 'submit', 'addonCall', 'ringPush'] as const

export type FaultName = (typeof FAULTS)[number]

/** Which use of what fails. */
export interface Injection {
  readonly fault: FaultName
  /** From 1. */
  readonly kth: number
  /** Every later use fails as well. */
  readonly sticky: boolean
  /** The errno of a failing `io` or `submit`; 0: a short read or write. The others say what their calls say. */
  readonly error: number
}

/** What became of an injection. */
export interface Injected {
  /** Uses while it was armed. */
  readonly seen: number
  readonly failed: number
  /** The call of the addon that failed, for `addonCall`. */
  readonly call: string
}

/** Arms the faults of this process. It must run the test build: see test-addon-build.ts. */
export class Injector {
  readonly #controls = testControls(loadNative())

  arm({ fault, kth, sticky, error }: Injection): void {
    this.#controls.arm(FAULTS.indexOf(fault), kth, sticky, error)
  }

  /** Ends an injection and says what became of it. */
  disarm(fault: FaultName): Injected {
    this.#controls.disarm(FAULTS.indexOf(fault))
    return this.counts(fault)
  }

  counts(fault: FaultName): Injected {
    const { seen, failed, call } = this.#controls.counts(FAULTS.indexOf(fault))
    return { seen, failed, call }
  }
}
