import { setTimeout as pause } from 'node:timers/promises'
import { connect } from '../../../src/client/index.js'
import type { ManagerChild } from '../../support/manager-child.js'
import type { Draw } from './draw.js'
import { checkDrained, type Field, ROUTES } from './field.js'
import { count } from './results.js'

/**
 * K8: starts and stops in every order. Each order begins without a Manager and ends without one; every start that is
 * not itself interrupted comes to serve.
 */

/** What an interrupted start may take: the interruption falls anywhere in it. */
const START_MS = 600

type Order = (field: Field, draw: Draw) => Promise<void>

/** Engines look for a Manager, it comes, it goes under their work, and they look for the next one. */
const managerStopsFirst: Order = async (field, draw) => {
  const manager = await serving(field, draw)
  checkDrained(await field.drained(manager, draw.pick(['SIGTERM', 'SIGINT'])))
}

const enginesStopFirst: Order = async (field, draw) => {
  const manager = await serving(field, draw)
  const languages = field.engines.length
  await field.dismiss()
  await field.rest(manager)
  for (let i = 0; i < languages; i++) field.hire(draw, i % 2 === 0 ? 'typescript' : 'python')
}

/** The Manager is there long before anybody asks. */
const managerComesFirst: Order = async (field, draw) => {
  await field.dismiss()
  const { manager, epoch } = await field.start(draw.pick(ROUTES))
  for (let i = 0; i < 2; i++) field.hire(draw, i % 2 === 0 ? 'typescript' : 'python')
  await field.registered(epoch)
  await field.engines[0]?.progress(2)
  checkDrained(await field.drained(manager, 'SIGTERM'))
}

const stoppedWhileItStarts: Order = async (field, draw) => {
  const manager = field.launch(draw.pick(ROUTES))
  await pause(draw.below(START_MS))
  const end = await field.drained(manager, 'SIGTERM')
  // Before the process runs its own code a signal simply ends it; nothing has been made by then.
  if (end.signal !== 'SIGTERM' || end.stdout !== '') checkDrained(end)
  await managerStopsFirst(field, draw)
}

const killedWhileItStarts: Order = async (field, draw) => {
  const manager = field.launch(draw.pick(ROUTES))
  await pause(draw.below(START_MS))
  await manager.kill()
  await managerStopsFirst(field, draw)
}

const stoppedTwice: Order = async (field, draw) => {
  const manager = await serving(field, draw)
  manager.signal('SIGTERM')
  await pause(draw.below(20))
  // The second ends it at once, unless it was faster.
  const end = await field.drained(manager, 'SIGTERM')
  if (end.signal !== 'SIGTERM') checkDrained(end)
  await managerStopsFirst(field, draw)
}

/** A supervisor that does not wait: the next one starts while the killed one dies. It serves, or says who is there. */
const startedWhileTheOldOneDies: Order = async (field, draw) => {
  const old = await serving(field, draw)
  const signal = draw.pick(['SIGKILL', 'SIGTERM'] as const)
  old.signal(signal)
  const next = field.launch(draw.pick(ROUTES))
  const came = await next.serving().then(
    () => 'serves' as const,
    () => 'refused' as const,
  )
  const oldEnd = await old.ended
  if (signal === 'SIGTERM') checkDrained(oldEnd)
  if (came === 'refused') {
    const end = await next.ended
    if (end.exitCode !== 1 || !end.stderr.includes('[already_running]')) {
      throw new Error(`a start beside a dying Manager ended with ${end.exitCode}: ${end.stderr}${end.stdout}`)
    }
    return await managerStopsFirst(field, draw)
  }
  checkDrained(await field.drained(next, 'SIGTERM'))
}

const pausedWhileItStarts: Order = async (field, draw) => {
  const manager = field.launch(draw.pick(ROUTES))
  await pause(draw.below(START_MS))
  manager.signal('SIGSTOP')
  await pause(draw.below(50))
  manager.signal('SIGCONT')
  const epoch = await manager.serving()
  await field.registered(epoch)
  checkDrained(await field.drained(manager, 'SIGTERM'))
}

/** Engines that do not run cannot keep a Manager from draining. */
const enginesPausedWhileItStops: Order = async (field, draw) => {
  const manager = await serving(field, draw)
  for (const engine of field.engines) engine.signal('SIGSTOP')
  checkDrained(await field.drained(manager, 'SIGTERM'))
  for (const engine of field.engines) engine.signal('SIGCONT')
}

const drainedByAClient: Order = async (field, draw) => {
  const manager = await serving(field, draw)
  const client = await connect({
    socketPath: field.socketPath,
    role: 'scheduler',
    engine: 'operator',
    engineVersion: '1',
  })
  const startMs = performance.now()
  await Promise.all([client.drain().catch(() => {}), manager.ended])
  field.results.drained((performance.now() - startMs) / 1_000)
  await client.close()
  checkDrained(await manager.ended)
}

const ORDERS: Readonly<Record<string, Order>> = {
  'manager stops first': managerStopsFirst,
  'engines stop first': enginesStopFirst,
  'manager comes first': managerComesFirst,
  'stopped while it starts': stoppedWhileItStarts,
  'killed while it starts': killedWhileItStarts,
  'stopped twice': stoppedTwice,
  'started while the old one dies': startedWhileTheOldOneDies,
  'paused while it starts': pausedWhileItStarts,
  'engines paused while it stops': enginesPausedWhileItStops,
  'drained by a client': drainedByAClient,
}

/** One order; a campaign goes through all of them in turn. */
export async function coldStart(field: Field, draw: Draw, round: number): Promise<void> {
  const names = Object.keys(ORDERS)
  const name = names[round % names.length] as string
  await ORDERS[name]?.(field, draw)
  field.results.coldStarts++
  count(field.results.coldStartsBy, name)
}

/** A Manager, with every engine of the field at work. */
async function serving(field: Field, draw: Draw): Promise<ManagerChild> {
  const { manager, epoch } = await field.start(draw.pick(ROUTES))
  await field.registered(epoch)
  await Promise.all(field.engines.map((engine) => engine.progress(1)))
  return manager
}
