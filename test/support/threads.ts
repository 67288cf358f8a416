import { readdirSync, readFileSync } from 'node:fs'

/** One file of every thread of this process, of those in `/proc/self/task/N`; of a thread that ends meanwhile, none. */
export function ofThreads(file: 'comm' | 'stat'): string[] {
  return readdirSync('/proc/self/task').flatMap((thread) => {
    try {
      return [readFileSync(`/proc/self/task/${thread}/${file}`, 'utf8')]
    } catch {
      return []
    }
  })
}
