/**
 * The museum: bugs that users of other caches met, planted again into our code behind a twin, never in src. Each must
 * be found, within a stated number of operations, by a check that is green without the plant.
 */

/** What came of one run of a check. */
export interface Looked {
  /** What the check said, or null when it found nothing wrong. */
  readonly said: string | null
  readonly operations: number
}

/** One planted bug. */
export interface Exhibit {
  /** The peer's issue, as in the field's notes. */
  readonly id: string
  /** The bug, in our words. */
  readonly what: string
  /** Class or function that the twin replaces. */
  readonly where: string
  readonly foundBy: string
  /** What `said` must match: found for another reason is not found. */
  readonly shows: RegExp
  /** Operations within which it must be found. */
  readonly bound: number
  /** Runs the check with the bug planted, until it is found or `bound` is reached. */
  planted(): Looked
  /** Runs the same check with nothing planted, for at least as many operations. */
  unplanted(operations: number): Looked
}

/** An exhibit after it was looked at: `found` is false when it took too long, or when the check is not green without. */
export interface Verdict {
  readonly id: string
  readonly what: string
  readonly where: string
  readonly foundBy: string
  readonly said: string | null
  readonly operations: number
  readonly bound: number
  readonly greenUnplanted: boolean
  readonly found: boolean
}

/** Looks at one exhibit, with the bug and without. */
export function look(exhibit: Exhibit): Verdict {
  const { id, what, where, foundBy, shows, bound } = exhibit
  const { said, operations } = exhibit.planted()
  const without = exhibit.unplanted(operations)
  const greenUnplanted = without.said === null
  const found = said !== null && shows.test(said) && operations <= bound && greenUnplanted
  const told = greenUnplanted ? said : `without the plant: ${without.said}`
  return { id, what, where, foundBy, said: told, operations, bound, greenUnplanted, found }
}
