import { type HostReaderEffect, HostReaderMachine } from '../../../src/actors/host-reader/machine.js'
import { CLIENT_READS_MAX } from '../../../src/actors/host-reader/messages.js'
import { InvariantError } from '../../../src/shared/base/errors.js'
import { NO_CRC, NO_OFFSET, READ, SOURCE } from '../../../src/shared/layout/descriptors.js'
import type { List } from '../../../src/shared/layout/records.js'
import { planReaderBatches } from '../../../src/shared/planning/reader-batches.js'
import { PlainTally } from '../../support/plain-tally.js'
import { type Breach, crash, type MakeTarget } from '../target.js'

/** Lists longer than this only take time. */
const DESCRIPTORS_MAX = 64

const EINVAL = 22
/** As the addon sees a length: anything else it refuses. */
const whole = (bytes: number) => Number.isInteger(bytes) && bytes > 0 && bytes < 2 ** 31

/** The whole descriptors that some bytes hold, as a list of memory of its own. */
function listIn(input: Uint8Array, doublesEach: number): List {
  const doubles = new Float64Array(input.slice(0, input.length - (input.length % 8)).buffer)
  const length = Math.min(doubles.length, doublesEach * DESCRIPTORS_MAX)
  return { doubles, offset: 0, length }
}

function bytesOf(...doubles: number[]): Uint8Array {
  return new Uint8Array(Float64Array.from(doubles).buffer)
}

/**
 * READ lists through the host-reader's machine. Its client is the Manager, so a list that is no list is a bug; every
 * descriptor of any other is submitted as it stands, once, and answered once. What is in it the addon refuses.
 */
export const reads: MakeTarget = (weak) => ({
  name: 'read-list',
  seeds: [
    bytesOf(0, 1, 0, 0, 4096, 4096, 4096, 7),
    bytesOf(0, 1, 0, 0, 4096, 512, 512, NO_CRC, 1, 1, 4096, 4096, 4096, 512, 1024, 9),
    bytesOf(...Array.from({ length: 8 * 20 }, (_, at) => at)),
  ],
  run(input) {
    const list = listIn(input, READ.doubles)
    const machine = new HostReaderMachine({ clients: 1, depth: 8 }, new PlainTally())
    const out: HostReaderEffect[] = []
    try {
      machine.step({ kind: 'request', client: 0, request: { kind: 'read-batch', batch: 5, list } }, out)
    } catch (error) {
      const fits = list.length % READ.doubles === 0 && list.length / READ.doubles <= CLIENT_READS_MAX
      return error instanceof InvariantError && !fits ? null : crash(`threw ${String(error)}`)
    }
    const count = list.length / READ.doubles
    let submitted = 0
    let answered = 0
    for (let at = 0; at < out.length; at++) {
      const effect = out[at] as HostReaderEffect
      if (effect.kind === 'submit-read') {
        const wrong = differs(effect, list, submitted++, weak)
        if (wrong !== null) return wrong
        machine.step(
          { kind: 'io-completed', tag: effect.tag, result: whole(effect.bytes) ? effect.bytes : -EINVAL },
          out,
        )
      } else answered++
    }
    if (submitted !== count || answered !== count)
      return crash(`${count} reads, ${submitted} submitted, ${answered} answered`)
    return machine.idle ? null : crash('something is left in the machine')
  },
})

function differs(effect: HostReaderEffect & { kind: 'submit-read' }, list: List, read: number, weak: boolean) {
  const at = (field: number) => list.doubles[read * READ.doubles + field] as number
  const crc = at(READ.crc32)
  const same =
    Object.is(effect.file, at(READ.file)) &&
    Object.is(effect.fileOffsetBytes, at(READ.fileOffsetBytes)) &&
    Object.is(effect.poolOffsetBytes, at(READ.poolOffsetBytes)) &&
    Object.is(effect.bytes, at(READ.bytes)) &&
    Object.is(effect.segmentBytes, at(READ.segmentBytes)) &&
    Object.is(effect.segmentStrideBytes, at(READ.segmentStrideBytes)) &&
    effect.verify === (crc !== NO_CRC)
  // The weakness: verification is a matter of the checksum being positive.
  const verify = weak ? crc > 0 : crc !== NO_CRC
  return same && effect.verify === verify ? null : crash(`read ${read} is submitted otherwise than it was asked`)
}

/**
 * SOURCE lists through the planner of host-restore: a bug's list stops the lane; of any other every source is either
 * in DRAM or served by one read that names the same bytes.
 */
export const sources: MakeTarget = (weak) => ({
  name: 'source-list',
  seeds: [
    bytesOf(1, 0, 0, NO_OFFSET, 0, 1, 0, 4096, 4096, 4096, 7, 1, 0, 1, 0, 11, 0),
    bytesOf(
      ...[1, 0, 0, NO_OFFSET, 0, 1, 0, 4096, 4096, 4096, 7, 1, 0, 1, 0, 11, 0],
      ...[1, 0, 1, NO_OFFSET, 0, 1, 0, 4096, 4096, 4096, 7, 1, 1, 1, 1, 11, 0],
      ...[1, 1, 2, 8192, 1, 2, 4096, 4096, 4096, 4096, 9, 2, 0, 1, 2, 12, 0],
      ...[1, 1, 2, NO_OFFSET, 1, 2, 4096, 512, 272, 512, 9, 3, 0, 1, 3, 12, 1],
    ),
  ],
  run(input) {
    const list = listIn(input, SOURCE.doubles)
    try {
      const plan = planReaderBatches(list)
      return unserved(list, plan, weak)
    } catch (error) {
      return error instanceof InvariantError ? null : crash(`threw ${String(error)}`)
    }
  },
})

function unserved(list: List, plan: ReturnType<typeof planReaderBatches>, weak: boolean): Breach | null {
  const count = list.length / SOURCE.doubles
  const at = (source: number, field: number) => list.doubles[source * SOURCE.doubles + field] as number
  const served = new Int32Array(count)
  for (const source of plan.resident) served[source] = (served[source] as number) + 1
  for (let read = 0; read < plan.reads.length; read++) {
    const first = plan.reads[read] as number
    for (let i = plan.scatterFirst[read] as number; i < (plan.scatterFirst[read + 1] as number); i++) {
      const source = plan.scatter[i] as number
      served[source] = (served[source] as number) + 1
      for (const field of [SOURCE.store, SOURCE.file, SOURCE.fileOffsetBytes, SOURCE.generation]) {
        if (!Object.is(at(source, field), at(first, field)) && at(source, field) !== at(first, field)) {
          return crash(`source ${source} is served by another read`)
        }
      }
    }
  }
  // The weakness: a source that is in DRAM and on an SSD counts twice.
  const once = served.every((times, source) => times + (weak && at(source, SOURCE.poolOffsetBytes) > 1e6 ? 1 : 0) === 1)
  const ready = plan.batches.reduce((sum, { readCount }) => sum + readCount, 0)
  if (ready !== plan.reads.length) return crash('a read is in no batch, or in two')
  return once ? null : crash('a source is not served exactly once')
}
