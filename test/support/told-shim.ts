import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sanitizerFlags } from './shims.js'

/** A library of test/shims that stands in for a vendor's, compiled into a folder, and what it is told by files there. */
export class ToldShim<Name extends string> {
  readonly library: string
  readonly folder: string

  /** `source`: below test/shims. */
  constructor(folder: string, library: string, source: string, more: readonly string[] = []) {
    this.folder = folder
    this.library = join(folder, library)
    const path = fileURLToPath(new URL(`../../../test/shims/${source}`, import.meta.url))
    const flags = ['-shared', '-fPIC', '-O1', '-Wall', '-Werror', ...more, ...sanitizerFlags()]
    execFileSync(process.env['CC'] ?? 'gcc', [...flags, '-o', this.library, path, '-ldl'])
  }

  /** Tells the calls of one name what to do from now on; the file appears whole. */
  tell(name: Name, value: string | number): void {
    const path = join(this.folder, name)
    writeFileSync(`${path}.new`, `${value}\n`)
    renameSync(`${path}.new`, path)
  }

  forget(name: Name): void {
    rmSync(join(this.folder, name), { force: true })
  }

  /** What the stand-in has noted in a file. */
  protected notes(name: string): string[] {
    const path = join(this.folder, name)
    if (!existsSync(path)) return []
    return readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
  }
}
