import type { NvcompReport } from '../binding/codecs.js'
import type { CudaProbe } from '../binding/devices.js'
import type { Native } from '../binding/surface.js'
import { CapabilityError } from '../shared/base/errors.js'
import type { ResolvedConfig } from './config.js'

/**
 * Opens what the codec of a start needs besides this program: nvCOMP for `ans`, nothing for the others. Null: nothing. Once
 * for the process, on main, before a lane could use it.
 * @throws CapabilityError codec_unavailable: an explicit codec is had or refused, never replaced by another.
 */
export function openCodec(
  native: Native,
  { codec, devices }: Pick<ResolvedConfig, 'codec' | 'devices'>,
  cuda: CudaProbe,
  cudaDevices: number,
): NvcompReport | null {
  if (codec.name !== 'ans') return null
  if (cudaDevices === 0) {
    const why = devices === 'none' ? '--devices none' : cuda.available ? 'the driver lists none' : cuda.reason
    throw refusal(cuda, `it runs on CUDA devices and none is served (${why})`, { reason: 'no-device' })
  }
  const report = native.openNvcomp(process.env['ORBITKV_NVCOMP_LIBRARY'] ?? '')
  if (report.available) return report
  const { reason, version, path } = report
  throw refusal(cuda, WHY[reason](version, path), { reason, version, path })
}

const WHY: Readonly<Record<NvcompReport['reason'], (version: number, path: string) => string>> = {
  ok: () => 'nvCOMP is open',
  'no-library': (_, path) => `nvCOMP is not installed (tried ${path})`,
  'no-symbol': (version, path) => `${path} ${versionText(version)}lacks functions of nvCOMP 5.3`,
  'wrong-version': (version, path) =>
    `${path} is nvCOMP ${versionText(version)}and 5.3 is needed: others have another interface or write other bytes`,
}

function versionText(version: number): string {
  return version === 0 ? '' : `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 100)} `
}

/** Wheels of nvCOMP are made for one major version of CUDA each. */
function refusal(cuda: CudaProbe, why: string, values: Readonly<Record<string, string | number>>): CapabilityError {
  const major = cuda.driverVersion > 0 && cuda.driverVersion < 13_000 ? 12 : 13
  return new CapabilityError(
    'codec_unavailable',
    `Cannot use --storage-codec ans: ${why}; on a GPU machine: pip install nvidia-libnvcomp-cu${major}==5.3.0.16 and export ORBITKV_NVCOMP_LIBRARY=/path/to/site-packages/nvidia/libnvcomp/lib64/libnvcomp.so.5, or choose another codec`,
    values,
  )
}
