import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sanitizerFlags } from './shims.js'

const SOURCE = fileURLToPath(new URL('../../../test/shims/libnvcomp.c', import.meta.url))

/** Files by which the stand-in is told: test/shims/libnvcomp.c. */
export type NvcompFile =
  | 'version'
  | 'properties'
  | 'temp'
  | 'compress'
  | 'decompress'
  | 'chunk'
  | 'silent'
  | 'short'
  | 'hold'

/** A batch that the stand-in ran. */
export interface NvcompBatch {
  readonly kind: 'compress' | 'decompress'
  readonly chunks: number
  readonly tempBytes: number
}

/** The stand-in for libnvcomp, compiled into a folder of this test, and what it is told there. */
export class NvcompShim {
  readonly library: string
  readonly folder: string

  /** `whole`: without it the library lacks a symbol. */
  constructor(folder: string, whole = true) {
    this.folder = folder
    this.library = join(folder, whole ? 'libnvcomp.so.5' : 'libnvcomp-part.so.5')
    const lacks = whole ? [] : ['-DWITHOUT_DECOMPRESSION']
    const flags = ['-shared', '-fPIC', '-O1', '-Wall', '-Werror', ...lacks, ...sanitizerFlags()]
    execFileSync(process.env['CC'] ?? 'gcc', [...flags, '-o', this.library, SOURCE, '-ldl'])
  }

  /** Tells the calls from now on; the file appears whole. */
  tell(name: NvcompFile, value: string | number): void {
    const path = join(this.folder, name)
    writeFileSync(`${path}.new`, `${value}\n`)
    renameSync(`${path}.new`, path)
  }

  forget(name: NvcompFile): void {
    rmSync(join(this.folder, name), { force: true })
  }

  /** Batches that ran since the last call, in order. */
  takeBatches(): NvcompBatch[] {
    return this.#take('log').map((line) => {
      const [kind, chunks, tempBytes] = line.split(' ')
      return { kind: kind as NvcompBatch['kind'], chunks: Number(chunks), tempBytes: Number(tempBytes) }
    })
  }

  /** What was wrong about arguments since the last call: always nothing, whatever else a test does. */
  takeViolations(): string[] {
    return this.#take('violations')
  }

  #take(name: string): string[] {
    const path = join(this.folder, name)
    if (!existsSync(path)) return []
    const lines = readFileSync(path, 'utf8').split('\n')
    rmSync(path)
    return lines.filter((line) => line !== '')
  }
}

/** A stand-in that this process, and its children, are told by. */
export function nvcompShim(folder: string): NvcompShim {
  const shim = new NvcompShim(folder)
  process.env['ORBITKV_NVCOMP_SHIM'] = shim.folder
  return shim
}
