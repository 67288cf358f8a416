import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import test, { type ExecutionContext } from 'ava'
import { shim } from '../support/shims.js'

/** The failure matrix of the CUDA driver and its compiler, over their twins: one process a fault. */

const CHILD = fileURLToPath(new URL('../support/cuda-faults-child.js', import.meta.url))

interface Setting {
  readonly ORBITKV_SHIM?: string
  readonly ORBITKV_SHIM_NVRTC?: string
  readonly ORBITKV_LIBCUDA?: string
  readonly cacheMode?: number
}

async function holds(t: ExecutionContext, scenario: string, setting: Setting): Promise<void> {
  const cache = mkdtempSync(join(tmpdir(), 'orbitkv-kernels-'))
  const { cacheMode = 0o700, ...environment } = setting
  chmodSync(cache, cacheMode)
  const child = spawn(process.execPath, [CHILD, scenario], {
    stdio: ['ignore', 'inherit', 'pipe'],
    env: {
      ...process.env,
      ORBITKV_LIBCUDA: shim('libcuda'),
      ORBITKV_LIBNVRTC: shim('libnvrtc'),
      ORBITKV_KERNEL_CACHE: cache,
      ...environment,
    },
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  const [code, signal] = await once(child, 'close')
  t.deepEqual([code, signal], [0, null], said)
}

const CLAIMS: readonly (readonly [scenario: string, claim: string, setting?: Setting])[] = [
  ['no-device', 'a driver without a device says so, and opens nothing', { ORBITKV_SHIM: 'no-device' }],
  ['old-driver', 'a driver that lacks a function is named with it', { ORBITKV_SHIM: 'old-driver' }],
  ['no-library', 'without a driver the reason names what was tried', { ORBITKV_LIBCUDA: '/nowhere/libcuda.so.1' }],
  ['relative-library', 'an override that is no absolute path opens nothing', { ORBITKV_LIBCUDA: 'libcuda.so.1' }],
  ['no-compiler', 'without kernels copies go by the copy engine alone', { ORBITKV_SHIM_NVRTC: 'compile' }],
  ['no-image', 'code that the compiler does not give is no kernel, and is not kept', { ORBITKV_SHIM_NVRTC: 'image' }],
  ['no-compiler-version', 'a compiler without a version is none', { ORBITKV_SHIM_NVRTC: 'version' }],
  ['no-uuid', 'a device that does not say what it is, is not used', { ORBITKV_SHIM: 'uuid=3' }],
  ['later-device', 'for a device newer than the compiler the driver translates', { ORBITKV_SHIM_NVRTC: 'old' }],
  ['no-memops', 'without words on the stream events tell the end', { ORBITKV_SHIM: 'no-memops' }],
  ['no-batch', 'without batched copies each goes alone', { ORBITKV_SHIM: 'no-batch' }],
  ['refused-launch', 'a refused launch fails its job alone'],
  ['refused-copy', 'a refused copy fails its job alone'],
  ['refused-feed', 'descriptors that cannot be fed are read where they are'],
  ['refused-fence', 'a fence that the driver refuses loses nothing, and nothing ends before the device has done'],
  ['refused-memory', 'memory that the driver does not give is a typed refusal, and nothing is left behind'],
  ['virtual-memory', 'memory that cannot be shared is refused with the name of the setting'],
  ['lost-at-launch', 'K9: a sticky error at a launch ends the device for the process'],
  ['lost-in-flight', 'K9: a sticky error in flight ends every job once, with one code'],
  ['lost-asleep', 'K9: a lane that sleeps learns of a sticky error'],
  ['lost-elsewhere', 'K9: a sticky error of one stream ends the jobs of all'],
  ['never-ending', 'a job that does not end keeps what the device may touch'],
  ['quarantine', 'a port that closes over a job that does not end is kept with its memory'],
  [
    'codes-without-compiler',
    'without kernels FP8 is coded by the processor, and TurboQuant not at all',
    { ORBITKV_SHIM_NVRTC: 'compile' },
  ],
  ['codes-without-memory', 'what there is no memory to encode with stays what it is, and decoding says so'],
  ['codes-refused', 'a refused launch or copy fails its codings alone'],
  ['codes-lost', 'K9: a sticky error ends codings with one code'],
  ['cache', 'a kernel that was kept is whole or compiled again'],
  ['shared-cache', 'a cache that others can write is not used', { cacheMode: 0o777 }],
  ['stale-cache', 'kernels of a device are kept for the next process'],
]

for (const [scenario, claim, setting = {}] of CLAIMS) {
  test.serial(`twin of the driver: ${claim}`, (t) => holds(t, scenario, setting))
}
