import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { folderOf } from './folder.js'
import { ToldShim } from './told-shim.js'

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
export class CuFileShim extends ToldShim<ShimFile> {
  constructor(folder: string) {
    super(folder, 'libcufile.so.0', 'libcufile/cufile.c')
  }

  /** True when some process has opened the library. */
  get loaded(): boolean {
    return existsSync(join(this.folder, 'loaded'))
  }

  /** Transfers that happened, in order. */
  transfers(): { readonly kind: string; readonly bytes: number; readonly offsetBytes: number }[] {
    return this.notes('log').map((line) => {
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
