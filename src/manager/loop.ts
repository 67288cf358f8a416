import { replyCodec as dramReplies, requestCodec as dramRequests } from '../actors/dram-worker/messages.js'
import { replyCodec as readerReplies, requestCodec as readerRequests } from '../actors/host-reader/messages.js'
import { replyCodec as restoreReplies, requestCodec as restoreRequests } from '../actors/host-restore/messages.js'
import { feed, type LaneInbox, runLane } from '../actors/runtime/loop.js'
import { sayReady, workerInput } from '../actors/runtime/spawn.js'
import { Actor } from '../actors/runtime/wiring.js'
import { replyCodec as ssdReplies, requestCodec as ssdRequests } from '../actors/ssd-worker/messages.js'
import { replyCodec as writeReplies, requestCodec as writeRequests } from '../actors/writeback/messages.js'
import { COMPLETION, COMPLETION_WORDS } from '../binding/completions.js'
import { opening } from '../binding/errors.js'
import { loadNative } from '../binding/load.js'
import type { Port } from '../binding/port.js'
import { SUBMISSION_DOUBLES } from '../binding/submissions.js'
import { IoError } from '../shared/base/errors.js'
import type { Tally } from '../shared/base/tally.js'
import { FRAME_BYTES_MAX } from '../shared/layout/wire/limits.js'
import { controlReplyCodec, controlRequestCodec } from './codecs.js'
import { VERB_HISTOGRAMS, VERB_SERIES } from './counters.js'
import { type ManagerSinks, perform } from './effects.js'
import { ManagerMachine } from './machine.js'
import type { ManagerEffect, ManagerInput } from './messages.js'
import { nativePorts } from './native-ports.js'
import { ACTOR, type ManagerParams } from './params.js'
import { managerLayout } from './series.js'
import { Storage } from './storage/storage.js'

/** Entries of the port: the manager submits no reads and writes of its own. */
const PORT_DEPTH = 8
/** Room for the socket completions of one reap. */
const COMPLETIONS = 512
/** How stale a gauge may be while the manager works. */
const GAUGES_US = 50_000

/** Of takeFrame: the connection, or its frame, is no more. */
const EBADF = 9
const EAGAIN = 11

/** The connection of an adopted descriptor, or null: then the port has closed it, and its other end reads the end. */
function adoptedBy(port: Port, fd: number): number | null {
  try {
    return port.adopt(fd)
  } catch {
    return null
  }
}

/** The manager worker: takes frames and replies, steps the machine, performs what it decides, sleeps in one place. */
function main(): void {
  const { seat, params } = workerInput<ManagerParams>()
  const native = loadNative()
  const actor = new Actor(seat, (port) => native.wake(port))
  const counters = actor.counters(managerLayout(params.options.reuseWindows))
  const storageTally: Tally = {
    add: (counter, amount) => counters.add(VERB_SERIES.length + counter, amount),
    set: (gauge, value) => counters.set(VERB_SERIES.length + gauge, value),
    observe: (histogram, value) => counters.observe(VERB_HISTOGRAMS.length + histogram, value),
  }
  const machine = new ManagerMachine(
    params.options,
    nativePorts(native, params.options.devices),
    (ports) => new Storage(params.storage, ports, storageTally),
    counters,
    params.stores,
  )
  const completions = new Int32Array(new SharedArrayBuffer(COMPLETIONS * COMPLETION_WORDS * 4))
  const port = opening('port', () =>
    native.openPort({
      depth: PORT_DEPTH,
      submissions: new Float64Array(new SharedArrayBuffer(PORT_DEPTH * SUBMISSION_DOUBLES * 8)),
      completions,
      results: new Uint32Array(new SharedArrayBuffer(4)),
      parkWord: actor.control.parkWord,
      pool: params.pool,
      io: params.io,
      register: false,
    }),
  )
  actor.control.publishPort(port.id)

  const stores = Array.from({ length: params.stores }, (_, store) => store)
  const devices = params.options.devices.map(({ name }) => name)
  const sinks: ManagerSinks = {
    native,
    port,
    readers: stores.map((store) => actor.outbox(ACTOR.hostReader(store), readerRequests)),
    writers: stores.map((store) => actor.outbox(ACTOR.writeback(store), writeRequests)),
    dram: devices.map((device) => actor.outbox(ACTOR.dramWorker(device), dramRequests)),
    restore: devices.map((device) => actor.outbox(ACTOR.hostRestore(device), restoreRequests)),
    ssd: devices.map((device) =>
      params.options.staging.includes(device) ? actor.outbox(ACTOR.ssdWorker(device), ssdRequests) : null,
    ),
    main: actor.outbox(ACTOR.main, controlReplyCodec),
  }

  let effects: ManagerEffect[] = []
  let clockRead = false
  let gaugesUs = 0
  let changed = true
  const nowUs = () => native.monotonicUs()
  const tick = (now: number) => {
    clockRead = true
    // What ends by itself changes the gauges too.
    if (now >= machine.nextTickUs()) changed = true
    machine.step({ kind: 'tick', nowUs: now }, effects)
    if (!changed || now < gaugesUs + GAUGES_US) return
    gaugesUs = now
    changed = false
    machine.refreshGauges()
  }
  // Deadlines are counted from the time of the turn in which a request came, so the clock is read before the first.
  const step = (input: ManagerInput) => {
    if (!clockRead) tick(nowUs())
    changed = true
    machine.step(input, effects)
  }

  const accepted = (connection: number) => step({ kind: 'accepted', connection, ...port.peer(connection) })
  const adopt = (fd: number) => {
    const connection = adoptedBy(port, fd)
    if (connection !== null) accepted(connection)
  }

  const inboxes: LaneInbox[] = [
    feed(actor.inbox(ACTOR.main, controlRequestCodec), (request) => {
      if (request.kind === 'adopt') adopt(request.fd)
      else step({ kind: 'control', request })
    }),
    ...devices.flatMap((name, device) => [
      feed(actor.inbox(ACTOR.dramWorker(name), dramReplies), (reply) => step({ kind: 'dram-worker', device, reply })),
      feed(actor.inbox(ACTOR.hostRestore(name), restoreReplies), (reply) =>
        step({ kind: 'host-restore', device, reply }),
      ),
      ...(params.options.staging.includes(name)
        ? [feed(actor.inbox(ACTOR.ssdWorker(name), ssdReplies), (reply) => step({ kind: 'ssd-worker', device, reply }))]
        : []),
    ]),
    ...stores.flatMap((store) => [
      feed(actor.inbox(ACTOR.hostReader(store), readerReplies), (reply) => step({ kind: 'host-reader', store, reply })),
      feed(actor.inbox(ACTOR.writeback(store), writeReplies), (reply) => step({ kind: 'writeback', store, reply })),
    ]),
  ]

  const frame = new Uint8Array(FRAME_BYTES_MAX)
  const completed = (tag: number, result: number, _aux: number, kind: number) => {
    if (kind === COMPLETION.accepted) {
      if (result >= 0) accepted(result)
    } else if (kind === COMPLETION.frame) {
      const bytes = port.takeFrame(tag, frame)
      if (bytes === -EBADF || bytes === -EAGAIN) return
      // What it says is lost, and a client waits for the slot of a request until it is answered or this process ends.
      if (bytes < 0) throw new IoError('io_read_failed', `Cannot take a frame: errno ${-bytes}`, { errno: -bytes })
      step({ kind: 'frame', connection: tag, frame: frame.subarray(0, bytes), fds: port.takeFds(tag) })
    } else if (kind === COMPLETION.closed || kind === COMPLETION.peerExited) {
      step({ kind: 'connection-ended', connection: tag })
      port.closeConnection(tag)
    }
  }

  const stuck: number[] = []
  const performAll = () => {
    clockRead = false
    while (effects.length > 0) {
      const batch = effects
      effects = []
      for (const effect of batch) perform(sinks, effect, stuck)
      for (const connection of stuck.splice(0)) {
        machine.step({ kind: 'connection-ended', connection }, effects)
        port.closeConnection(connection)
      }
    }
    return 0
  }

  const { socketPath } = params
  const listener = socketPath === null ? null : opening('socket', () => port.listen(socketPath))
  sinks.main.send({ kind: 'serving' })
  sayReady()
  runLane({
    control: actor.control,
    spinUs: actor.spinUs,
    inboxes,
    outboxes: [
      ...sinks.readers,
      ...sinks.writers,
      ...sinks.dram,
      ...sinks.restore,
      ...sinks.ssd.filter((outbox) => outbox !== null),
      sinks.main,
    ],
    native: { port, completions, completed },
    perform: performAll,
    hasNativeWork: () => true,
    nextTickUs: () => Math.min(machine.nextTickUs(), changed ? gaugesUs + GAUGES_US : Number.POSITIVE_INFINITY),
    tick,
    nowUs,
    ended: () => machine.ended,
  })
  machine.refreshGauges()
  if (listener !== null) port.closeListener(listener)
  port.close()
}

main()
