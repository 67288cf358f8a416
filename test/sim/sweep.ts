import { availableParallelism } from 'node:os'
import { Piscina } from 'piscina'
import type { Part, PartOptions } from './seeds.js'
import { runPart } from './seeds.js'

/** Seeds of one job: long enough that starting it is nothing, short enough that all threads end together. */
const SEEDS_A_JOB = 10

/** The job of a pool thread. */
export default function job(options: PartOptions): Part {
  return runPart(options)
}

/**
 * Simulates `seeds` seeds from `first` on over all cores; parts come back in order of their seeds, and each is
 * handed to `heard` as soon as those before it have been.
 */
export async function sweep(
  first: number,
  seeds: number,
  sayEvery: number,
  heard: (part: Part) => void,
): Promise<Part[]> {
  const pool = new Piscina<PartOptions, Part>({
    filename: new URL(import.meta.url).href,
    maxThreads: availableParallelism(),
    minThreads: 1,
    // Worlds are many and live shortly: a larger nursery collects less often.
    resourceLimits: { maxYoungGenerationSizeMb: 64 },
  })
  const jobs: Promise<Part>[] = []
  for (let at = first; at < first + seeds; at += SEEDS_A_JOB) {
    jobs.push(pool.run({ first: at, seeds: Math.min(SEEDS_A_JOB, first + seeds - at), path: null, sayEvery }))
  }
  const parts: Part[] = []
  for (const running of jobs) {
    const part = await running
    parts.push(part)
    heard(part)
  }
  await pool.destroy()
  return parts
}
