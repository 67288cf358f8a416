import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { MIB } from '../../src/shared/base/units.js'
import { crc32 } from '../../src/shared/codec/crc32.js'
import { openShim, shimMissing } from '../support/cufile-shim.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { useCudaShims } from '../support/shims.js'
import { NativeLane } from './open-lane.js'

/** Staging of a CUDA device over the twins of libcuda, libnvrtc and libcufile: transfers queued on the driver's stream. */

const native = loadNative()
const missing = shimMissing()
const shimTest = needs(missing === null, missing ?? '')

shimTest(
  'staging of a CUDA device: what the stream finds in the result word is the completion',
  (t: ExecutionContext) => {
    useCudaShims()
    const library = openShim(t)
    t.true(native.openCuFile({ library: library.library, nativeOnly: false, logFolder: library.folder }).available)
    const { file } = native.openShard(join(folderOf(t), 'shard.dat'), 8 * MIB, false)
    t.is(native.registerCuFileShard(file), 0)
    const lane = new NativeLane(native, MIB)
    const stream = lane.port.openStaging('cuda:0', 4 * MIB)
    t.true(stream >= 0)
    const none = new Float64Array(0)

    t.is(lane.port.stagingWrite(stream, 1, file, 0, 0, 8192, 0, none, 0, 0), 0)
    t.is(lane.reap(1)[0]?.result, 8192)
    t.is(lane.port.stagingRead(stream, 2, file, 0, 8192, Float64Array.of(0, 8192, 4000, 4096), 0, 1, 0), 0)
    t.is(lane.reap(1)[0]?.result, 8192)
    t.is(lane.results[0], crc32(new Uint8Array(8000)), 'checksummed on the device, without the padding')

    for (const [told, result] of [
      ['5027', -5027],
      ['5030', -5030],
      ['-5', -5],
      ['-5044', -5044],
      ['short', 4096],
    ] as const) {
      for (const kind of ['read', 'write'] as const) {
        library.tell(kind, told)
        const refused =
          kind === 'read'
            ? lane.port.stagingRead(stream, 3, file, 0, 8192, none, 0, 0, 0)
            : lane.port.stagingWrite(stream, 3, file, 0, 0, 8192, 8192, none, 0, 0)
        t.is(refused, 0)
        t.is(lane.reap(1)[0]?.result, result, `${kind} ${told}`)
        library.forget(kind)
      }
    }

    library.tell('read', 'hold')
    t.is(lane.port.stagingRead(stream, 4, file, 0, 4096, none, 0, 0, 0), 0)
    t.is(lane.port.stagingRead(stream, 5, file, 0, 4096, none, 0, 0, 0), -16, 'the words are those of one transfer')
    t.is(lane.port.closeStream(stream), -16)
    library.forget('read')
    t.is(lane.reap(1)[0]?.result, 4096)
    t.is(lane.port.closeStream(stream), 0)

    library.tell('stream', 5038)
    t.is(lane.port.openStaging('cuda:0', 4 * MIB), -5038)
    library.forget('stream')
    lane.close()
    t.is(native.closeCuFile(), 0, 'a slot that was refused has left no buffer registered')
    native.closeShard(file)
  },
)
