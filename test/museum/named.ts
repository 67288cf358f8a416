import type { Exhibit, Looked } from './exhibit.js'

/** An exhibit that a named check finds: the same check runs with what ships and with its twin. */
export function named<T>(
  exhibit: Pick<Exhibit, 'id' | 'what' | 'where' | 'shows' | 'foundBy' | 'bound'> & {
    readonly shipped: T
    readonly twin: T
    /** One operation after the other, until something is wrong (throws) or the bound is reached. */
    readonly check: (subject: T, count: () => void) => void
  },
): Exhibit {
  const { shipped, twin, check, bound, ...labels } = exhibit
  const run = (subject: T): Looked => {
    let operations = 0
    const count = (): void => {
      operations++
    }
    try {
      check(subject, count)
      return { said: null, operations }
    } catch (error) {
      return { said: error instanceof Error ? error.message : String(error), operations }
    }
  }
  return { ...labels, bound, planted: () => run(twin), unplanted: () => run(shipped) }
}

/** Throws what is wrong. */
export function demand(holds: boolean, mustBeTrue: string): void {
  if (!holds) throw new Error(mustBeTrue)
}
