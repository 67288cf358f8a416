import type { WritebackRequest } from '../../../src/actors/writeback/messages.js'
import { WRITE } from '../../../src/shared/layout/descriptors.js'
import type { WriteOrder } from '../disk.js'
import { DISK_SECTOR_BYTES as SECTOR } from '../shard.js'
import { must } from '../violation.js'

/**
 * What one writeback lane was asked to write, sector by sector, and from where in the pool: however it joins granules, each
 * sector that it submits was asked for, comes from there, and is submitted once (V1). A checksum would find the others only
 * when they are read, and then they are lost.
 */
export class AskedWrites {
  /** By file: sector of the file -> offset in the pool. */
  readonly #from = new Map<number, Map<number, number>>()

  asked(request: WritebackRequest): void {
    if (request.kind !== 'write') return
    const { file, fileOffsetBytes, list } = request
    const from = this.#from.get(file) ?? new Map<number, number>()
    this.#from.set(file, from)
    let sector = fileOffsetBytes / SECTOR
    for (let at = list.offset; at < list.offset + list.length; at += WRITE.doubles) {
      const poolOffsetBytes = list.doubles[at + WRITE.poolOffsetBytes] as number
      const bytes = list.doubles[at + WRITE.bytes] as number
      for (let each = 0; each < bytes; each += SECTOR) from.set(sector++, poolOffsetBytes + each)
    }
  }

  submitted({ file, fileOffsetBytes, spans }: WriteOrder): void {
    const from = this.#from.get(file)
    let sector = fileOffsetBytes / SECTOR
    for (const { poolOffsetBytes, bytes } of spans) {
      for (let each = 0; each < bytes; each += SECTOR, sector++) {
        const asked = from?.get(sector)
        const is = poolOffsetBytes + each
        must(asked === is, 'V1', () => `sector ${sector} of file ${file} is written from ${is}, asked was ${asked}`)
        from?.delete(sector)
      }
    }
  }
}
