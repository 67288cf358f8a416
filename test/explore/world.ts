import type { Cells, WaitOutcome } from '../../src/shared/rings/cells.js'
import { type Digest, HIGH, LOW, mix } from './digest.js'
import { Fields } from './fields.js'

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
 * With `Endings` a process may also die before any of its operations: its parties take no more steps, and what they
 * left in memory stays. Then sleeps that have a bound may run out, but only where nobody can move.
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
  /** It waits for a death, which need not come. */
  readonly mourns?: boolean
  /** Runs one turn; false when the party has finished. Throws when something is wrong. */
  turn(): boolean
}

/** What else may end besides turns: processes, and sleeps that have a bound. */
export interface Endings {
  /** Parties, by index, that die together. Their death makes the word at `pidfd` 1; AWAKE: it shows nowhere. */
  readonly processes: readonly { readonly name: string; readonly parties: readonly number[]; readonly pidfd: number }[]
  /** How many processes may die in one run. */
  readonly deathsMax: number
  /** How often the bounded sleep of a party may run out; it does where somebody has died and nobody can move. */
  readonly expiriesMax: number
  /** Sleeps run out although nobody has died: where wake-ups are not promised. */
  readonly hintsOnly: boolean
  /** Where nobody can move: what should have happened still, or null. Parties remember what they did before their turn. */
  undone(dead: readonly boolean[]): string | null
  /** Why a party must not write a place plainly once somebody has died, or null. */
  trespass(party: number, place: number, dead: readonly boolean[]): string | null
}

interface PartyState {
  readonly fields: Float64Array
  /** Over `fields`, which stay the same for a whole turn. */
  readonly digest: Digest
  readonly results: readonly number[]
  readonly asleepOn: number
  /** The sleep has a bound. */
  readonly bounded: boolean
  readonly finished: boolean
  readonly dead: boolean
  /** Sleeps that ran out. */
  readonly expired: number
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
  /** Of these, states after a death. */
  readonly crashStates: number
  /** The first violation, with the steps that led to it; null when there is none. */
  readonly violation: string | null
}

type TurnEnd =
  | { readonly kind: 'ended'; readonly more: boolean }
  | { readonly kind: 'stopped' | 'blocked' }
  | { readonly kind: 'wrong'; readonly why: string }

const STOP = Symbol('the turn stops before its next operation')
const BLOCKED = Symbol('the turn waits for another party')
/** In the place of a place: none. */
export const AWAKE = -1
const WAIT_OUTCOMES: readonly WaitOutcome[] = ['ok', 'not-equal', 'timed-out']
const EXPIRED = 2

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
  private endings: Endings | null = null
  private dead: readonly boolean[] = []
  private expiring = false

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
        this.access('write', placeOf(Number(index)), true, true, (place) => {
          this.forbidTrespass(place)
          return this.put(place, value)
        })
        return true
      },
    }
    return new Proxy({}, traps) as T
  }

  /** Cells over int32 words. A wait times out by `Endings` alone: whoever needs that to go on has lost a wake-up. */
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
      wait: (index, value, timeoutMs) => this.sleep(placeOf(index), (is) => is === value, Number.isFinite(timeoutMs)),
      notify: (index, count) => this.access('notify', placeOf(index), false, false, (place) => this.wake(place, count)),
    }
  }

  /** A sleep that compares nothing: what a broken protocol would use. */
  sleepAnyhow(place: number): void {
    this.sleep(place, () => true, false)
  }

  /** An eventfd: written by anybody, and sticky. */
  signal(place: number): void {
    this.access('signal', place, true, false, () => this.put(place, 1))
  }

  /**
   * Waits until the eventfd was written, and takes that back, or until the process behind `pidfd` has ended. A wait
   * with a bound may run out.
   */
  awaitSignal(place: number, { bounded = true, pidfd = AWAKE } = {}): void {
    this.access('await signal', place, true, false, () => {
      const ended = pidfd !== AWAKE && this.memory[pidfd] === 1
      if (this.memory[place] === 0 && !ended && !(bounded && this.expiring)) throw BLOCKED
      return this.put(place, 0)
    })
  }

  /** What a place holds, seen by nobody: for what a check must know and no party may. */
  peek(place: number): number {
    return this.memory[place] as number
  }

  /** Does something once, together with the operation just performed or about to be: a check, or a `poke`. */
  aside(act: () => void): void {
    if (this.performed !== null || this.results.length === 0) act()
  }

  /** Writes a place that only checks look at; inside `aside`. */
  poke(place: number, value: number): void {
    this.put(place, value)
  }

  /** Any number below `count`: the walk follows all of them. */
  choose(count: number): number {
    return this.access('choose', AWAKE, false, false, () => {
      this.branches = count
      return this.branch
    })
  }

  /** Walks all interleavings of the parties, which were set up outside any turn; stops at the first violation. */
  explore(parties: readonly Party[], statesMax: number, endings: Endings | null = null): Walk {
    this.parties = [...parties]
    this.endings = endings
    this.fields = parties.map((party) => new Fields(party.memory))
    const awake = { results: [], asleepOn: AWAKE, bounded: false, finished: false, dead: false, expired: 0 }
    const start: State = {
      memory: this.memory.slice(),
      digest: this.digest,
      parties: this.fields.map((fields) => ({ ...fields.save(), ...awake })),
      trace: null,
    }
    const seen = new Set<number>([hashOf(start)])
    const stack: State[] = [start]
    let transitions = 0
    let crashStates = 0
    const push = (after: State): void => {
      const hash = hashOf(after)
      if (seen.has(hash)) return
      seen.add(hash)
      if (after.parties.some(({ dead }) => dead)) crashStates++
      stack.push(after)
    }
    const end = (violation: string | null): Walk => ({ states: seen.size, transitions, crashStates, violation })
    for (let state = stack.pop(); state !== undefined; state = stack.pop()) {
      const next: (Operation | null)[] = []
      let moves = 0
      for (const [index, party] of parties.entries()) {
        const steps = this.step(state, index)
        if (typeof steps === 'string') return end(`${party.name}: ${steps}\n${tell(state.trace)}`)
        next.push(steps[0]?.trace?.operation ?? null)
        moves += steps.length
        for (const after of steps) push(after)
      }
      for (const after of this.deaths(state)) push(after)
      transitions += moves
      let wrong = raceAmong(next)
      if (wrong === null && moves === 0) {
        const settled = this.settle(state)
        if (typeof settled === 'string') wrong = settled
        else for (const after of settled) push(after)
      }
      if (wrong !== null) return end(`${wrong}\n${tell(state.trace)}`)
      if (seen.size > statesMax) throw new Error(`more than ${statesMax} states: the scenario is too large to walk`)
    }
    return end(null)
  }

  /** All states one death further. */
  private deaths(state: State): State[] {
    const endings = this.endings
    if (endings === null) return []
    const stopped = (index: number): boolean => state.parties[index]?.dead === true
    const gone = endings.processes.filter((process) => process.parties.some(stopped)).length
    if (gone >= endings.deathsMax) return []
    return endings.processes
      .filter(
        ({ parties }) => !parties.some(stopped) && parties.some((index) => state.parties[index]?.finished === false),
      )
      .map(({ name, parties, pidfd }) => {
        this.enter(state)
        if (pidfd !== AWAKE) this.put(pidfd, 1)
        const after = state.parties.map((party, index) =>
          parties.includes(index) ? { ...party, asleepOn: AWAKE, dead: true } : party,
        )
        const operation = { name: 'dies', place: pidfd, writes: true, plain: false }
        return {
          memory: this.memory,
          digest: this.digest,
          parties: after,
          trace: { party: name, operation, before: state.trace },
        }
      })
  }

  /** Nobody can move: the states in which one bounded sleep has run out. None, and something undone: a violation. */
  private settle(state: State): State[] | string {
    const endings = this.endings
    const dead = state.parties.map((party) => party.dead)
    if (endings === null || !(endings.hintsOnly || dead.includes(true))) return stuck(state, this.parties) ?? []
    this.enter(state)
    for (const [index, fields] of this.fields.entries()) fields.load((state.parties[index] as PartyState).fields)
    const undone = endings.undone(dead)
    const after: State[] = []
    for (const [index, party] of state.parties.entries()) {
      if (party.dead || party.finished || party.expired >= endings.expiriesMax) continue
      after.push(...this.expire(state, index))
    }
    return after.length > 0 || undone === null ? after : `undone for ever: ${undone}`
  }

  private expire(state: State, index: number): State[] {
    const party = state.parties[index] as PartyState
    const expired = party.expired + 1
    if (party.asleepOn === AWAKE) {
      this.expiring = true
      const steps = this.step(state, index)
      this.expiring = false
      if (typeof steps === 'string') throw new Error(`a sleep that ran out: ${steps}`)
      return steps.map((after) => ({ ...after, parties: withParty(after.parties, index, { expired }) }))
    }
    if (!party.bounded) return []
    const woken = { asleepOn: AWAKE, expired, results: [...party.results, EXPIRED] }
    const operation = { name: 'times out on', place: party.asleepOn, writes: false, plain: false }
    const trace: Trace = { party: (this.parties[index] as Party).name, operation, before: state.trace }
    return [{ ...state, parties: withParty(state.parties, index, woken), trace }]
  }

  /** Makes a state the present one; it is copied before anything is written. */
  private enter(state: State): void {
    this.memory = state.memory
    this.memoryOwned = false
    this.digest = state.digest
  }

  /** All states one operation of a party further, none when it cannot move; a string says what is wrong. */
  private step(state: State, index: number): State[] | string {
    const before = state.parties[index] as PartyState
    const party = this.parties[index] as Party
    const fields = this.fields[index] as Fields
    if (before.finished || before.dead || before.asleepOn !== AWAKE) return []
    const after: State[] = []
    this.branches = 1
    if (this.endings !== null) this.dead = state.parties.map((each) => each.dead)
    for (this.branch = 0; this.branch < this.branches; this.branch++) {
      this.enter(state)
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
        this.states[index] = { ...before, ...fields.save(), results: [], asleepOn: AWAKE, finished: !ended.more }
      } else {
        const { asleepOn, bounded } = this.states[index] as PartyState
        this.states[index] = { ...before, results: this.results, asleepOn, bounded }
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

  private forbidTrespass(place: number): void {
    if (this.endings === null || this.running === AWAKE || !this.dead.includes(true)) return
    const why = this.endings.trespass(this.running, place, this.dead)
    if (why !== null) throw new Error(why)
  }

  private merges(plain: boolean): boolean {
    return plain && this.grain === 'cells'
  }

  private sleep(place: number, sleeps: (is: number) => boolean, bounded: boolean): WaitOutcome {
    const result = this.access('wait', place, false, false, () => {
      if (!sleeps(this.memory[place] as number)) return 1
      this.performed = { name: 'wait', place, writes: false, plain: false }
      this.states[this.running] = { ...(this.states[this.running] as PartyState), asleepOn: place, bounded }
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

function withParty(parties: readonly PartyState[], index: number, change: Partial<PartyState>): PartyState[] {
  return parties.map((party, at) => (at === index ? { ...party, ...change } : party))
}

function stuck(state: State, parties: readonly Party[]): string | null {
  const waiting = parties.filter((party, index) => party.mourns !== true && state.parties[index]?.finished !== true)
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

/** All that makes up a state, cut to one exact number. */
function hashOf(state: State): number {
  let { low, high } = state.digest
  for (const [index, { digest, results, asleepOn, finished, dead, expired }] of state.parties.entries()) {
    const position = 4096 * (index + 1)
    low = (low + mix(position, digest.low, LOW)) | 0
    high = (high + mix(position, digest.high, HIGH)) | 0
    const rest = [asleepOn, (finished ? 1 : 0) + (dead ? 2 : 0) + 4 * expired, results.length]
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
