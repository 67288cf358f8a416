/** A broken rule: which invariant, and what was seen. The simulation stops at the first one. */
export class Violation extends Error {
  readonly rule: string

  constructor(rule: string, seen: string) {
    super(`${rule}: ${seen}`)
    this.name = 'Violation'
    this.rule = rule
  }
}

/** Throws a Violation of `rule` unless `holds`; `seen` is only built then. */
export function must(holds: boolean, rule: string, seen: () => string): void {
  if (!holds) throw new Violation(rule, seen())
}
