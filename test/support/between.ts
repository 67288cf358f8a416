import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { shim } from './shims.js'

/** Libraries that stand behind; empty: the ones that the loader finds. */
export interface Behind {
  readonly libcuda: string
  readonly libcufile: string
}

/**
 * Orders for test/shims/between.c, which stands between one Manager and its libraries, be they real or stand-ins: what
 * is held is held by the device, and the bytes are moved by whoever stands behind.
 */
export class Between {
  readonly #folder: string
  readonly #behind: Behind
  readonly #library = shim('between')

  /** @param folder an empty folder of the test */
  constructor(folder: string, behind: Behind) {
    this.#folder = folder
    this.#behind = behind
  }

  /** Variables of the Manager's environment. */
  get environment(): readonly string[] {
    return [
      `ORBITKV_BETWEEN=${this.#folder}`,
      `ORBITKV_LIBCUDA=${this.#library}`,
      `ORBITKV_CUFILE_LIBRARY=${this.#library}`,
      ...(this.#behind.libcuda === '' ? [] : [`ORBITKV_BEHIND_LIBCUDA=${this.#behind.libcuda}`]),
      ...(this.#behind.libcufile === '' ? [] : [`ORBITKV_BEHIND_LIBCUFILE=${this.#behind.libcufile}`]),
      // A stream that is held must not hold another, by sharing its way to the device or for a kernel's first launch.
      'CUDA_DEVICE_MAX_CONNECTIONS=32',
      'CUDA_MODULE_LOADING=EAGER',
    ]
  }

  /** From now on: reads, writes, or copies beside them, are held until they are let go, or come short. */
  tell(what: 'read' | 'write' | 'copy', order: 'hold' | 'short'): void {
    const path = join(this.#folder, what)
    writeFileSync(`${path}.new`, `${order}\n`)
    renameSync(`${path}.new`, path)
  }

  letGo(what: 'read' | 'write' | 'copy'): void {
    rmSync(join(this.#folder, what), { force: true })
  }
}
