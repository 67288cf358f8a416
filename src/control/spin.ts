/** What a lane may spin where a core is left for it, in microseconds: as long as a small read from an NVMe disk takes. */
export const SPIN_US = 200

/**
 * How long lanes look again before they sleep. A wake-up between cores costs more than most turns of a lane, so spinning
 * pays as long as nobody else needs the core: only with more cores than actors, unless the operator decides.
 */
export function spinUsOf(wanted: number | null, cores: number, actors: number): number {
  return wanted ?? (cores > actors ? SPIN_US : 0)
}
