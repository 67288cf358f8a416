import type { DeviceLanes } from '../lanes/device-lanes.js'
import type { SlotTable } from '../ports.js'

/** One rank of an instance: what a worker registered, and what we made of it. */
export interface RankHold {
  /** Ordinal of the rank in the sealed geometry; until the seal, tp + pp * tpSize. */
  readonly rank: number
  /** Of the device that all of its memory lies on. */
  readonly lanes: DeviceLanes
  readonly mappings: readonly number[]
  /** Copy template of each storage group, by group id; empty until the instance seals. */
  readonly templates: number[]
  readonly slotTable: SlotTable
  /** Layer and group of each region, in the order of REGISTER: fragments name layers by it. */
  readonly regions: readonly { readonly layer: string; readonly group: number }[]
}

/** What one completion slot of a session is doing. */
export interface SlotUse {
  /** The last generation the client used; the next must be greater. */
  generation: number
  /** The operation that owns the slot now, or null. */
  operation: Operation | null
}

/** Anything a client started through a slot and may cancel. */
export interface Operation {
  readonly session: Session
  readonly slot: number
  readonly slotGeneration: number
  /** The client, its death or a drain took the interest back; what is submitted still ends first. */
  cancel(): void
}

/**
 * One connection of one engine process.
 *
 * States: `new` (nothing said) -> `greeted` (HELLO) -> `bound` (REGISTER as worker or ATTACH as scheduler)
 *   -> `leaving` (UNREGISTER, or the peer is gone) -> removed.
 * Invariants: a `leaving` session starts nothing; it is removed only when `operations` is empty; its mappings,
 * templates and slots are released exactly then.
 */
export interface Session {
  readonly number: number
  readonly connection: number
  readonly pid: number
  phase: 'new' | 'greeted' | 'bound' | 'leaving'
  /** False once the connection ended: replies go nowhere. */
  connected: boolean
  role: 'scheduler' | 'worker'
  /** Version that HELLO agreed on; 0 before. */
  proto: number
  /** Key of the instance in Instances, once bound. */
  instance: string | null
  /** What a worker registered. */
  hold: RankHold | null
  readonly slots: SlotUse[]
  readonly operations: Set<Operation>
  /** Open queries by the client's request id. */
  readonly queries: Map<number, number>
  /** Open preparations by the client's request id. */
  readonly preparations: Map<number, number>
  /** Tickets of hints that are being read. */
  readonly warmings: Set<number>
  /** Leases granted through this session and not yet ended. */
  readonly leases: Set<number>
  /** Request number of the UNREGISTER that waits for the drain, or null. */
  unregister: number | null
}

/** A session as it is when its connection is accepted. */
export function newSession(number: number, connection: number, pid: number): Session {
  return {
    number,
    connection,
    pid,
    phase: 'new',
    connected: true,
    role: 'worker',
    proto: 0,
    instance: null,
    hold: null,
    slots: [],
    operations: new Set(),
    queries: new Map(),
    preparations: new Map(),
    warmings: new Set(),
    leases: new Set(),
    unregister: null,
  }
}
