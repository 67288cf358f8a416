import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'

/** An empty folder of the test, without symlinks in its path; gone when the test ends. */
export function folderOf(t: ExecutionContext): string {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'orbitkv-test-'))
  t.teardown(() => void rmSync(folder, { recursive: true, force: true }))
  return folder
}
