import type { SsdWorkerReply } from '../actors/ssd-worker/messages.js'
import { ProtocolError } from '../shared/base/errors.js'
import { invariant, unreachable } from '../shared/base/invariant.js'
import { type Refusal, refuse } from '../shared/base/refusal.js'
import type { Tally } from '../shared/base/tally.js'
import { ReuseWindows } from '../shared/cache/reuse-windows.js'
import { decodeHeader, decodeRequest, helloVersions } from '../shared/layout/wire/frame.js'
import { descriptorsOf, type WireRequest } from '../shared/layout/wire/messages.js'
import { LeaseTable } from '../shared/leases/lease-table.js'
import { SsdRouteSwitch } from '../shared/routing/ssd-route-switch.js'
import { QueryBudget, RESERVATION_PHASES } from '../shared/scheduling/query-budget.js'
import type { Context } from './context.js'
import { Drain } from './drain.js'
import type { DeviceLanes } from './lanes/device-lanes.js'
import { lanesOf } from './lanes/served-lanes.js'
import type { ManagerEffect, ManagerInput } from './messages.js'
import type { ManagerOptions } from './options.js'
import type { ManagerPorts } from './ports.js'
import { Publications } from './publish/publications.js'
import { publish } from './publish/publish.js'
import { FillWaiters } from './query/fill-waiters.js'
import { LeaseRecords } from './query/lease-records.js'
import { expireLeases, release, renew } from './query/leases.js'
import { Preparations } from './query/preparations.js'
import { claim, prepare, preparePoll } from './query/prepare.js'
import { Queries } from './query/queries.js'
import { expireQueries, query, queryPoll } from './query/query.js'
import { expireSpeculation, nextSpeculationEndUs, speculationRead } from './query/speculation.js'
import { warm } from './query/warm.js'
import { Warmings } from './query/warmings.js'
import { Instances } from './register/instances.js'
import { register } from './register/register.js'
import { restore } from './restore/restore.js'
import { REUSE_SERIES_FIRST } from './series.js'
import { cancel, unregister } from './sessions/cancelling.js'
import { attach, hello, speaks, versionRefusal } from './sessions/greeting.js'
import { dropDram, inspect, ownership } from './sessions/inspecting.js'
import { disconnect, holdLeft } from './sessions/leaving.js'
import { reply, replyError, replyRefusal } from './sessions/replies.js'
import type { Session } from './sessions/session.js'
import { Sessions } from './sessions/sessions.js'
import { progressSyncs, sync, syncEnded } from './sessions/syncing.js'
import { Syncs } from './sessions/syncs.js'
import type { PageStorage } from './storage/page-storage.js'
import type { StoragePorts } from './storage/ports.js'
import { routeFailed } from './storage/route-failure.js'
import { ManagerTally } from './tally.js'

/** Makes the storage that the machine owns, with the ports the machine gives it. */
export type StorageFactory = (ports: StoragePorts) => PageStorage

/**
 * Where a start begins to number leases and tickets: 2^31 of them are its own, so that one of an earlier start, which a
 * scheduler may still hold, is unknown here instead of being somebody else's.
 */
function firstNumberOf(epoch: number): number {
  return (epoch % 2 ** 21) * 2 ** 31 + 1
}

const DRAINING = refuse('draining', 'Cannot serve another session: the Manager is draining')

/**
 * The Manager's decisions: sessions, leases, verbs and storage under one `step`. Owned by one thread; everything it
 * wants done is an effect, everything it learns is an input.
 *
 * Its end is drain.ts. Reports that storage makes inside a call (a fill ended, a sync ended) are kept and handled after
 * the call, so that no verb runs inside another.
 */
export class ManagerMachine {
  readonly #context: Context
  readonly #filled: { waiter: number; entry: number; ok: boolean }[] = []
  readonly #synced: number[] = []
  readonly #drain: Drain

  /** `stores`: how many host-reader lanes (and as many writeback lanes) there are. */
  constructor(options: ManagerOptions, ports: ManagerPorts, makeStorage: StorageFactory, tally: Tally, stores: number) {
    const storage = makeStorage({
      read: (store, request) => this.#context.out.push({ kind: 'to-host-reader', store, request }),
      write: (store, request) => this.#context.out.push({ kind: 'to-writeback', store, request }),
      filled: (waiter, entry, status) => this.#filled.push({ waiter, entry, ok: status === 'ok' }),
      synced: (waiter) => this.#synced.push(waiter),
    })
    this.#context = {
      options,
      ports,
      tally: new ManagerTally(tally, REUSE_SERIES_FIRST),
      storage,
      routes: new SsdRouteSwitch(options.routes),
      leases: new LeaseTable(options.queriesMax, storage, firstNumberOf(options.epoch)),
      queryBudget: new QueryBudget(options.queryBudgetBytes),
      reuse:
        options.reuseWindows.length === 0 ? null : new ReuseWindows(options.reuseWindows, options.reuseRegisterBits, 0),
      leaseRecords: new LeaseRecords(),
      sessions: new Sessions(),
      instances: new Instances(),
      queries: new Queries(),
      preparations: new Preparations(),
      warmings: new Warmings(),
      fillWaiters: new FillWaiters(firstNumberOf(options.epoch)),
      publications: new Publications(),
      syncs: new Syncs(),
      devices: lanesOf(options, (effect) => this.#context.out.push(effect)),
      nowUs: 0,
      draining: false,
      out: [],
    }
    this.#drain = new Drain(this.#context, stores)
  }

  get context(): Context {
    return this.#context
  }

  /** Every lane has stopped and the last report is out: the loop may return. */
  get ended(): boolean {
    return this.#drain.ended
  }

  /** When a `tick` is wanted next. */
  nextTickUs(): number {
    if (!this.#drain.lanesRun) return Number.POSITIVE_INFINITY
    const { storage, leases, queries, publications } = this.#context
    return Math.min(
      storage.nextTickUs(),
      leases.nextExpiryUs,
      queries.nextEndUs(),
      nextSpeculationEndUs(this.#context),
      publications.nextGiveUpUs(),
      this.#drain.nextTickUs,
    )
  }

  /** Takes one input and appends what must be done to `out`. Time is that of the last tick. */
  step(input: ManagerInput, out: ManagerEffect[]): void {
    const context = this.#context
    context.out = out
    switch (input.kind) {
      case 'accepted':
        this.#accepted(input.connection, input.uid, input.pid)
        break
      case 'frame':
        this.#frame(input.connection, input.frame, input.fds)
        break
      case 'connection-ended': {
        const session = context.sessions.ofConnection(input.connection)
        if (session !== undefined) disconnect(context, session)
        break
      }
      case 'host-reader':
        if (input.reply.kind === 'stopped') this.#drain.laneStopped()
        else context.storage.readDone(input.store, input.reply)
        break
      case 'writeback':
        if (input.reply.kind === 'stopped') this.#drain.laneStopped()
        else context.storage.writeDone(input.store, input.reply)
        break
      case 'dram-worker':
        if (input.reply.kind === 'stopped') this.#drain.laneStopped()
        else if (input.reply.kind === 'workspace-released') this.#workspaceReleased(input.device)
        else this.#lanesOf(input.device).dramJobs.replied(input.reply.job, input.reply)
        break
      case 'host-restore':
        if (input.reply.kind === 'stopped') this.#drain.laneStopped()
        else if (input.reply.kind === 'workspace-released') this.#workspaceReleased(input.device)
        else this.#lanesOf(input.device).restoreJobs.replied(input.reply.job, input.reply)
        break
      case 'ssd-worker':
        this.#ssdReplied(this.#lanesOf(input.device), input.reply)
        break
      case 'control':
        this.#drain.begin(input.request.limitUs)
        break
      case 'tick':
        context.nowUs = input.nowUs
        // Lanes that were asked to stop take nothing more, not even a wider write window.
        if (this.#drain.lanesRun) context.storage.tick(input.nowUs)
        expireLeases(context)
        expireQueries(context)
        expireSpeculation(context)
        break
      default:
        unreachable(input)
    }
    this.#settle()
  }

  /** What is somebody's now; zero at rest. */
  ownership(): Record<string, number> {
    return ownership(this.#context)
  }

  /** Writes every gauge to the counter page; the loop calls it now and then. */
  refreshGauges(): void {
    const { storage, tally, queryBudget, reuse, nowUs } = this.#context
    storage.refreshGauges()
    const held = this.ownership()
    tally.gauges({
      sessions: held['sessions'] ?? 0,
      instances: held['instances'] ?? 0,
      leases: held['leases'] ?? 0,
      queriesOpen: held['queriesOpen'] ?? 0,
      operationsOpen: held['operationsOpen'] ?? 0,
      publicationsOpen: held['publicationsOpen'] ?? 0,
      publicationsWaiting: held['publicationsWaiting'] ?? 0,
      jobsOpen: held['jobsOpen'] ?? 0,
      queryReservedBytes: queryBudget.total.chargedBytes,
      queryReservedBytesPeak: queryBudget.total.peakBytes,
      querySpeculativeReservedBytes: queryBudget.speculative.chargedBytes,
      queryReservedBytesInstancePeak: queryBudget.instancePeakBytes,
      preparationsOpen: held['preparationsOpen'] ?? 0,
      warmingsOpen: held['warmingsOpen'] ?? 0,
      syncsOpen: held['syncsOpen'] ?? 0,
      ranksByUring: held['ranksByUring'] ?? 0,
    })
    for (const phase of RESERVATION_PHASES) tally.phase(phase, queryBudget.phaseBytes(phase))
    if (reuse !== null) tally.reuse(reuse.read(nowUs))
  }

  /** What storage reported during the step, who waits for memory, who waits for ends. */
  #settle(): void {
    const context = this.#context
    for (let done = false; !done; ) {
      done = true
      for (const { waiter, entry, ok } of this.#filled.splice(0)) {
        done = false
        context.fillWaiters.filled(waiter, entry, ok)
        speculationRead(context, waiter)
      }
      for (const waiter of this.#synced.splice(0)) {
        done = false
        syncEnded(context, waiter)
      }
    }
    if (context.publications.waiting > 0) context.publications.retry()
    progressSyncs(context)
    this.#drain.progress()
  }

  #accepted(connection: number, uid: number, pid: number): void {
    const context = this.#context
    const session = context.sessions.open(connection, pid)
    const refusal = this.#door(uid)
    if (refusal === null) return
    replyRefusal(context, session, 0, refusal)
    context.out.push({ kind: 'close-connection', connection })
    disconnect(context, session)
  }

  /** Who may not come in, and why. */
  #door(uid: number): Refusal | null {
    const { sessions, options, draining } = this.#context
    if (!options.uids.includes(uid)) {
      return refuse('peer_uid_refused', `Cannot serve user ${uid}: it is not this user; --allow-uid ${uid} admits it`, {
        uid,
      })
    }
    if (draining) return DRAINING
    if (sessions.count <= options.sessionsMax) return null
    return refuse('capacity_sessions', `Cannot serve another session: ${options.sessionsMax} are open`, {
      sessions: options.sessionsMax,
    })
  }

  #frame(connection: number, frame: Uint8Array, fds: readonly number[]): void {
    const context = this.#context
    const session = context.sessions.ofConnection(connection)
    if (session === undefined) return this.#closeAll(fds)
    let request = 0
    try {
      request = decodeHeader(frame).request
      const { message } = decodeRequest(frame)
      this.#dispatch(session, request, message, fds)
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      this.#closeAll(fds)
      const versions = session.phase === 'new' ? helloVersions(frame) : null
      if (versions === null || speaks(versions))
        replyError(context, session, request, error.code, error.message, error.values)
      else replyRefusal(context, session, request, versionRefusal(versions.protoMin, versions.protoMax))
      // The stream may be out of step with its frames: nothing after this can be trusted.
      context.out.push({ kind: 'close-connection', connection })
      disconnect(context, session)
    }
  }

  #dispatch(session: Session, request: number, message: WireRequest, fds: readonly number[]): void {
    const context = this.#context
    if (fds.length !== descriptorsOf(message)) {
      this.#closeAll(fds)
      const text = `Cannot take ${message.kind} with ${fds.length} descriptors: it carries ${descriptorsOf(message)}`
      return replyError(context, session, request, 'missing_descriptor', text, { descriptors: fds.length })
    }
    if (session.phase === 'new' && message.kind !== 'hello') {
      this.#closeAll(fds)
      return replyError(context, session, request, 'not_greeted', `Cannot take ${message.kind} before HELLO`)
    }
    // Connected in time, greeted too late: it hears what it would have heard at the door.
    if (context.draining && message.kind === 'hello') return replyRefusal(context, session, request, DRAINING)
    if (session.phase === 'leaving') {
      this.#closeAll(fds)
      return replyError(context, session, request, 'session_closed', `Cannot take ${message.kind}: the session leaves`)
    }
    switch (message.kind) {
      case 'hello':
        return hello(context, session, request, message)
      case 'register':
        return register(context, session, request, message, fds)
      case 'attach':
        return attach(context, session, request, message)
      case 'query':
        return query(context, session, request, message)
      case 'prepare':
        return prepare(context, session, request, message)
      case 'prepare_poll':
        return preparePoll(context, session, request, message)
      case 'claim':
        return claim(context, session, request, message)
      case 'warm':
        return warm(context, session, request, message)
      case 'query_poll':
        return queryPoll(context, session, request, message)
      case 'release':
        return release(context, session, request, message)
      case 'renew':
        return renew(context, session, request, message)
      case 'restore':
        return restore(context, session, request, message)
      case 'publish':
        return publish(context, session, request, message)
      case 'cancel':
        return cancel(context, session, request, message)
      case 'unregister':
        return unregister(context, session, request)
      case 'sync':
        return sync(context, session, request, message)
      case 'drop_dram':
        return dropDram(context, session, request)
      case 'drain':
        return this.#drain.ask(session, request)
      case 'inspect':
      case 'stats':
        return inspect(context, session, request)
      case 'ping':
        return reply(context, session, request, {
          kind: 'pong',
          seq: message.seq,
          managerEpoch: context.options.epoch,
        })
      default:
        return unreachable(message)
    }
  }

  #closeAll(fds: readonly number[]): void {
    for (const fd of fds) this.#context.ports.closeFd(fd)
  }

  #ssdReplied({ ssd }: DeviceLanes, reply: SsdWorkerReply): void {
    const context = this.#context
    invariant(ssd !== null, 'only a lane that exists answers')
    switch (reply.kind) {
      case 'restore-done':
      case 'write-done':
        return ssd.jobs.replied(reply.job, reply)
      case 'copied':
      case 'encoded': {
        const copier = ssd.copiers.get(reply.job)
        invariant(copier !== undefined, 'only a write says that its copies have ended', { job: reply.job })
        return copier.copied(reply)
      }
      case 'route-failed':
        return routeFailed(context, reply.code)
      case 'worker-closed':
        return holdLeft(context, ssd.closed(reply.worker))
      case 'stopped':
        return this.#drain.laneStopped()
      default:
        return unreachable(reply)
    }
  }

  #workspaceReleased(device: number): void {
    const { workspaces } = this.#lanesOf(device)
    invariant(workspaces !== null, 'a lane gives its workspace back when it was asked to', { device })
    for (const hold of workspaces.answered()) holdLeft(this.#context, hold)
  }

  #lanesOf(device: number): DeviceLanes {
    const lanes = this.#context.devices[device]
    invariant(lanes !== undefined, 'a lane belongs to a device that is served', { device })
    return lanes
  }
}
