import type { CudaDevice } from '../../src/binding/devices.js'
import type { Native } from '../../src/binding/surface.js'
import type { DeviceName } from '../../src/shared/base/device-name.js'
import { Refusal } from './options.js'

/** The GPU that a bench was told; null for the host. @throws Refusal when it is not there. */
export function cudaDeviceOf(native: Native, name: DeviceName): CudaDevice | null {
  if (name === 'host') return null
  const { devices, reason } = native.cudaProbe()
  const found = devices.find(({ ordinal }) => name === `cuda:${ordinal}`)
  if (found !== undefined) return found
  throw new Refusal(`Cannot measure ${name}: ${reason === '' ? 'there is no such device' : reason}`)
}

/** Memory for engine pages, on a device or in shared memory of the host. */
export class PageMemory {
  readonly mapping: number
  readonly bytes: number
  readonly #native: Native
  /** Host memory, or a copy through which a device's is looked at. */
  readonly #view: Buffer
  readonly #onDevice: boolean

  constructor(native: Native, bytes: number, cuda: CudaDevice | null) {
    this.#native = native
    this.bytes = bytes
    this.#onDevice = cuda !== null
    if (cuda === null) {
      const fd = native.createMemory(bytes)
      this.mapping = native.importMemory(fd).mapping
      native.closeFd(fd)
      const view = native.mappingView(this.mapping, 0, bytes)
      this.#view = Buffer.from(view.buffer, view.byteOffset, bytes)
    } else {
      this.mapping = native.allocateDeviceMemory(cuda.uuid, bytes).mapping
      this.#view = Buffer.alloc(bytes)
    }
  }

  /** Sets all of it. `fill` writes to memory of the host. */
  write(fill: (memory: Buffer) => void): void {
    fill(this.#view)
    if (this.#onDevice) this.#native.writeMapping(this.mapping, 0, this.#view)
  }

  /** What it holds now; read-only, and as of this call for a device. */
  read(): Buffer {
    if (this.#onDevice) this.#native.readMapping(this.mapping, 0, this.#view)
    return this.#view
  }

  release(): void {
    this.#native.releaseMapping(this.mapping)
  }
}
