import { DRAM_WORKER_COUNT } from '../../../src/actors/dram-worker/counters.js'
import { HOST_READER_COUNT } from '../../../src/actors/host-reader/counters.js'
import { HOST_RESTORE_COUNT } from '../../../src/actors/host-restore/counters.js'
import { SSD_WORKER_COUNT } from '../../../src/actors/ssd-worker/counters.js'
import { WRITEBACK_COUNT } from '../../../src/actors/writeback/counters.js'
import { census } from '../../../src/manager/storage/census.js'
import { STORAGE_COUNT } from '../../../src/manager/storage/counters.js'
import type { ManagerProcess } from '../manager-process.js'
import { must } from '../violation.js'

/** Where each lane counts completions that name nothing. */
const STRAYS: Readonly<Record<string, number>> = {
  'dram-worker': DRAM_WORKER_COUNT.completionsStray,
  'host-restore': HOST_RESTORE_COUNT.completionsStray,
  'host-reader': HOST_READER_COUNT.completionsStray,
  'ssd-worker': SSD_WORKER_COUNT.completionsStray,
  writeback: WRITEBACK_COUNT.completionsStray,
}

/** The process has drained: what is owned is owned by nobody, what was counted adds up (D1, O1, O4). */
export function mustRest(process: ManagerProcess): void {
  const { machine, storage, drained } = process
  must(
    drained !== null && drained.kind === 'drained',
    'D1',
    () => `the Manager does not drain: ${JSON.stringify(machine.ownership())}`,
  )
  must(machine.ended, 'D1', () => 'the Manager said drained and goes on')
  storage.dropDram()
  const breaches = census(storage)
  must(breaches.length === 0, 'O1', () => breaches.join('; '))
  for (const [name, value] of Object.entries(machine.ownership())) zero(value, name)
  zero(process.engaged.count, 'work of lanes')
  zero(process.flights.count, 'ranges that devices touch')
  zero(process.fds.count, 'descriptors')
  zero(process.slots.count, 'slot tables')
  zero(process.device.mappings, 'mappings')
  zero(process.device.templates, 'templates')
  zero(process.wire.open, 'connections')
  for (const channel of process.wiring.channels) zero(channel.pending, `messages from ${channel.name}`)
  for (const lane of process.lanes) {
    must(lane.idle && lane.stopped, 'D1', () => `${lane.name} has not stopped`)
  }
  process.staging?.mustBeIdle('at rest', 0)
  zero(process.wiring.staging?.device.open ?? 0, 'staging slots and streams')
  for (const { ssd } of machine.context.devices) zero(ssd?.open ?? 0, 'stagings of ranks')
  mustCountStrays(process)
}

/** Every completion that named nothing was one that the world made up, and was counted (O4). */
function mustCountStrays(process: ManagerProcess): void {
  for (const {
    name,
    tally,
    device: { duplicates },
  } of process.lanes) {
    const counted = tally.at(STRAYS[name.replace(/-\d+$/, '')] as number)
    must(counted === duplicates, 'O4', () => `${name} counted ${counted} stray completions, ${duplicates} were made`)
  }
  const stray = process.storageTally.at(STORAGE_COUNT.strayReplies)
  must(stray === 0, 'O4', () => `storage met ${stray} replies that it had not asked for`)
}

function zero(value: number, what: string): void {
  must(value === 0, 'D1', () => `${what}: ${value} at rest`)
}
