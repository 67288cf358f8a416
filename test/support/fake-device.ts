/**
 * Operations that a machine has handed to its device, and that the test completes in the order it likes. Ended tags are
 * kept, so that a test can complete one twice.
 */
export class FakeDevice<Operation extends { readonly tag: number }> {
  readonly inFlight: Operation[] = []
  readonly endedTags: number[] = []

  submit(operation: Operation): void {
    if (this.inFlight.some((other) => other.tag === operation.tag)) {
      throw new Error(`tag ${operation.tag} names two operations in flight`)
    }
    this.inFlight.push(operation)
  }

  /** Takes one operation in flight, picked by any non-negative number; null when there is none. */
  finish(pick: number): Operation | null {
    if (this.inFlight.length === 0) return null
    const [operation] = this.inFlight.splice(pick % this.inFlight.length, 1)
    if (operation === undefined) return null
    this.endedTags.push(operation.tag)
    return operation
  }

  /** A tag that names nothing in flight: ended before, or never given. */
  strayTag(pick: number): number {
    const known = this.endedTags[pick % Math.max(1, this.endedTags.length)]
    for (const tag of [known, 2 ** 31 - 1 - pick, -1 - pick]) {
      if (tag !== undefined && !this.inFlight.some((operation) => operation.tag === tag)) return tag
    }
    return -1
  }
}
