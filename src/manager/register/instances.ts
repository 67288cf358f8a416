import type { InstanceGeometry, RankGeometry } from '../../shared/layout/regions.js'
import type { InstanceBudget } from '../../shared/scheduling/query-budget.js'
import type { Session } from '../sessions/session.js'

/** One rank that registered, until its session leaves. */
export interface RegisteredRank {
  readonly session: Session
  readonly geometry: RankGeometry
  readonly mappings: readonly number[]
}

/** What the instance became when its last rank registered. */
export interface Seal {
  readonly geometry: InstanceGeometry
  /** 64 hexadecimal digits: the storage namespace. */
  readonly namespaceHex: string
  readonly namespace: Uint8Array
  /** Storage class of each group, by group id. */
  readonly classes: readonly number[]
}

/**
 * One engine start: its ranks, and the classes that its pages belong to once all of them have registered.
 *
 * States: `open` (ranks are missing) -> `sealed` -> `ended` (a rank left: the engine is gone or going).
 * Invariant: a sealed instance never gains a rank; an ended one starts nothing and goes with its last session.
 */
export interface Instance {
  readonly id: string
  readonly number: number
  readonly worldSize: number
  readonly tpSize: number
  readonly ppSize: number
  readonly pageFirst: boolean
  readonly plainInputs: ReadonlyMap<string, Uint8Array>
  readonly plainDigest: Uint8Array
  /** By tp + pp * tpSize. */
  readonly ranks: Map<number, RegisteredRank>
  readonly sessions: Set<Session>
  readonly budget: InstanceBudget
  phase: 'open' | 'sealed' | 'ended'
  seal: Seal | null
}

/** Instances by id. */
export class Instances {
  readonly #byId = new Map<string, Instance>()
  #next = 1

  get count(): number {
    return this.#byId.size
  }

  [Symbol.iterator](): IterableIterator<Instance> {
    return this.#byId.values()
  }

  get(id: string | null): Instance | undefined {
    return id === null ? undefined : this.#byId.get(id)
  }

  nextNumber(): number {
    return this.#next++
  }

  add(instance: Instance): void {
    this.#byId.set(instance.id, instance)
  }

  remove(instance: Instance): void {
    this.#byId.delete(instance.id)
  }
}
