import type { CudaDevice } from '../../src/binding/devices.js'
import { loadNative } from '../../src/binding/load.js'
import type { StreamOptions } from '../../src/binding/streams.js'
import type { Native } from '../../src/binding/surface.js'
import { COPY } from '../../src/shared/layout/descriptors.js'
import { CudaLane } from '../../test/support/cuda-lane.js'
import { Refusal } from './options.js'

/** The GPU that a bench runs on; every time is the device's own, between two events. */
export interface BenchDevice {
  readonly native: Native
  readonly device: CudaDevice
  readonly driverVersion: number
}

/** @throws Refusal where there is no GPU: no number is printed. */
export function requireDevice(): BenchDevice {
  const native = loadNative()
  const probe = native.cudaProbe()
  const [device] = probe.devices
  if (!probe.available || device === undefined) throw new Refusal(`Cannot measure a GPU: ${probe.reason}`)
  return { native, device, driverVersion: probe.driverVersion }
}

/** Queues one job; returns what the stream answered. */
export type Queued = () => number

/** A timed stream over a pool of its own, and what its last job took. */
export class TimedLane {
  readonly #lane: CudaLane

  constructor(native: Native, poolBytes: number, options: StreamOptions) {
    this.#lane = new CudaLane(native, poolBytes, { ...options, timed: true })
  }

  get kernels(): string {
    const { kernels, kernelsReason } = this.#lane.port.streamReport(this.#lane.stream)
    return kernels ? 'loaded' : kernelsReason
  }

  get registerMs(): number {
    return this.#lane.port.streamReport(this.#lane.stream).poolRegisterMs
  }

  /** Another stream of the same port, over the same pool. */
  stream(options: StreamOptions): number {
    return this.#lane.port.openStream('cuda:0', { ...options, timed: true })
  }

  /** Gives back a stream that has nothing in flight. */
  end(stream: number): void {
    const code = this.#lane.port.closeStream(stream)
    if (code !== 0) throw new Error(`stream ${stream} does not close: ${code}`)
  }

  get first(): number {
    return this.#lane.stream
  }

  /** COPY descriptors to be queued. */
  copy(stream: number, direction: 0 | 1, list: Float64Array): Queued {
    return () => this.#lane.port.copy(stream, 0, direction, list, 0, list.length / COPY.doubles)
  }

  /** MOVE descriptors to be queued. */
  move(stream: number, list: Float64Array): Queued {
    return () => this.#lane.port.move(stream, 0, list, 0, list.length / 5)
  }

  /**
   * Queues jobs and returns the device's nanoseconds for the last one. Behind others of its stream a job starts at
   * once; alone, the time until the processor has submitted it is counted too.
   */
  last(...jobs: readonly Queued[]): number {
    for (const queue of jobs) {
      const accepted = queue()
      if (accepted !== 0) throw new Error(`the stream refused a job: ${accepted}`)
    }
    const completed = this.#lane.reap(jobs.length)
    const failed = completed.find(({ result }) => result !== 0)
    if (failed !== undefined) throw new Error(`a job failed: ${failed.result}`)
    const nanoseconds = completed.at(-1)?.nanoseconds ?? 0
    if (nanoseconds === 0) throw new Error('the device gave no time')
    return nanoseconds
  }

  close(): void {
    this.#lane.close()
  }
}

/** The same order on every machine, and no two neighbours in it. */
export function shuffled(count: number): number[] {
  const order = Array.from({ length: count }, (_, i) => i)
  let state = 12_345
  for (let i = count - 1; i > 0; i--) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    const j = state % (i + 1)
    const swapped = order[i] ?? 0
    order[i] = order[j] ?? 0
    order[j] = swapped
  }
  return order
}
