import test from 'ava'
import type { CudaProbe } from '../../src/binding/devices.js'
import { servedDevices } from '../../src/control/devices.js'
import { HOST_DEVICE } from '../../src/manager/lanes/served-device.js'
import { CapabilityError, ConfigError } from '../../src/shared/base/errors.js'

function device(ordinal: number, failure: string | null = null): CudaProbe['devices'][number] {
  const uuid = `GPU-0123abcd-0123-0123-0123-00000000000${ordinal}`
  return { ordinal, uuid, name: 'H200', architecture: 90, multiprocessors: 132, memoryBytes: 1, failure }
}

function probe(...devices: CudaProbe['devices']): CudaProbe {
  const compiler = { available: true, reason: '', library: 'libnvrtc.so.13', version: 13000 }
  const available = devices.length > 0
  const reason = available ? '' : 'libcuda.so.1: not found'
  return { available, reason, library: '', driverVersion: 13000, devices, compiler }
}

test('devices: the host is always the first, and all takes what works', (t) => {
  t.deepEqual(servedDevices('all', probe()), [HOST_DEVICE])
  t.deepEqual(servedDevices('none', probe(device(0))), [HOST_DEVICE])
  const names = servedDevices('all', probe(device(0), device(1, 'CUDA_ERROR_ECC_UNCORRECTABLE'), device(2))).map(
    ({ name }) => name,
  )
  t.deepEqual(names, ['host', 'cuda:0', 'cuda:2'])
})

test('devices: those that are named are taken by number and by UUID, in their order', (t) => {
  const two = probe(device(0), device(1))
  t.deepEqual(
    servedDevices([device(1).uuid.toUpperCase(), '0'], two).map(({ name }) => name),
    ['host', 'cuda:1', 'cuda:0'],
  )
})

test('devices: one that is not there, or twice, refuses the start and is named', (t) => {
  const missing = t.throws(() => servedDevices(['3'], probe(device(0))), { instanceOf: CapabilityError })
  t.regex(missing?.message ?? '', /CUDA device 3: the driver lists 1/)
  const none = t.throws(() => servedDevices(['0'], probe()), { instanceOf: CapabilityError })
  t.regex(none?.message ?? '', /libcuda\.so\.1: not found/)
  t.throws(() => servedDevices(['0', device(0).uuid], probe(device(0))), { instanceOf: ConfigError, message: /twice/ })
  t.throws(() => servedDevices(['0'], probe(device(0, 'lost'))), { instanceOf: CapabilityError })
})
