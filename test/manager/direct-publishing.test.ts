import test from 'ava'
import type { ManagerEffect } from '../../src/manager/messages.js'
import { MANAGER_DEFAULTS } from '../../src/manager/options.js'
import { census } from '../../src/manager/storage/census.js'
import { ERROR_CODES } from '../../src/shared/base/errors.js'
import { EMPTY_LIST, listOf } from '../../src/shared/layout/records.js'
import { SLOT_STATE } from '../../src/shared/layout/slot-states.js'
import type { SsdRoutes } from '../../src/shared/routing/ssd-selection.js'
import { ManagerFixture } from './fixture.js'
import { keysOf } from './storage/fixture.js'

/** Publications that go from engine pages to DRAM and to the SSD at once, with lanes that answer when told. */

const CUFILE: SsdRoutes = {
  ...MANAGER_DEFAULTS.routes,
  backend: 'cufile',
  readRoute: 'cufile',
  writeRoute: 'cufile',
  evidence: 'compatibility-allowed',
  cause: 'configured',
}
const OK = ERROR_CODES.ok

class Bed {
  readonly manager: ManagerFixture

  constructor(routes: Partial<SsdRoutes> = {}) {
    // One block a part.
    const options = { staging: ['host'], routes: { ...CUFILE, ...routes }, publishPartBytes: 4096 } as const
    this.manager = new ManagerFixture(options)
  }

  publish(connection: number, generation: number, ...numbers: number[]): unknown {
    const pages = Uint32Array.from(numbers, (_, at) => at)
    const groups = [{ group: 0, layers: null, items: { keys: keysOf(...numbers), pages } }]
    return this.manager.ask(connection, {
      kind: 'publish',
      slot: 0,
      generation,
      fence: 0,
      partialOk: false,
      groups,
    })
  }

  /** Numbers of the jobs of a kind that lanes were given, oldest first. */
  jobs(lane: 'to-ssd-worker' | 'to-dram-worker', kind: string): number[] {
    return this.manager.log.flatMap((each: ManagerEffect | { kind: string }) => {
      if (each.kind !== lane || !('request' in each)) return []
      const { request } = each
      return request.kind === kind && 'job' in request ? [request.job] : []
    })
  }

  copied(job: number, status: number = OK): void {
    this.manager.step({ kind: 'ssd-worker', device: 0, reply: { kind: 'copied', job, status } })
  }

  written(job: number, status: number = OK): void {
    const reply = { kind: 'write-done', job, status, list: listOf([status]) } as const
    this.manager.step({ kind: 'ssd-worker', device: 0, reply })
  }

  saved(job: number): void {
    this.manager.step({
      kind: 'dram-worker',
      device: 0,
      reply: { kind: 'save-done', job, status: OK, list: EMPTY_LIST },
    })
  }

  checked(job: number): void {
    this.manager.step({
      kind: 'dram-worker',
      device: 0,
      reply: { kind: 'checksum-done', job, status: OK, list: listOf([7]) },
    })
  }

  /** State and error of the slots that ended, in order. */
  ends(): (readonly [number, number])[] {
    return this.manager.log.flatMap((each) =>
      each.kind === 'slot-finish' ? [[each.state, each.errorCode] as const] : [],
    )
  }

  get owned(): Record<string, number> {
    const { writesInFlight = 0, operationsOpen = 0, jobsOpen = 0 } = this.manager.machine.ownership()
    return { writesInFlight, operationsOpen, jobsOpen }
  }
}

const NOTHING = { writesInFlight: 0, operationsOpen: 0, jobsOpen: 0 }

test('a block that comes whole is on the SSD once copies and write have both ended, in either order', (t) => {
  const bed = new Bed()
  bed.manager.engine(1)
  bed.publish(1, 1, 7)
  const [first = 0] = bed.jobs('to-ssd-worker', 'write')
  bed.copied(first)
  bed.checked(bed.jobs('to-dram-worker', 'checksum')[0] ?? 0)
  t.deepEqual(bed.ends(), [], 'its pages are in use until the SSD has ended')
  bed.written(first)
  t.deepEqual(bed.ends(), [[SLOT_STATE.done, OK]])
  bed.publish(1, 2, 8)
  const [, second = 0] = bed.jobs('to-ssd-worker', 'write')
  bed.copied(second)
  bed.written(second)
  t.deepEqual(bed.owned, { ...NOTHING, writesInFlight: 1, operationsOpen: 1, jobsOpen: 1 }, 'written, not yet sealed')
  bed.checked(bed.jobs('to-dram-worker', 'checksum')[1] ?? 0)
  t.is(bed.ends().length, 2)
  t.deepEqual(bed.owned, NOTHING)
  t.deepEqual(census(bed.manager.storage), [])
})

test('a block that another engine has begun goes by DRAM: its pages are not written over, no extent stays behind', (t) => {
  const bed = new Bed()
  bed.manager.engine(1)
  bed.manager.engine(2)
  bed.publish(1, 1, 7, 8)
  bed.publish(2, 1, 8)
  const [save = 0] = bed.jobs('to-dram-worker', 'save')
  t.not(save, 0, 'the second engine brings block 8, which the first has only claimed')
  const [write = 0] = bed.jobs('to-ssd-worker', 'write')
  bed.copied(write)
  t.is(bed.jobs('to-ssd-worker', 'write').length, 1, 'nothing of block 8 is taken from the first engine')
  bed.written(write)
  bed.saved(save)
  for (const job of bed.jobs('to-dram-worker', 'checksum')) bed.checked(job)
  t.deepEqual(bed.ends(), [
    [SLOT_STATE.done, OK],
    [SLOT_STATE.done, OK],
  ])
  // Block 8 is written as any block of DRAM.
  t.deepEqual(bed.owned, { ...NOTHING, writesInFlight: 1 })
  t.deepEqual(census(bed.manager.storage), [])
})

test('a cancelled write holds slot, pages and extent until its lane has ended it', (t) => {
  const bed = new Bed()
  bed.manager.engine(1)
  bed.publish(1, 1, 7)
  const [write = 0] = bed.jobs('to-ssd-worker', 'write')
  bed.manager.ask(1, { kind: 'cancel', slot: 0, generation: 1 })
  bed.copied(write, ERROR_CODES.cancelled)
  t.deepEqual(bed.ends(), [])
  t.deepEqual(bed.owned, { writesInFlight: 1, operationsOpen: 1, jobsOpen: 1 })
  bed.written(write, ERROR_CODES.cancelled)
  t.deepEqual(bed.ends(), [[SLOT_STATE.cancelled, ERROR_CODES.cancelled]])
  t.deepEqual(bed.owned, NOTHING)
  t.deepEqual(census(bed.manager.storage), [])
})

test('a refused staging buffer fails the publication by its name, and gives back what it had', (t) => {
  const bed = new Bed()
  bed.manager.engine(1)
  bed.publish(1, 1, 7)
  const [write = 0] = bed.jobs('to-ssd-worker', 'write')
  bed.copied(write, ERROR_CODES.io_open_failed)
  bed.written(write, ERROR_CODES.io_open_failed)
  t.deepEqual(bed.ends(), [[SLOT_STATE.failed, ERROR_CODES.io_open_failed]])
  t.deepEqual(bed.owned, NOTHING)
  t.deepEqual(census(bed.manager.storage), [])
  // The key may be published again, and goes the same way: an explicit route stays.
  bed.publish(1, 2, 7)
  t.is(bed.jobs('to-ssd-worker', 'write').length, 2)
})
