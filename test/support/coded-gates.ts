import { Oracle } from '../../src/cli/demo/oracle.js'
import { keysNamed, type PageOracle, TestEngine } from './engine.js'
import { type GateBed, onSsd, READS, reaches, ready, STAGING_BYTES, WRITES } from './gate-bed.js'
import type { Body } from './needs.js'

/** What the cuFile route must do under a codec, seen from outside as the other gates (cufile-gates.ts). */

const LAYERS = 6
const BLOCKS = 6
const SHAPE = { layers: LAYERS, segmentBytes: 16_384, pages: 24, headDim: 128 } as const
/** Lossy codecs that need no library of a vendor. */
const CODECS = ['fp8', 'turboquant-4'] as const

/** Pages of a codec's own kind, and what may come back for them. */
export function oracleOf(codec: 'fp8' | 'turboquant-4' | 'turboquant-3'): PageOracle {
  const demo = new Oracle(codec, LAYERS)
  return {
    content: (key, _rank, layer, segment, bytes) => demo.content(key, layer, segment as 0 | 1, bytes),
    accepts: (layer, segment, published, restored) => demo.accepts(layer, segment as 0 | 1, published, restored),
  }
}

/** Declares every gate over a bed. */
export function declareCodedGates(declareAs: (title: string, body: Body) => void, bed: GateBed): void {
  for (const codec of CODECS) {
    for (const reads of ['cufile', 'uring'] as const) {
      declareAs(
        `${bed.name}: ${codec}: whole blocks are written from where they were coded, read by ${reads}`,
        async (t) => {
          t.timeout(bed.patienceMs)
          const run = await bed.start(t, ['--storage-codec', codec, '--ssd-read-path', reads])
          const shape = { ...SHAPE, salt: t.title, device: bed.device(), oracle: oracleOf(codec) }
          const engine = await TestEngine.start(run.manager.socketPath, shape)
          const keys = keysNamed(t.title, BLOCKS)
          const { blocksSsd } = await onSsd(engine, keys)
          t.is(blocksSsd, BLOCKS)
          t.is(await run.risen('orbitkv_ssd_cufile_objects_written_total'), BLOCKS)
          t.true((await run.risen(WRITES)) >= BLOCKS)
          t.is(await run.risen('orbitkv_ssd_encoded_write_fallbacks_total'), 0)
          t.is(await run.manager.metric('orbitkv_ssd_cufile_held_codings'), 0)
          await engine.stop()

          const other = await TestEngine.start(run.manager.socketPath, shape)
          const { lease } = await ready(other, keys)
          t.is(await other.restore(keys, lease), 0)
          t.is((await run.risen(READS)) > 0, reads === 'cufile')
          t.is(await run.manager.metric('orbitkv_storage_codec_silent_zero'), 0)
          await other.stop()
          await reaches(run, STAGING_BYTES, 0)
          await run.ends()
        },
      )
    }
  }
}
