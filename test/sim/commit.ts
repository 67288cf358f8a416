import { execFileSync } from 'node:child_process'

/** The commit that this tree is at, with a `+` when files differ from it: a seed says nothing without the code. */
export function commitOf(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  try {
    const changed = git('status', '--porcelain', '--untracked-files=no').length > 0
    return git('rev-parse', '--short=12', 'HEAD').trim() + (changed ? '+' : '')
  } catch {
    return 'of no repository'
  }
}
