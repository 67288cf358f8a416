import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { folderOf } from '../support/folder.js'
import { buildProgram, noCompiler, runProgram } from '../support/native-program.js'
import { needs } from '../support/needs.js'

/**
 * The text of the kernels that code items, run as C++ thread by thread (test/native/kernels/device.h) beside the
 * processor's codings: every program, and twins of them that are broken in one place and must be found.
 */

const root = process.cwd()
const held = needs(noCompiler === '', noCompiler)

type Text = 'crc32_tables' | 'code' | 'fp8' | 'turboquant'

/** The text between R"cuda( and )cuda". */
function textOf(name: Text): string {
  const source = readFileSync(join(root, 'native/kernels', `${name}_source.h`), 'utf8')
  const text = /R"cuda\(([\s\S]*?)\)cuda"/.exec(source)?.[1]
  if (text === undefined) throw new Error(`native/kernels/${name}_source.h has no kernel`)
  return text
}
const TEXTS: Record<Text, string> = {
  crc32_tables: textOf('crc32_tables'),
  code: textOf('code'),
  fp8: textOf('fp8'),
  turboquant: textOf('turboquant'),
}

/** One program: FP8, or a shape of TurboQuant. */
interface Program {
  readonly headDim: number
  readonly bits: number
}
const FP8: Program = { headDim: 0, bits: 0 }
const SHAPES = [32, 64, 128, 256].flatMap((headDim) => [3, 4].map((bits): Program => ({ headDim, bits })))
const PROGRAMS = [FP8, ...SHAPES]

/** A place in a text, and what a careless hand would make of it. */
interface Twin {
  readonly what: string
  readonly text: Text
  readonly program: Program
  readonly right: string
  readonly wrong: string
}
const shape = (headDim: number, bits: number): Program => ({ headDim, bits })
const twin = (what: string, text: Text, program: Program, right: string, wrong: string): Twin => ({
  what,
  text,
  program,
  right,
  wrong,
})

const TWINS: readonly Twin[] = [
  twin('units of the item before', 'code', FP8, 'firsts[low + step] <= unit', 'firsts[low + step] < unit'),
  twin('wide accesses whatever the alignment', 'code', FP8, 'address % (W < 4 ? 4 * W : 16)', 'address % 4'),
  twin('nothing behind a coding', 'code', FP8, 'if (unit == 0)', 'if (unit == 1000)'),
  twin('flags of the first item', 'code', FP8, 'flags[index] = 1', 'flags[0] = 1'),
  twin('a limit that is one too high', 'fp8', FP8, '0x3c1f3c1fu', '0x3c1e3c1eu'),
  twin('no ties to even', 'fp8', FP8, '0x7ffffu + ((u >> 20) & 1u)', '0x80000u'),
  twin('a NaN that is a number', 'fp8', FP8, '+ 0x01000100u', '+ 0x00ff00ffu'),
  twin('a column that is moved too far', 'fp8', FP8, '0x99168a18u', '0x1cc717f9u'),
  twin('the power of another unit', 'fp8', FP8, 'part.behind / FP8_STEP]', 'part.behind / FP8_STEP + 1]'),
  twin(
    'steps of the unit before',
    'fp8',
    FP8,
    'const u32 begin = unit * most',
    'const u32 begin = (unit ? unit - 1 : 0) * most',
  ),
  twin('no last value', 'fp8', FP8, '(u8)encode_two(value, bf16)', '(u8)encode_two(value & 0xff00u, bf16)'),
  twin(
    'a quotient that is not corrected',
    'turboquant',
    shape(32, 4),
    '__fmaf_rn(__fmaf_rn(-divisor, q, x[i]), reciprocal, q);',
    'q;',
  ),
  twin('a boundary of the cell before', 'turboquant', shape(64, 3), 'if (at < low) ++below', 'if (at <= high) ++below'),
  twin(
    'signs of a neighbour',
    'turboquant',
    shape(64, 4),
    'lane * 2 * W + 2 * k + i',
    'lane * 2 * W + 2 * k + (i ^ 1)',
  ),
  twin(
    'keys that are too small are nothing',
    'turboquant',
    shape(64, 4),
    'n > 0.0f || (any & 0x7fff7fffu)',
    'n > 0.0f',
  ),
  twin('values that are keys', 'turboquant', shape(128, 4), 'step % 2 == 1', 'step % 2 == 2'),
  twin('sums from one side', 'turboquant', shape(256, 3), 'bit = 8, left = N', 'bit = 4, left = N'),
  twin('a minimum of -0', 'turboquant', shape(32, 3), 'low = __fadd_rn(low, 0.0f);', ''),
  twin('no barrier before the bytes go', 'turboquant', shape(64, 3), '__syncwarp();\n  carry', 'carry'),
]

/** A program's text in a namespace of its own; without C's linkage, of which there is one name a program. */
function named(name: string, texts: typeof TEXTS, { headDim, bits }: Program): string {
  const macros = ['FULL', 'EACH', 'HEAD_DIM', 'BITS'].map((macro) => `#undef ${macro}\n`).join('')
  const definitions = headDim === 0 ? '' : `#define HEAD_DIM ${headDim}\n#define BITS ${bits}\n`
  const text = headDim === 0 ? texts.crc32_tables + texts.code + texts.fp8 : texts.code + texts.turboquant
  return `${macros}${definitions}namespace ${name} {\n${text}\n}\n`.replaceAll('extern "C" ', '')
}

/** All texts in one program, because the compiler takes longer than every run of it. */
function build(t: ExecutionContext): Promise<string> {
  const right = PROGRAMS.map((program) => ({ texts: TEXTS, program }))
  const broken = TWINS.map((each) => ({
    texts: { ...TEXTS, [each.text]: TEXTS[each.text].replace(each.right, each.wrong) },
    program: each.program,
  }))
  const entries = [...right, ...broken]
  const kernel = ({ headDim }: Program) => (headDim === 0 ? 'orbitkv_fp8' : 'orbitkv_turboquant')
  const table = entries.map(
    ({ program }, i) => `ORBITKV_TEXT(text${i}, ${kernel(program)}, ${program.headDim}, ${program.bits}),`,
  )
  const file = join(folderOf(t), 'texts.inc')
  const spaces = entries.map(({ texts, program }, i) => named(`text${i}`, texts, program))
  writeFileSync(file, `${spaces.join('')}const Text kTexts[] = {${table.join(' ')}};\n`)
  const codec = readdirSync(join(root, 'native/codec')).filter((name) => name.endsWith('.cc'))
  const sources = ['test/native/kernels/codes.cc', ...codec.map((name) => `native/codec/${name}`)]
  const flags = ['-Wno-unknown-pragmas', '-ffp-contract=off', '-Itest/native/kernels', `-DTEXTS="${file}"`]
  return buildProgram(t, sources, { flags })
}

const nameOf = ({ headDim, bits }: Program): string => (headDim === 0 ? 'FP8' : `TurboQuant ${headDim} x ${bits} bits`)

held('kernels: items are coded as the processor codes them, whatever the order of threads', async (t) => {
  t.timeout(900_000)
  for (const { what, text, right } of TWINS)
    t.is(TEXTS[text].split(right).length, 2, `${what}: the place is there once`)
  const program = await build(t)
  for (const [i, each] of PROGRAMS.entries())
    t.deepEqual(await runProgram(program, [`${i}`, '12']), { end: 0, said: 'every claim held\n' }, nameOf(each))
  for (const [i, each] of TWINS.entries()) {
    const { end } = await runProgram(program, [`${PROGRAMS.length + i}`, '60'])
    // A wild address ends it by a signal: that is found too.
    t.false([0, 'never', 'not begun'].includes(end), `${nameOf(each.program)} with ${each.what} is found: ${end}`)
  }
})
