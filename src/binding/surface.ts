import type { ChecksumFunctions } from './checksums.js'
import type { CodecFunctions, NvcompFunctions } from './codecs.js'
import type { CuFileFunctions } from './cufile.js'
import type { DeviceFunctions } from './devices.js'
import type { FileFunctions } from './files.js'
import type { MemoryFunctions } from './memory.js'
import type { PoolFunctions } from './pool.js'
import type { PortFunctions } from './port.js'
import type { ProbeFunctions } from './probe.js'
import type { ClientSlotFunctions, SlotFunctions } from './slots.js'
import type { SocketFunctions } from './sockets.js'
import type { TemplateFunctions } from './templates.js'

/**
 * The typed face of native/: same names, same order as native/addon/surface.cc. Mechanical: it validates shapes that
 * memory safety needs and decides nothing. `null` means none; `undefined` here is always a bug. Offsets and lengths
 * are numbers below 2^53. Calls on the data path return a number (count, or -errno) and never throw; calls that open
 * things throw an Error with `code` ('EPERM', ...) and `errno`, which errors.ts turns into our classes.
 *
 * Process-wide things are named by small integers from one native registry: pools, files, mappings, templates, slot
 * tables, ports. They outlive the worker that made them until every operation that names them has completed.
 *
 * Each noun has its file here: what it is, its functions at the addon, its methods at a port.
 */

/** Everything native. One object per thread; the registry behind it is one per process. */
export interface Native
  extends ProbeFunctions,
    PoolFunctions,
    FileFunctions,
    CuFileFunctions,
    DeviceFunctions,
    MemoryFunctions,
    TemplateFunctions,
    SlotFunctions,
    ClientSlotFunctions,
    ChecksumFunctions,
    CodecFunctions,
    NvcompFunctions,
    SocketFunctions,
    PortFunctions {
  closeFd(fd: number): void
  /** CLOCK_MONOTONIC in microseconds, with a fraction. Slots carry it as nanoseconds. */
  monotonicUs(): number
}
