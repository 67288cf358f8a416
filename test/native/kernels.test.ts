import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { folderOf } from '../support/folder.js'
import { buildProgram, noCompiler, runProgram } from '../support/native-program.js'
import { needs } from '../support/needs.js'

/**
 * The kernels' own text, run as C++ thread by thread (test/native/kernels/device.h): right on a device needs a GPU, but
 * what is wrong here is wrong there. Twins of the text, each broken in one place, must be found by the same claims.
 */

const root = process.cwd()
const held = needs(noCompiler === '', noCompiler)

/** The text between R"cuda( and )cuda". */
function textOf(name: 'move' | 'crc32' | 'crc32_tables'): string {
  const source = readFileSync(join(root, 'native/kernels', `${name}_source.h`), 'utf8')
  const text = /R"cuda\(([\s\S]*?)\)cuda"/.exec(source)?.[1]
  if (text === undefined) throw new Error(`native/kernels/${name}_source.h has no kernel`)
  return text
}

const CODEC = readdirSync(join(root, 'native/codec'))
  .filter((file) => /^crc32.*\.cc$/.test(file))
  .map((file) => `native/codec/${file}`)
const SOURCES = ['test/native/kernels/claims.cc', ...['choice', 'runs', 'crc32_runs'].map((n) => `native/cuda/${n}.cc`)]

/** A place in the text of a kernel, and what a careless hand would make of it. */
interface Twin {
  readonly what: string
  readonly kernel: 'move' | 'gather' | 'gather_warps' | 'crc32'
  readonly right: string
  readonly wrong: string
}

const twin = (what: string, kernel: Twin['kernel'], right: string, wrong: string): Twin => ({
  what,
  kernel,
  right,
  wrong,
})

const TWINS: readonly Twin[] = [
  twin('one buffer for two rounds', 'gather', 'buffer ^= 1', 'buffer ^= 0'),
  twin('tiles that nobody waits for', 'gather', '__syncthreads();\n    const u64 next', 'const u64 next'),
  twin('slices that are never cut short', 'gather', 'last || left < slice_bytes ? left', 'last ? left'),
  twin('a slice of the tile after its own', 'gather_warps', 'unit += warps;', 'unit += warps + 1;'),
  twin('a stride of two grids', 'gather_warps', 'unit += warps;', 'unit += 2 * warps;'),
  twin('the wrong part of a tile', 'gather_warps', '(u32)unit % slices', '0 * slices'),
  twin('wide accesses whatever the alignment', 'move', 'apart % 16 == 0', 'apart % 8 == 0'),
  twin('no last byte', 'move', 'if (done < bytes) bytes_of', 'if (done + 1 < bytes) bytes_of'),
  twin('padding that stays', 'move', 'if (source == 0) zero(target, bytes, lane)', 'if (source == 0) return'),
  twin('the weight of another lane', 'crc32', 'weights[id])', 'weights[id ^ 1])'),
  twin('a table that nobody waits for', 'crc32', 'u);\n  __syncthreads();', 'u);'),
  twin('half a table', 'crc32', 'if (id < 128) fill', 'if (id < 64) fill'),
  twin('words of the lane before', 'crc32', 'step(table, sum.y, lane, 0)', 'step(table, sum.y, lane ^ 4, 16)'),
  twin(
    'bytes in front of a piece',
    'crc32',
    'if (byte >= first && byte < end)',
    'if (byte + 16 > first && byte < end)',
  ),
  twin('bytes behind a piece', 'crc32', 'byte < end)', 'byte < end + 16)'),
  twin('zeros behind a piece that stay', 'crc32', 'unshifted[stop - end]', 'unshifted[0]'),
  twin('a last round that ends too late', 'crc32', 'stop != end && rounds > 1 ?', 'stop == end && rounds > 1 ?'),
  twin('the run before', 'crc32', '.first <= piece', '.first < piece'),
  twin('a run that is cut short', 'crc32', 'count - before < each ? count - before : each', '1'),
  twin('a place from the start', 'crc32', 'powers[behind *', 'powers[(p - run.first) *'),
  twin('a tile that is read twice', 'crc32', 'at += ROUND;', 'at += round == 1 ? 0 : ROUND;'),
]

const right = { move: textOf('move'), crc32: textOf('crc32_tables') + textOf('crc32') }
const fileOf = ({ kernel }: Twin) => (kernel === 'crc32' ? 'crc32' : 'move')

/** A text under a namespace of its own; without C's linkage, of which there is one name a program. */
const named = (name: string, { move, crc32 }: typeof right) =>
  `namespace ${name} {\n${move}\nnamespace checksums {\n${crc32}\n}\n}\n`.replaceAll('extern "C" ', '')

/** All texts in one program, because the compiler takes longer than every run of it. */
function build(t: ExecutionContext): Promise<string> {
  const broken = TWINS.map((each) => {
    const file = fileOf(each)
    return { ...right, [file]: right[file].replace(each.right, each.wrong) }
  })
  const texts = [right, ...broken].map((text, i) => named(`text${i}`, text))
  const table = texts.map((_, i) => `ORBITKV_TEXT(text${i}),`).join(' ')
  const file = join(folderOf(t), 'texts.inc')
  writeFileSync(file, `${texts.join('')}const Text kTexts[] = {${table}};\n`)
  const flags = ['-Wno-unknown-pragmas', '-Itest/native/kernels', `-DTEXTS="${file}"`]
  return buildProgram(t, [...SOURCES, ...CODEC], { flags })
}

held('kernels: every byte of every run arrives once and none beside it, whatever the order of threads', async (t) => {
  t.timeout(900_000)
  for (const each of TWINS)
    t.is(right[fileOf(each)].split(each.right).length, 2, `${each.what}: the place is there once`)
  const program = await build(t)
  for (const kernel of ['move', 'gather', 'gather_warps', 'crc32']) {
    t.deepEqual(await runProgram(program, [kernel, '0']), { end: 0, said: 'every claim held\n' }, kernel)
  }
  for (const [i, { what, kernel }] of TWINS.entries()) {
    const { end } = await runProgram(program, [kernel, `${i + 1}`])
    // A wild address ends it by a signal: that is found too.
    t.false([0, 'never', 'not begun'].includes(end), `${kernel} with ${what} is found: ${end}`)
  }
})
