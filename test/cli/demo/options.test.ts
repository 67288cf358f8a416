import test from 'ava'
import { parseDemo } from '../../../src/cli/demo/options.js'
import { ConfigError } from '../../../src/shared/base/errors.js'

test('parseDemo: by itself a byte oracle over host pages; --help asks for nothing else', (t) => {
  t.like(parseDemo([]), { codec: 'none', device: 'host', route: 'uring', json: false, trace: null })
  t.deepEqual(parseDemo([])?.shape, { layers: 4, segmentBytes: 32_768 })
  t.is(parseDemo(['--help', '--nonsense']), null)
})

test('parseDemo: TurboQuant has eight layers, of which it codes four', (t) => {
  t.deepEqual(parseDemo(['--storage-codec', 'turboquant-3'])?.shape, { layers: 8, segmentBytes: 16_384 })
  t.deepEqual(parseDemo(['--storage-codec', 'fp8'])?.shape, { layers: 4, segmentBytes: 32_768 })
})

test('parseDemo: what it does not know is refused with what it does', (t) => {
  const refused: readonly (readonly [string[], RegExp])[] = [
    [['--storage-codec', 'fp4'], /'fp4': one of none, ans, fp8, turboquant-4, turboquant-3/],
    [['--device', 'cuda'], /'cuda': one of host, gpu/],
    [['--route', 'cufile'], /'cufile': one of uring, dram/],
    [['--limit', '0'], /--limit '0'/],
    [['--block-bytes', '6kb'], /multiple of 4kb/],
    [['--block-bytes', '8kb', '--storage-codec', 'fp8'], /multiple of 16kb/],
    [['--block-bytes', '16kb', '--storage-codec', 'turboquant-4'], /multiple of 32kb/],
    [['--block-bytes', '128mb'], /up to 64mb/],
    [['--codec', 'fp8'], /'--codec': --help/],
    [['--limit'], /'--limit': --help/],
  ]
  for (const [argv, says] of refused) {
    const error = t.throws(() => parseDemo(argv), { instanceOf: ConfigError }, argv.join(' '))
    t.regex(error?.message ?? '', says)
  }
})
