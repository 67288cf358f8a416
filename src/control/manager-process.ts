import { randomBytes } from 'node:crypto'
import { closeSync, fstatSync } from 'node:fs'
import type { Registry } from 'prom-client'
import { feed } from '../actors/runtime/loop.js'
import { MainSeat } from '../actors/runtime/main-seat.js'
import type { Outbox } from '../actors/runtime/outbox.js'
import { type LaneDeath, type LaneHandle, STOP_MS_MAX } from '../actors/runtime/spawn.js'
import { Actor } from '../actors/runtime/wiring.js'
import { opening } from '../binding/errors.js'
import { loadNative } from '../binding/load.js'
import { describeProbe } from '../binding/probe.js'
import type { Native } from '../binding/surface.js'
import { controlReplyCodec, controlRequestCodec } from '../manager/codecs.js'
import type { ControlReply, ControlRequest } from '../manager/messages.js'
import { ACTOR, MANAGER_ENTRY } from '../manager/params.js'
import { managerLayout } from '../manager/series.js'
import { CapabilityError } from '../shared/base/errors.js'
import { invariant } from '../shared/base/invariant.js'
import { RAW_REASONS } from '../shared/codec/coding.js'
import type { CodedLayers } from '../shared/layout/coded-layers.js'
import { listAt } from '../shared/layout/records.js'
import { type ManagerConfig, type ResolvedConfig, resolveConfig, windowBytesOf } from './config.js'
import { Crew } from './crew.js'
import { checkDescriptorLimit } from './descriptors.js'
import { servedDevices } from './devices.js'
import { laneNames, spawnLanes, wire } from './lane-plan.js'
import { managerParams } from './manager-params.js'
import { CONTENT_GAUGES } from './metrics/content-gauges.js'
import { featuresOf, shownWith } from './metrics/features.js'
import type { Page, Shown } from './metrics/page-metrics.js'
import { gaugesOf, metricsOf } from './metrics/registry.js'
import { ensurePrivateFolder } from './private-folder.js'
import { type OpenShards, openShards } from './shards.js'
import { type ChosenRoutes, checkRoutes, chooseRoutes, stagingDevices } from './ssd-routes.js'
import { type SsdFailure, SsdStatus } from './ssd-status.js'
import type { Memory, StartReport } from './start-report.js'
import { openCodec } from './storage-codec.js'

export type { LaneDeath, StartReport }

/** What main hears while a Manager runs. Each may be left out: health and metrics say the same. */
export interface ManagerEvents {
  /** A cuFile failure stopped new cuFile work until restart; once at most. */
  ssdFellBack?(failure: SsdFailure): void
  /** A rank registered that cuFile does not reach, on a Manager that has it. */
  rankByUring?(): void
  /** An instance sealed under a codec: how many of its layers are coded, and why the others are not. */
  codecChosen?(layers: CodedLayers): void
}

/** How a Manager ended. */
export interface DrainReport {
  /** Operations that were still open when the limit passed. */
  readonly unfinished: number
  /** Ownership gauges after the end that are not zero: a leak. */
  readonly leaks: Readonly<Record<string, number>>
}

/**
 * A Manager in this process: pool, shards, lanes and the manager worker, wired and started. One instance owns all of
 * it until `drain` has ended; lanes are fail-stop, so `onDeath` must end the process.
 */
export class RunningManager {
  readonly report: StartReport
  readonly metrics: Registry
  private readonly release: (orderly: boolean) => void
  private readonly lanes: readonly LaneHandle[]
  private readonly seat: MainSeat
  private readonly outbox: Outbox<ControlRequest>
  private readonly pages: readonly Page[]
  private readonly shown: Shown
  private readonly drained: Promise<number>
  /** Resolves when a client sends DRAIN: whoever owns this Manager drains it then. */
  readonly drainAsked: Promise<void>
  /** How the SSD tier is used now; null without one. */
  readonly ssd: SsdStatus | null
  /** Descriptors handed to the manager worker, with their inodes: it may die before it takes one. */
  private readonly handed = new Map<number, number>()
  private serving = true

  private constructor(parts: {
    report: StartReport
    shards: OpenShards
    lanes: readonly LaneHandle[]
    seat: MainSeat
    outbox: Outbox<ControlRequest>
    pages: readonly Page[]
    drained: Promise<number>
    drainAsked: Promise<void>
    ssd: SsdStatus | null
    release: (orderly: boolean) => void
  }) {
    this.report = parts.report
    this.release = parts.release
    this.lanes = parts.lanes
    this.seat = parts.seat
    this.outbox = parts.outbox
    this.pages = parts.pages
    this.drained = parts.drained
    this.drainAsked = parts.drainAsked
    const { ssd } = parts
    this.ssd = ssd
    const tier = parts.shards.stores > 0
    this.shown = shownWith(featuresOf(parts.report.config, parts.report.routes))
    this.metrics = metricsOf(
      this.pages,
      this.shown,
      { io: parts.report.io, ssd: tier ? 'on' : 'off' },
      ssd === null ? null : () => ssd.now,
      parts.report.config.codec.name !== 'none',
    )
  }

  /** Starts everything; resolves when engines may connect. @throws ConfigError, CapabilityError, IoError */
  static async start(
    config: ManagerConfig,
    onDeath: (death: LaneDeath) => void,
    events: ManagerEvents = {},
  ): Promise<RunningManager> {
    const resolved = resolveConfig(config)
    checkDescriptorLimit()
    const native = loadNative()
    const probe = native.probe()
    if (resolved.io === 'uring' && !probe.available) {
      throw new CapabilityError(
        'uring_unavailable',
        `Cannot use io_uring here: ${describeProbe(probe)}; permit it, or start with --ssd-io posix`,
        { errno: probe.errno, reason: probe.reason },
      )
    }
    const uid = process.getuid?.() ?? 0
    if (resolved.socketPath !== null) ensurePrivateFolder(resolved.socketPath, uid)
    const cuda = native.cudaProbe()
    const devices = servedDevices(resolved.devices, cuda)
    checkRoutes(resolved, cuda, devices.length - 1)
    const nvcomp = openCodec(native, resolved, cuda, devices.length - 1)
    const memory = openMemory(native, resolved, devices.length)
    let shards: OpenShards | null = null
    let chosen: ChosenRoutes | null
    try {
      shards = openShards(native, resolved)
      chosen = chooseRoutes(native, resolved, cuda, devices.length - 1, shards)
    } catch (error) {
      shards?.close()
      native.closePool(memory.report.pool)
      throw error
    }
    const epoch = randomBytes(6).readUIntBE(0, 6)
    const report: StartReport = {
      epoch,
      io: resolved.io,
      probe,
      pool: memory.report,
      shards: shards.reports,
      stores: shards.stores,
      config: resolved,
      routes: chosen?.routes ?? null,
      cuda,
      nvcomp,
      devices,
      staging: chosen === null ? [] : stagingDevices(devices, chosen.routes),
    }
    const leaveExit = endNativeWorkAtExit(native)
    const release = (orderly: boolean) => {
      leaveExit()
      const code = chosen?.close() ?? 0
      shards.close()
      native.closePool(memory.report.pool)
      // After a death a device may still have what its lane left: the addon keeps that for ever.
      invariant(!orderly || code === 0, 'cuFile closes when nothing of it is in flight', { code })
    }
    const crew = new Crew(wire(report), onDeath)
    try {
      return await RunningManager.man(
        crew,
        native,
        memory,
        shards,
        report,
        [uid, ...resolved.allowUids],
        events,
        release,
      )
    } catch (error) {
      await crew.dismiss()
      release(false)
      throw error
    }
  }

  private static async man(
    crew: Crew,
    native: Native,
    memory: Memory,
    shards: OpenShards,
    report: StartReport,
    uids: readonly number[],
    events: ManagerEvents,
    release: (orderly: boolean) => void,
  ): Promise<RunningManager> {
    const { wiring, lanes } = crew
    const { config } = report
    spawnLanes(crew, memory, report)
    await crew.whole(Promise.all(lanes.map((lane) => lane.ready)))

    const actor = new Actor(wiring.seat(ACTOR.main), (port) => native.wake(port))
    const outbox = actor.outbox<ControlRequest>(ACTOR.manager, controlRequestCodec)
    let served: () => void = () => {}
    let ended: (unfinished: number) => void = () => {}
    const serving = new Promise<void>((resolve) => {
      served = resolve
    })
    const drained = new Promise<number>((resolve) => {
      ended = resolve
    })
    let asked: () => void = () => {}
    const drainAsked = new Promise<void>((resolve) => {
      asked = resolve
    })
    const ssd = report.routes === null ? null : new SsdStatus(report.routes)
    const inbox = feed(actor.inbox<ControlReply>(ACTOR.manager, controlReplyCodec), (reply) => {
      if (reply.kind === 'serving') served()
      else if (reply.kind === 'drain-asked') asked()
      else if (reply.kind === 'ssd-fallback') fellBack(ssd, reply.code, events)
      else if (reply.kind === 'rank-by-uring') events.rankByUring?.()
      else if (reply.kind === 'codec-chosen') codecChosen(reply, events)
      else ended(reply.unfinished)
    })
    const seat = new MainSeat(actor, [inbox], [outbox])
    seat.open()
    crew.seat = seat
    const manager = crew.spawn(ACTOR.manager, MANAGER_ENTRY, managerParams(report, memory, shards, uids))
    await crew.whole(Promise.all([manager.ready, serving]))
    crew.complete()
    const pages = [
      { buffer: wiring.seat(ACTOR.manager).counters, layout: managerLayout(config.reuseWindows) },
      ...laneNames(report).map(({ name, layout }) => ({
        buffer: wiring.seat(name).counters,
        layout,
      })),
    ]
    return new RunningManager({ report, shards, lanes, seat, outbox, pages, drained, drainAsked, ssd, release })
  }

  /** False from the moment a drain begins. */
  get ready(): boolean {
    return this.serving
  }

  /** Current gauges by exported name. */
  gauges(): Map<string, number> {
    return gaugesOf(this.pages, this.shown)
  }

  /**
   * Refuses new work, ends what was admitted within `limitUs`, stops every lane and releases everything. Lanes that have
   * not left STOP_MS_MAX later are terminated: what they owned is then told as it was last shown.
   */
  async drain(limitUs: number): Promise<DrainReport> {
    this.serving = false
    // From here on a lane that leaves is no death: the manager worker stops them all once everything has ended.
    const left = this.lanes.map((lane) => lane.stop(() => {}, limitUs / 1000 + STOP_MS_MAX))
    this.outbox.send({ kind: 'drain', limitUs })
    this.seat.flush()
    const ends = await Promise.all(left)
    // After a death this waits for ever: it is onDeath's to tell.
    const late = ends.includes('terminated') && !ends.includes('died')
    const unfinished = late ? (this.gauges().get(OPERATIONS_OPEN) ?? 0) : await this.drained
    this.seat.close()
    const leaks: Record<string, number> = {}
    for (const [name, value] of this.gauges()) {
      if (value !== 0 && !CONTENT_GAUGES.has(name.replace(/\{.*/, ''))) leaks[name] = value
    }
    this.release(!late)
    return { unfinished, leaks }
  }

  /** Serves one end of a connected socket as a session. The descriptor is the manager worker's from here on. */
  adopt(fd: number): void {
    this.handed.set(fd, fstatSync(fd).ino)
    this.outbox.send({ kind: 'adopt', fd })
    this.seat.flush()
  }

  /**
   * After a lane's death: ends every other lane, each once what its device still works on has ended, then releases
   * everything. Nothing touches an engine's pages after it. What sessions had mapped stays mapped.
   */
  async abandon(): Promise<void> {
    this.serving = false
    await Promise.all(this.lanes.map((lane) => lane.terminate()))
    this.seat.close()
    for (const [fd, inode] of this.handed) closeIfStill(fd, inode)
    this.release(false)
  }
}

function fellBack(ssd: SsdStatus | null, code: number, events: ManagerEvents): void {
  invariant(ssd !== null, 'only an SSD tier has routes')
  events.ssdFellBack?.(ssd.fellBack(code))
}

/** The list of the reply ends with it. */
function codecChosen({ coded, list }: ControlReply & { readonly kind: 'codec-chosen' }, events: ManagerEvents): void {
  events.codecChosen?.({ coded, raw: RAW_REASONS.map((_, i) => listAt(list, i)) })
}

/** Closes a descriptor that still is what it was when it had this inode. Whoever took it has closed it, or will not. */
function closeIfStill(fd: number, inode: number): void {
  try {
    if (fstatSync(fd).ino === inode) closeSync(fd)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EBADF') throw error
  }
}

/** Shown by the manager worker, and all that is left of its word once it was terminated. */
const OPERATIONS_OPEN = 'orbitkv_operations_open'

/** Managers of this thread that run. */
let running = 0
let endAtExit: (() => void) | null = null

/**
 * The hooks of main's own environment do not run on process.exit: while a Manager runs, one listener ends native work
 * first. Returns how one Manager leaves, once.
 */
function endNativeWorkAtExit(native: Native): () => void {
  if (endAtExit === null) {
    endAtExit = () => {
      native.wakeAll()
      native.shutdown(2_000)
    }
    process.on('exit', endAtExit)
  }
  running++
  return () => {
    running--
    if (running > 0 || endAtExit === null) return
    process.off('exit', endAtExit)
    endAtExit = null
  }
}

function openMemory(native: Native, config: ResolvedConfig, devices: number): Memory {
  const windowBytes = config.ssdPaths.length > 0 ? windowBytesOf(config.poolBytes, devices) : 0
  const report = opening('pool', () => native.openPool(config.poolBytes))
  return { report, windowOffsetBytes: config.poolBytes - devices * windowBytes, windowBytes }
}
