import { execFileSync, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { ExecutionContext } from 'ava'
import type { SsdRoutes } from '../../src/shared/routing/ssd-selection.js'
import { needs } from '../support/needs.js'
import { CUFILE_ROUTE, type DeviceManager, NO_GPU, startManager } from './gpu.js'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const LAYOUTS = ['split', 'packed', 'page-first', 'unaligned'] as const
const BLOCKS = 24

/** Why the Python engine cannot run here. */
function missing(): string {
  if (NO_GPU !== '') return NO_GPU
  try {
    execFileSync('python3', ['-c', 'import torch; assert torch.cuda.is_available()'], { stdio: 'ignore' })
    return ''
  } catch {
    return 'python3 has no torch with CUDA'
  }
}

const reason = missing()
const testWithTorch = needs(reason === '', reason)

/** One life of the engine: what it printed. */
async function engine(t: ExecutionContext, manager: DeviceManager, what: string, salt: string, layout: string) {
  const args = ['test/device/python_engine.py', what, manager.manager.socketPath, salt, layout]
  // Engines of torch may be told expandable segments by their operator; here pages must have handles.
  const env = { ...process.env, PYTHONPATH: `${ROOT}python`, PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:False' }
  const child = spawn('python3', args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => void child.kill('SIGKILL'))
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  if (code !== 0) throw new Error(`the engine ended with ${code}: ${err}`)
  return JSON.parse(out) as Record<string, number | string>
}

/** Publishes, lets the engine end, starts it again and compares, in every layout. */
async function restarted(t: ExecutionContext, manager: DeviceManager, readBytes: string): Promise<void> {
  for (const layout of LAYOUTS) {
    const salt = `python ${layout}`
    const saved = await engine(t, manager, 'publish', salt, layout)
    t.is(saved['accepted'], BLOCKS, layout)
    await manager.risen(readBytes)
    const back = await engine(t, manager, 'restore', salt, layout)
    t.like(
      back,
      { found: 'Ready', blocks: BLOCKS, fromDram: 0, fromSsd: BLOCKS, wrongSegments: 0, touchedGuards: 0 },
      layout,
    )
    t.true((await manager.risen(readBytes)) > 0, `${layout}: new reads by the backend that was selected`)
  }
}

testWithTorch(
  'Python with torch: with the default backend, pages come back to a restarted engine byte for byte',
  async (t) => {
    t.timeout(180_000)
    const manager = await startManager(t, { flags: ['--ssd-backend', 'auto'], launcher: [] })
    const { ssd } = JSON.parse((await manager.manager.get('/health')).body) as { ssd: SsdRoutes }
    t.log(`auto selected ${ssd.backend}: ${ssd.reason}`)
    await restarted(t, manager, ssd.backend === 'cufile' ? CUFILE_ROUTE.readBytes : 'orbitkv_ssd_fill_bytes_total')
    await manager.ends()
  },
)

testWithTorch(
  'Python with torch: with explicit cuFile in compatibility mode, the same, written and read by cuFile',
  async (t) => {
    t.timeout(180_000)
    const manager = await startManager(t, CUFILE_ROUTE)
    await restarted(t, manager, CUFILE_ROUTE.readBytes)
    t.true((await manager.manager.metric('orbitkv_ssd_cufile_write_bytes_total')) > 0)
    await manager.ends()
  },
)
