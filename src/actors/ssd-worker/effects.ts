import type { Port } from '../../binding/port.js'
import type { StreamOptions } from '../../binding/streams.js'
import type { Native } from '../../binding/surface.js'
import type { DeviceName } from '../../shared/base/device-name.js'
import { invariant, unreachable } from '../../shared/base/invariant.js'
import { writeSlotResult } from '../runtime/finish-slot.js'
import type { Outbox } from '../runtime/outbox.js'
import type { SsdWorkerEffect, SsdWorkerInput } from './machine.js'
import type { SsdWorkerReply } from './messages.js'
import { streamBudgetBytes } from './params.js'
import { STAGING_SLOTS } from './worker.js'

/** The streams of one worker: one a slot, then, at STAGING_SLOTS, the one for copies. */
type Streams = readonly number[]

/** Where the effects of an ssd-worker lane go. */
export interface SsdWorkerSinks {
  readonly native: Native
  readonly port: Port
  readonly device: DeviceName
  /** By worker, while it is open. */
  readonly streams: Map<number, Streams>
  readonly client: Outbox<SsdWorkerReply>
  /** Device memory that the codec may hold for one worker; 0: nothing is coded. */
  readonly codecBudgetBytes: number
  /** Told before a stream is closed. */
  readonly closing: (stream: number) => void
}

const TO_PAGES = 0
const FROM_PAGES = 1

/** Performs one effect; returns what it says at once (a fence word, a refusal), else null. */
export function perform(sinks: SsdWorkerSinks, effect: SsdWorkerEffect): SsdWorkerInput | null {
  const { native, port } = sinks
  switch (effect.kind) {
    case 'open-worker':
      return { kind: 'worker-opened', worker: effect.worker, code: openWorker(sinks, effect) }
    case 'close-worker':
      closeStreams(sinks, streamsOf(sinks, effect.worker))
      sinks.streams.delete(effect.worker)
      return null
    case 'read': {
      const { tag, file, fileOffsetBytes, bytes, checks, checkCount, checkBase } = effect
      const stream = streamsOf(sinks, effect.worker)[effect.slot] as number
      const result = port.stagingRead(stream, tag, file, fileOffsetBytes, bytes, checks, 0, checkCount, checkBase)
      return refused(tag, result)
    }
    case 'scatter': {
      const stream = streamsOf(sinks, effect.worker)[effect.slot] as number
      return refused(effect.tag, port.copy(stream, effect.tag, TO_PAGES, effect.copies, 0, effect.copyCount))
    }
    case 'decode': {
      const stream = streamsOf(sinks, effect.worker)[effect.slot] as number
      const { tag, copies, offset, count, resultBase } = effect
      return refused(tag, port.decode(stream, tag, copies, offset, count, resultBase))
    }
    case 'write': {
      const { tag, file, fileOffsetBytes, stagingOffsetBytes, bytes, zeroFromBytes, copies, copyCount } = effect
      const stream = streamsOf(sinks, effect.worker)[effect.slot] as number
      const place = [file, fileOffsetBytes, stagingOffsetBytes, bytes, zeroFromBytes] as const
      const { codes, codeCount } = effect
      if (codeCount === 0) return refused(tag, port.stagingWrite(stream, tag, ...place, copies, 0, copyCount))
      const holder = copyStreamOf(sinks, effect.worker)
      return refused(tag, port.stagingWrite(stream, tag, ...place, copies, 0, copyCount, codes, 0, codeCount, holder))
    }
    case 'encode': {
      const { tag, copies, count, resultBase, held } = effect
      const list = [tag, copies, 0, count, resultBase] as const
      const stream = copyStreamOf(sinks, effect.worker)
      return refused(tag, held ? port.encodeHeld(stream, ...list) : port.encode(stream, ...list))
    }
    case 'release-codes': {
      const code = port.releaseCodes(copyStreamOf(sinks, effect.worker))
      invariant(code === 0, 'codings that nobody reads can be released', { worker: effect.worker, code })
      return null
    }
    case 'copy': {
      const stream = copyStreamOf(sinks, effect.worker)
      const { tag, copies, offset, count } = effect
      return refused(tag, port.copy(stream, tag, effect.toPages ? TO_PAGES : FROM_PAGES, copies, offset, count))
    }
    case 'poll-fence':
      return { kind: 'fence-read', job: effect.job, value: native.slotFence(effect.slots, effect.slot) }
    case 'finish-slot':
      writeSlotResult(native, effect)
      return null
    case 'reply':
      sinks.client.send(effect.reply)
      return null
    default:
      return unreachable(effect)
  }
}

/** What was refused when it was queued will not complete: this is its completion. */
function refused(tag: number, result: number): SsdWorkerInput | null {
  return result < 0 ? { kind: 'completed', tag, result } : null
}

/** 0, or what refused a slot or the stream; then nothing is left open. */
function openWorker(sinks: SsdWorkerSinks, effect: SsdWorkerEffect & { kind: 'open-worker' }): number {
  const { port, device } = sinks
  const budgetBytes = streamBudgetBytes(sinks.codecBudgetBytes)
  const options = { codecBudgetBytes: budgetBytes, codecStagingBudgetBytes: budgetBytes }
  // Of its streams one encodes, and has all that the worker has for that.
  const copies = { ...options, encodeBudgetBytes: sinks.codecBudgetBytes }
  const streams: number[] = []
  for (let slot = 0; slot <= STAGING_SLOTS; slot++) {
    const stream =
      slot < STAGING_SLOTS ? port.openStaging(device, effect.slotBytes, options) : openCopyStream(port, device, copies)
    if (stream < 0) {
      closeStreams(sinks, streams)
      return stream
    }
    streams.push(stream)
  }
  sinks.streams.set(effect.worker, streams)
  return 0
}

function openCopyStream(port: Port, device: DeviceName, options: StreamOptions): number {
  try {
    return port.openStream(device, options)
  } catch (error) {
    const { errno } = error as { errno?: unknown }
    if (typeof errno !== 'number') throw error
    return -Math.abs(errno)
  }
}

/** Memory that a driver will not let go of may not be freed under it: the process ends instead. */
function closeStreams({ port, closing }: SsdWorkerSinks, streams: Streams): void {
  for (const stream of streams) {
    closing(stream)
    const code = port.closeStream(stream)
    invariant(code === 0, 'a stream with nothing in flight can be closed', { stream, code })
  }
}

function copyStreamOf(sinks: SsdWorkerSinks, worker: number): number {
  return streamsOf(sinks, worker)[STAGING_SLOTS] as number
}

function streamsOf(sinks: SsdWorkerSinks, worker: number): Streams {
  const streams = sinks.streams.get(worker)
  invariant(streams !== undefined, 'an open worker has streams', { worker })
  return streams
}
