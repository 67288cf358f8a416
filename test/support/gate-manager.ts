import type { ExecutionContext } from 'ava'
import { endsClean, type ManagerChild } from './manager-child.js'

/** A Manager of a test that looks at it from outside: by its counters, and by what it still owns at the end. */
export interface GateManager {
  readonly manager: ManagerChild
  /** By how much a counter has risen since the last call for it; the first time, since the start. */
  risen(name: string): Promise<number>
  /** Every ownership gauge is zero, and it drains clean. */
  ends(): Promise<void>
}

/** @param fdsMore descriptors that libraries of a vendor may keep */
export function gateManager(t: ExecutionContext, manager: ManagerChild, fdsMore: number): GateManager {
  const seen = new Map<string, number>()
  return {
    manager,
    async risen(name) {
      const value = await manager.metric(name)
      const risen = value - (seen.get(name) ?? 0)
      seen.set(name, value)
      return risen
    },
    ends: () => endsClean(t, manager, fdsMore),
  }
}
