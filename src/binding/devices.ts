/** A CUDA device of this host, as its driver names it. */
export interface CudaDevice {
  /** The N of openStream('cuda:N'): the driver's order in this process. */
  readonly ordinal: number
  /** `GPU-` and 36 characters, lower case. */
  readonly uuid: string
  readonly name: string
  /** Compute capability, major * 10 + minor: 90 for 9.0. */
  readonly architecture: number
  readonly multiprocessors: number
  readonly memoryBytes: number
  /** The sticky error that ended this device for this process, or null. */
  readonly failure: string | null
}

/** Whether the CUDA driver can be used, and what it offers. Both libraries are opened at run time and never linked. */
export interface CudaProbe {
  readonly available: boolean
  /** Why not, with every path that was tried; empty when available. */
  readonly reason: string
  /** What was opened; empty when nothing was. */
  readonly library: string
  /** As the driver counts: 13000 is 13.0. */
  readonly driverVersion: number
  readonly devices: readonly CudaDevice[]
  /** The run-time compiler: without it there are no kernels, and every copy goes by the copy engine. */
  readonly compiler: {
    readonly available: boolean
    readonly reason: string
    readonly library: string
    /** major * 1000 + minor * 10, as the driver counts. */
    readonly version: number
  }
}

export interface KernelReport {
  readonly name: string
  readonly bytes: number
  /** It was compiled before, with this source, these options, this compiler, for this architecture. */
  readonly cached: boolean
}

/** CUDA devices and their kernels, at the addon. */
export interface DeviceFunctions {
  /** What the CUDA driver offers here. Loads it at the first call; cheap afterwards. Never throws. */
  cudaProbe(): CudaProbe
  /**
   * Compiles every kernel for an architecture (90 for 9.0), or takes it from the cache; needs the compiler and no
   * device. Throws ENODEV without a compiler, EINVAL with its log.
   */
  compileKernels(architecture: number): KernelReport[]
}
