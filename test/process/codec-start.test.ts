import test from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { folderOf } from '../support/folder.js'
import { endsClean, ManagerChild } from '../support/manager-child.js'

/** What a Manager says of its storage codec when it starts, and what it refuses, at its command line. */

interface CodecHealth {
  readonly name: string
  readonly budgetBytes: number
  readonly lossy: boolean
  readonly nvcomp: unknown
}

async function healthOf(manager: ManagerChild): Promise<CodecHealth> {
  return (JSON.parse((await manager.get('/health')).body) as { readonly codec: CodecHealth }).codec
}

const WARNING = /experimental, and its effect on the quality of answers is not qualified/

for (const name of ['none', 'fp8', 'turboquant-4', 'turboquant-3']) {
  test.serial(
    `--storage-codec ${name}: log, health and metrics say what it is and that it may lose precision`,
    async (t) => {
      const flags = ['--storage-codec', name, '--storage-codec-budget', '8mb', '--devices', 'none']
      const manager = await ManagerChild.start(t, { folder: folderOf(t), flags })
      const lossy = name !== 'none'
      t.deepEqual(await healthOf(manager), { name, budgetBytes: 8 << 20, lossy, nvcomp: null })
      const serving = manager.lines.find(({ msg }) => msg === 'serving')
      t.is(serving?.['codec'], name)
      const warned = manager.lines.filter(({ msg }) => WARNING.test(msg ?? ''))
      t.is(warned.length, lossy ? 1 : 0)
      const metrics = [...(await manager.metrics()).keys()].filter((each) => each.includes('storage_codec'))
      t.is(metrics.length > 0, lossy, 'a feature that is off has no series')
      if (lossy) t.is(await manager.metric('orbitkv_storage_codec_silent_zero'), 0)
      await endsClean(t, manager)
    },
  )
}

const REFUSED: readonly (readonly [string, readonly string[], RegExp])[] = [
  ['an unknown codec', ['--storage-codec', 'lz4'], /'lz4': one of none, ans, .*\[config_bad_value\]/],
  ['a budget that is too small', ['--storage-codec-budget', '1kb'], /'1kb': a size from 4 KiB.*\[config_bad_value\]/],
  ['the flag of earlier versions', ['--ssd-codec', 'fp8'], /use --storage-codec: .*\[config_unknown_flag\]/],
  ['the budget of earlier versions', ['--ssd-codec-budget=1gb'], /use --storage-codec-budget \[config_unknown_flag\]/],
  [
    'ANS without a CUDA device',
    ['--storage-codec', 'ans', '--devices', 'none'],
    /none is served \(--devices none\).*nvidia-libnvcomp-cu1[23]==5\.3\.0\.16.*ORBITKV_NVCOMP_LIBRARY=.*\[codec_unavailable\]/,
  ],
]

for (const [what, flags, says] of REFUSED) {
  test.serial(`a start is refused with one line that names value and remedy: ${what}`, async (t) => {
    const end = await ManagerChild.refused(t, { folder: folderOf(t), flags })
    t.is(end.exitCode, 1)
    t.regex(end.stderr, says)
    t.is(end.stderr.trim().split('\n').length, 1)
  })
}

test.serial('ANS is had or refused, never replaced: a host without what it needs does not start', async (t) => {
  const { available, devices } = loadNative().cudaProbe()
  // A library that is no nvCOMP, whatever this machine has.
  process.env['ORBITKV_NVCOMP_LIBRARY'] = '/nonexistent/libnvcomp.so.5'
  const end = await ManagerChild.refused(t, { folder: folderOf(t), flags: ['--storage-codec', 'ans'] })
  delete process.env['ORBITKV_NVCOMP_LIBRARY']
  t.is(end.exitCode, 1)
  t.regex(end.stderr, /\[codec_unavailable\]/)
  t.regex(end.stderr, available && devices.length > 0 ? /nonexistent/ : /none is served/)
})
