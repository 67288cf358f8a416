import type { Ledger } from './ledger.js'

/** Something that must not happen, and the seed whose plan led to it. */
export interface Failure {
  readonly phase: string
  readonly seed: number
  readonly error: string
}

/** What a campaign counts. */
export class Results {
  managerKills = 0
  engineKills = 0
  laneDeaths = 0
  coldStarts = 0
  pointsVisited = 0
  /** Pauses by SIGSTOP that were followed by SIGCONT, or by the kill. */
  managerStops = 0
  engineStops = 0
  failedRestarts = 0
  published = 0
  blocksChecked = 0
  wrongBytes = 0
  drainSecondsMax = 0
  reportSecondsMax = 0
  readonly managerKillsBy: Record<string, number> = {}
  readonly engineKillsBy: Record<string, number> = {}
  readonly laneDeathsBy: Record<string, number> = {}
  readonly coldStartsBy: Record<string, number> = {}
  /** Deaths at each named point, by party. */
  readonly points: Record<string, number> = {}
  readonly failures: Failure[] = []

  /** A drain, or the end of everything that a dead engine owned, took so long. */
  drained(seconds: number): void {
    this.drainSecondsMax = Math.max(this.drainSecondsMax, seconds)
  }

  /** A dying lane's process ended so long after it. */
  reported(seconds: number): void {
    this.reportSecondsMax = Math.max(this.reportSecondsMax, seconds)
  }

  judged({ published, blocksChecked, wrongs }: Ledger): void {
    this.published += published
    this.blocksChecked += blocksChecked
    this.wrongBytes += wrongs.length
    for (const error of wrongs) this.failures.push({ phase: 'ledger', seed: 0, error })
  }
}

/** One more of a kind. */
export function count(table: Record<string, number>, kind: string): void {
  table[kind] = (table[kind] ?? 0) + 1
}
