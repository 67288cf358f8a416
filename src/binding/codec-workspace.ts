import { invariant } from '../shared/base/invariant.js'
import { CODEC_WORKSPACE } from './codecs.js'
import type { Port } from './port.js'

/** Who is told what codecs hold: bytes lent, bytes held, allocations since the start. */
export interface WorkspaceReader {
  workspace(reservedBytes: number, heldBytes: number, allocations: number): void
}

/** What the codecs of a lane's streams hold together. */
export class CodecWorkspaces {
  readonly #port: Pick<Port, 'codecWorkspace'>
  readonly #one = new Float64Array(CODEC_WORKSPACE.doubles)
  /** Allocations of streams that are closed: a count never goes back. */
  #closedAllocations = 0

  constructor(port: Pick<Port, 'codecWorkspace'>) {
    this.#port = port
  }

  tell(reader: WorkspaceReader, streams: Iterable<number>): void {
    let reservedBytes = 0
    let heldBytes = 0
    let allocations = this.#closedAllocations
    for (const stream of streams) {
      const one = this.#read(stream)
      reservedBytes += one[CODEC_WORKSPACE.reservedBytes] as number
      heldBytes += one[CODEC_WORKSPACE.heldBytes] as number
      allocations += one[CODEC_WORKSPACE.allocations] as number
    }
    reader.workspace(reservedBytes, heldBytes, allocations)
  }

  /** Called before a stream is closed. */
  closing(stream: number): void {
    this.#closedAllocations += this.#read(stream)[CODEC_WORKSPACE.allocations] as number
  }

  #read(stream: number): Float64Array {
    this.#port.codecWorkspace(stream, this.#one)
    return this.#one
  }
}

/** Gives back what the codec of a stream holds. Nothing of a codec is on the stream. */
export function releaseWorkspace(port: Pick<Port, 'releaseCodecWorkspace'>, stream: number): void {
  const code = port.releaseCodecWorkspace(stream)
  invariant(code === 0, 'a codec without jobs lets go of its workspace', { stream, code })
}
