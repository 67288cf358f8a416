import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { ToldShim } from './told-shim.js'

/** Files by which the stand-in is told: test/shims/libnvcomp.c. */
export type NvcompFile =
  | 'version'
  | 'properties'
  | 'temp'
  | 'decode-temp'
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
export class NvcompShim extends ToldShim<NvcompFile> {
  /** `whole`: without it the library lacks a symbol. */
  constructor(folder: string, whole = true) {
    super(
      folder,
      whole ? 'libnvcomp.so.5' : 'libnvcomp-part.so.5',
      'libnvcomp.c',
      whole ? [] : ['-DWITHOUT_DECOMPRESSION'],
    )
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
    const lines = this.notes(name)
    rmSync(join(this.folder, name), { force: true })
    return lines
  }
}

/** A stand-in that this process, and its children, are told by. */
export function nvcompShim(folder: string): NvcompShim {
  const shim = new NvcompShim(folder)
  process.env['ORBITKV_NVCOMP_SHIM'] = shim.folder
  return shim
}
