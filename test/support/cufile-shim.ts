import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ExecutionContext } from 'ava'
import { folderOf } from './folder.js'
import { sanitizerFlags } from './shims.js'

const SOURCE = fileURLToPath(new URL('../../../test/shims/libcufile/cufile.c', import.meta.url))

export type ShimFile =
  | 'version'
  | 'open'
  | 'handle'
  | 'buffer'
  | 'stream'
  | 'closes0'
  | 'deregister'
  | 'compat'
  | 'nostreams'
  | 'used'
  | 'read'
  | 'write'

/** Why there is no shim on this machine; null when there is one. */
export function shimMissing(): string | null {
  try {
    execFileSync('gcc', ['--version'], { stdio: 'ignore' })
    return null
  } catch {
    return 'gcc is not here, and the stand-in for libcufile is compiled by the test'
  }
}

/** The stand-in for libcufile, compiled into a folder of this test, and what it is told there. */
export class CuFileShim {
  readonly library: string
  readonly folder: string

  constructor(folder: string) {
    this.folder = folder
    this.library = join(this.folder, 'libcufile.so.0')
    execFileSync('gcc', [
      '-shared',
      '-fPIC',
      '-O1',
      '-Wall',
      '-Werror',
      ...sanitizerFlags(),
      '-o',
      this.library,
      SOURCE,
      '-ldl',
    ])
  }

  /** Tells the calls of one name what to do from now on; the file appears whole. */
  tell(name: ShimFile, value: string | number): void {
    const path = join(this.folder, name)
    writeFileSync(`${path}.new`, `${value}\n`)
    renameSync(`${path}.new`, path)
  }

  forget(name: ShimFile): void {
    rmSync(join(this.folder, name), { force: true })
  }

  /** True when some process has opened the library. */
  get loaded(): boolean {
    return existsSync(join(this.folder, 'loaded'))
  }

  /** Transfers that happened, in order. */
  transfers(): { readonly kind: string; readonly bytes: number; readonly offsetBytes: number }[] {
    const path = join(this.folder, 'log')
    if (!existsSync(path)) return []
    return readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const [kind = '', bytes, offset] = line.split(' ')
        return { kind, bytes: Number(bytes), offsetBytes: Number(offset) }
      })
  }
}

/** A shim in a folder of the test, which this process and its children are told by. */
export function openShim(t: ExecutionContext): CuFileShim {
  const shim = new CuFileShim(folderOf(t))
  process.env['ORBITKV_CUFILE_SHIM'] = shim.folder
  return shim
}
