import type { Cells, WaitOutcome } from '../../src/shared/rings/cells.js'

/**
 * Walks every interleaving of the parties' operations on shared memory. A party is ordinary production code: it runs
 * a turn (one call or a few) over views whose every access comes here. To take one step, the turn is executed again
 * from the fields it started with; the operations it had already done get their recorded results, the next one is
 * performed, and the one after that stops the turn by throwing. So a step is exactly one operation, and a state is
 * memory, plus for each party its fields at the start of its turn and the results of the turn so far.
 *
 * Plain reads and writes are operations too. Atomics are sequentially consistent, so a program without data races
 * behaves as one of its interleavings; a race shows as two parties whose next operations touch one place, one of them
 * a write and one of them plain. Both are looked for in every state.
 *
 * A crash is covered as well: a party that stops for ever leaves exactly the states in which it takes no more steps.
 *
 * States are told apart by a 53-bit hash: among a million states the chance that two share one is 6e-5.
 */

/** What an operation did, for the race check and for traces. */
interface Operation {
  readonly name: string
  readonly place: number
  readonly writes: boolean
  readonly plain: boolean
}

/** One thread of the exploration. */
export interface Party {
  readonly name: string
  /** Objects whose numbers, booleans and Int32Arrays are all that the party remembers between turns. */
  readonly memory: readonly object[]
  /** Runs one turn; false when the party has finished. Throws when something is wrong. */
  turn(): boolean
}

/** Two 32-bit sums over what something holds, each element mixed with its position: cheap to keep up to date. */
interface Digest {
  readonly low: number
  readonly high: number
}

interface PartyState {
  readonly fields: Float64Array
  /** Over `fields`, which stay the same for a whole turn. */
  readonly digest: Digest
  readonly results: readonly number[]
  readonly asleepOn: number
  readonly finished: boolean
}

interface Trace {
  readonly party: string
  readonly operation: Operation | null
  readonly before: Trace | null
}

interface State {
  readonly memory: Float64Array
  readonly digest: Digest
  readonly parties: readonly PartyState[]
  readonly trace: Trace | null
}

/**
 * What counts as one step: every access, or only the operations on cells with the plain accesses that follow them.
 * The coarse grain suffices where a finer walk has shown that the plain accesses of each pair of parties do not race.
 */
export type Grain = 'access' | 'cells'

/** What a walk found. */
export interface Walk {
  readonly states: number
  readonly transitions: number
  /** The first violation, with the steps that led to it; null when there is none. */
  readonly violation: string | null
}

type TurnEnd =
  | { readonly kind: 'ended'; readonly more: boolean }
  | { readonly kind: 'stopped' | 'blocked' }
  | { readonly kind: 'wrong'; readonly why: string }

const STOP = Symbol('the turn stops before its next operation')
const BLOCKED = Symbol('the turn waits for another party')
const AWAKE = -1
const WAIT_OUTCOMES: readonly WaitOutcome[] = ['ok', 'not-equal']

/** Shared memory whose every access is an operation. Places are indices into one array of numbers. */
export class World {
  private readonly grain: Grain
  private memory: Float64Array
  private memoryOwned = true
  private digest: Digest = { low: 0, high: 0 }
  private parties: Party[] = []
  private fields: Fields[] = []
  private states: PartyState[] = []
  private running = AWAKE
  private results: number[] = []
  private cursor = 0
  private performed: Operation | null = null
  private branch = 0
  private branches = 1

  constructor(places: number, grain: Grain) {
    this.memory = new Float64Array(places)
    this.grain = grain
  }

  /** Int32 or float64 elements that start at `base`; `placeOf` maps an element to its place. */
  view<T>(placeOf: (index: number) => number): T {
    const traps: ProxyHandler<object> = {
      get: (_, index) =>
        this.access('read', placeOf(Number(index)), false, true, (place) => this.memory[place] as number),
      set: (_, index, value: number) => {
        this.access('write', placeOf(Number(index)), true, true, (place) => this.put(place, value))
        return true
      },
    }
    return new Proxy({}, traps) as T
  }

  /** Cells over int32 words. A wait has no time-out here: whoever needs one to go on has lost a wake-up. */
  cells(placeOf: (index: number) => number): Cells {
    return {
      load: (index) => this.access('load', placeOf(index), false, false, (place) => this.memory[place] as number),
      store: (index, value) => {
        this.access('store', placeOf(index), true, false, (place) => this.put(place, value))
      },
      exchange: (index, value) =>
        this.access('exchange', placeOf(index), true, false, (place) => {
          const was = this.memory[place] as number
          this.put(place, value)
          return was
        }),
      wait: (index, value) => this.sleep(placeOf(index), (is) => is === value),
      notify: (index, count) => this.access('notify', placeOf(index), false, false, (place) => this.wake(place, count)),
    }
  }

  /** A sleep that compares nothing: what a broken protocol would use. */
  sleepAnyhow(place: number): void {
    this.sleep(place, () => true)
  }

  /** An eventfd: written by anybody, and sticky. */
  signal(place: number): void {
    this.access('signal', place, true, false, () => this.put(place, 1))
  }

  /** Waits until the eventfd was written, and takes that back. */
  awaitSignal(place: number): void {
    this.access('await signal', place, true, false, () => {
      if (this.memory[place] === 0) throw BLOCKED
      return this.put(place, 0)
    })
  }

  /** Any number below `count`: the walk follows all of them. */
  choose(count: number): number {
    return this.access('choose', AWAKE, false, false, () => {
      this.branches = count
      return this.branch
    })
  }

  /** Walks all interleavings of the parties, which were set up outside any turn; stops at the first violation. */
  explore(parties: readonly Party[], statesMax: number): Walk {
    this.parties = [...parties]
    this.fields = parties.map((party) => new Fields(party.memory))
    const start: State = {
      memory: this.memory.slice(),
      digest: this.digest,
      parties: this.fields.map((fields) => ({
        ...fields.save(),
        results: [],
        asleepOn: AWAKE,
        finished: false,
      })),
      trace: null,
    }
    const seen = new Set<number>([hashOf(start)])
    const stack: State[] = [start]
    let transitions = 0
    for (let state = stack.pop(); state !== undefined; state = stack.pop()) {
      const next: (Operation | null)[] = []
      let moves = 0
      for (const [index, party] of parties.entries()) {
        const steps = this.step(state, index)
        if (typeof steps === 'string') {
          return { states: seen.size, transitions, violation: `${party.name}: ${steps}\n${tell(state.trace)}` }
        }
        next.push(steps[0]?.trace?.operation ?? null)
        for (const after of steps) {
          moves++
          const hash = hashOf(after)
          if (seen.has(hash)) continue
          seen.add(hash)
          stack.push(after)
        }
      }
      transitions += moves
      const wrong = raceAmong(next) ?? (moves === 0 ? stuck(state, parties) : null)
      if (wrong !== null) return { states: seen.size, transitions, violation: `${wrong}\n${tell(state.trace)}` }
      if (seen.size > statesMax) throw new Error(`more than ${statesMax} states: the scenario is too large to walk`)
    }
    return { states: seen.size, transitions, violation: null }
  }

  /** All states one operation of a party further, none when it cannot move; a string says what is wrong. */
  private step(state: State, index: number): State[] | string {
    const before = state.parties[index] as PartyState
    const party = this.parties[index] as Party
    const fields = this.fields[index] as Fields
    if (before.finished || before.asleepOn !== AWAKE) return []
    const after: State[] = []
    this.branches = 1
    for (this.branch = 0; this.branch < this.branches; this.branch++) {
      this.memory = state.memory
      this.memoryOwned = false
      this.digest = state.digest
      this.states = [...state.parties]
      this.running = index
      this.results = [...before.results]
      this.cursor = 0
      this.performed = null
      fields.load(before.fields)
      const ended = this.runTurn(party)
      if (ended.kind === 'wrong') return ended.why
      if (ended.kind === 'blocked') return []
      if (ended.kind === 'ended') {
        this.states[index] = { ...fields.save(), results: [], asleepOn: AWAKE, finished: !ended.more }
      } else {
        const { asleepOn } = this.states[index] as PartyState
        this.states[index] = { ...before, results: this.results, asleepOn }
      }
      const trace: Trace = { party: party.name, operation: this.performed, before: state.trace }
      after.push({ memory: this.memory, digest: this.digest, parties: this.states, trace })
    }
    this.running = AWAKE
    return after
  }

  private runTurn(party: Party): TurnEnd {
    try {
      return { kind: 'ended', more: party.turn() }
    } catch (thrown) {
      if (thrown === STOP) return { kind: 'stopped' }
      if (thrown === BLOCKED) return { kind: 'blocked' }
      return { kind: 'wrong', why: thrown instanceof Error ? thrown.message : String(thrown) }
    }
  }

  private access(name: string, place: number, writes: boolean, plain: boolean, act: (place: number) => number): number {
    if (this.running === AWAKE) return act(place)
    if (this.cursor < this.results.length) return this.results[this.cursor++] as number
    if (this.performed !== null && !this.merges(plain)) throw STOP
    const result = act(place)
    if (!this.merges(plain)) this.performed = { name, place, writes, plain }
    this.results.push(result)
    this.cursor++
    return result
  }

  /** Writes memory, which states share until somebody writes, and keeps its digest right. */
  private put(place: number, value: number): number {
    if (!this.memoryOwned) {
      this.memory = this.memory.slice()
      this.memoryOwned = true
    }
    const was = this.memory[place] as number
    this.digest = {
      low: (this.digest.low - mix(place, was, LOW) + mix(place, value, LOW)) | 0,
      high: (this.digest.high - mix(place, was, HIGH) + mix(place, value, HIGH)) | 0,
    }
    this.memory[place] = value
    return 0
  }

  private merges(plain: boolean): boolean {
    return plain && this.grain === 'cells'
  }

  private sleep(place: number, sleeps: (is: number) => boolean): WaitOutcome {
    const result = this.access('wait', place, false, false, () => {
      if (!sleeps(this.memory[place] as number)) return 1
      this.performed = { name: 'wait', place, writes: false, plain: false }
      this.states[this.running] = { ...(this.states[this.running] as PartyState), asleepOn: place }
      throw STOP
    })
    return WAIT_OUTCOMES[result] as WaitOutcome
  }

  private wake(place: number, count: number): number {
    let woken = 0
    for (const [index, state] of this.states.entries()) {
      if (state.asleepOn !== place || woken === count) continue
      this.states[index] = { ...state, asleepOn: AWAKE, results: [...state.results, 0] }
      woken++
    }
    return woken
  }
}

function stuck(state: State, parties: readonly Party[]): string | null {
  const waiting = parties.filter((_, index) => !(state.parties[index] as PartyState).finished)
  return waiting.length === 0 ? null : `lost wake-up: ${waiting.map(({ name }) => name).join(', ')} sleep for ever`
}

function raceAmong(next: readonly (Operation | null)[]): string | null {
  for (const [index, one] of next.entries()) {
    if (one === null || one.place === AWAKE) continue
    for (const other of next.slice(index + 1)) {
      if (other === null || other.place !== one.place) continue
      if ((one.writes || other.writes) && (one.plain || other.plain)) {
        return `data race: ${one.name} and ${other.name} of place ${one.place} are not ordered`
      }
    }
  }
  return null
}

function tell(trace: Trace | null): string {
  const lines: string[] = []
  for (let at = trace; at !== null && lines.length < 40; at = at.before) {
    lines.push(`  ${at.party}: ${at.operation === null ? '-' : `${at.operation.name} ${at.operation.place}`}`)
  }
  return lines.reverse().join('\n')
}

/** Where a party's memory lies: its own numbers, booleans and Int32Arrays, found once. */
class Fields {
  private readonly scalars: {
    readonly object: Record<string, unknown>
    readonly name: string
    readonly flag: boolean
  }[] = []
  private readonly arrays: Int32Array[] = []
  private size = 0

  constructor(objects: readonly object[]) {
    for (const object of objects) {
      for (const [name, value] of Object.entries(object)) {
        const flag = typeof value === 'boolean'
        if (flag || typeof value === 'number')
          this.scalars.push({ object: object as Record<string, unknown>, name, flag })
        else if (value instanceof Int32Array) this.arrays.push(value)
      }
    }
    this.size = this.scalars.length + this.arrays.reduce((sum, array) => sum + array.length, 0)
  }

  save(): { readonly fields: Float64Array; readonly digest: Digest } {
    const fields = new Float64Array(this.size)
    let at = 0
    for (const { object, name } of this.scalars) fields[at++] = Number(object[name])
    for (const array of this.arrays) {
      fields.set(array, at)
      at += array.length
    }
    return { fields, digest: digestOf(fields) }
  }

  load(saved: Float64Array): void {
    let at = 0
    for (const { object, name, flag } of this.scalars) {
      const value = saved[at++] as number
      object[name] = flag ? value === 1 : value
    }
    for (const array of this.arrays) {
      for (let i = 0; i < array.length; i++) array[i] = saved[at++] as number
    }
  }
}

const LOW = 0x9e3779b1 | 0
const HIGH = 0x85ebca77 | 0
/** All numbers here are integers below 2^53: records, counters and serials. */
const UPPER = 2 ** 32

function mix(position: number, value: number, seed: number): number {
  let hash = Math.imul(position + 1, seed) ^ (value | 0)
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d)
  hash = Math.imul(hash ^ (hash >>> 15) ^ Math.floor(value / UPPER), 0x846ca68b)
  hash = Math.imul(hash ^ (hash >>> 16), seed)
  return hash ^ (hash >>> 15)
}

function digestOf(numbers: ArrayLike<number>): Digest {
  let low = 0
  let high = 0
  for (let i = 0; i < numbers.length; i++) {
    low = (low + mix(i, numbers[i] as number, LOW)) | 0
    high = (high + mix(i, numbers[i] as number, HIGH)) | 0
  }
  return { low, high }
}

/** All that makes up a state, cut to one exact number. */
function hashOf(state: State): number {
  let { low, high } = state.digest
  for (const [index, { digest, results, asleepOn, finished }] of state.parties.entries()) {
    const position = 4096 * (index + 1)
    low = (low + mix(position, digest.low, LOW)) | 0
    high = (high + mix(position, digest.high, HIGH)) | 0
    const rest = [asleepOn, finished ? 1 : 0, results.length]
    for (const [at, value] of rest.entries()) {
      low = (low + mix(position + 1 + at, value, LOW)) | 0
      high = (high + mix(position + 1 + at, value, HIGH)) | 0
    }
    for (let at = 0; at < results.length; at++) {
      low = (low + mix(position + 8 + at, results[at] as number, LOW)) | 0
      high = (high + mix(position + 8 + at, results[at] as number, HIGH)) | 0
    }
  }
  return (low >>> 0) * 2 ** 21 + (high >>> 11)
}
