import test from 'ava'
import type { NvcompReport } from '../../src/binding/codecs.js'
import type { CudaProbe } from '../../src/binding/devices.js'
import type { Native } from '../../src/binding/surface.js'
import { openCodec } from '../../src/control/storage-codec.js'
import { CapabilityError } from '../../src/shared/base/errors.js'
import { CODEC_NAMES, type CodecName } from '../../src/shared/codec/setting.js'

const CUDA = { available: true, reason: '', driverVersion: 12_040, devices: [] } as unknown as CudaProbe
const OPEN: NvcompReport = { available: true, reason: 'ok', version: 5300, path: '/lib/libnvcomp.so.5' }

/** A host whose nvCOMP answers so, and which library it was asked for. */
function host(report: NvcompReport) {
  const asked: string[] = []
  const openNvcomp = (library: string) => {
    asked.push(library)
    return report
  }
  return { asked, native: { openNvcomp } as unknown as Native }
}

function open(name: CodecName, report: NvcompReport, cudaDevices = 1, cuda = CUDA) {
  const { native, asked } = host(report)
  const config = { codec: { name }, devices: 'all' } as const
  return { asked, start: () => openCodec(native, config, cuda, cudaDevices) }
}

test.beforeEach(() => {
  delete process.env['ORBITKV_NVCOMP_LIBRARY']
})

test('openCodec: nvCOMP is opened for ans alone', (t) => {
  for (const name of CODEC_NAMES) {
    const { asked, start } = open(name, OPEN)
    t.is(start(), name === 'ans' ? OPEN : null)
    t.deepEqual(asked, name === 'ans' ? [''] : [])
  }
})

test('openCodec: ORBITKV_NVCOMP_LIBRARY names the library', (t) => {
  process.env['ORBITKV_NVCOMP_LIBRARY'] = '/opt/libnvcomp.so.5'
  const { asked, start } = open('ans', OPEN)
  start()
  t.deepEqual(asked, ['/opt/libnvcomp.so.5'])
})

const MISSING: readonly (readonly [NvcompReport['reason'], number, string, RegExp])[] = [
  ['no-library', 0, 'libnvcomp.so.5', /not installed \(tried libnvcomp\.so\.5\)/],
  ['wrong-version', 6000, '/a/libnvcomp.so', /\/a\/libnvcomp\.so is nvCOMP 6\.0 and 5\.3 is needed/],
  ['no-symbol', 5300, '/a/libnvcomp.so', /\/a\/libnvcomp\.so 5\.3 lacks functions/],
  ['no-symbol', 0, '/a/libnvcomp.so', /\/a\/libnvcomp\.so lacks functions/],
]

for (const [reason, version, path, says] of MISSING) {
  test(`openCodec: ans without its library refuses the start and says how to install it: ${reason} ${version}`, (t) => {
    const error = t.throws(open('ans', { available: false, reason, version, path }).start, {
      instanceOf: CapabilityError,
      code: 'codec_unavailable',
    })
    t.regex(error?.message ?? '', says)
    t.regex(error?.message ?? '', /pip install nvidia-libnvcomp-cu12==5\.3\.0\.16 and export ORBITKV_NVCOMP_LIBRARY=/)
    t.deepEqual(error?.values, { reason, version, path })
  })
}

test('openCodec: ans without a served CUDA device is refused before the library is looked for', (t) => {
  const none = { ...CUDA, available: false, reason: 'libcuda.so.1: not found', driverVersion: 0 }
  const { asked, start } = open('ans', OPEN, 0, none)
  const error = t.throws(start, { instanceOf: CapabilityError, code: 'codec_unavailable' })
  t.regex(error?.message ?? '', /none is served \(libcuda\.so\.1: not found\).*nvidia-libnvcomp-cu13/)
  t.deepEqual(asked, [])
})
