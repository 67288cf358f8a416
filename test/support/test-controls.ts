import type { Native } from '../../src/binding/surface.js'

/** Counts of one kind of fault since it was armed. */
export interface FaultCounts {
  readonly seen: number
  readonly failed: number
  /** The call of the addon that failed last, or ''. */
  readonly call: string
}

/** What the test build adds to the addon: native/testing/controls.cc. `fault` is an index of FAULTS. */
export interface TestControls {
  arm(fault: number, kth: number, sticky: boolean, error: number): void
  disarm(fault: number): void
  /** Counts a use, for what only JavaScript can see. */
  fails(fault: number): boolean
  counts(fault: number): FaultCounts
}

/** The controls of a loaded addon. @throws Error when it is not the test build. */
export function testControls(native: Native): TestControls {
  const { testing } = native as Native & { readonly testing?: TestControls }
  if (testing === undefined) throw new Error('This process runs the release addon, not its test build')
  return testing
}
