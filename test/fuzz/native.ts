import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Progress } from './loop.js'

/** The native parsers: a program of its own under ASan and UBSan, kept in build/fuzz while no source changes. */

const root = process.cwd()
const compiler = process.env['CXX'] ?? 'g++'
const FOLDERS = ['codec', 'device', 'files', 'host', 'memory', 'net', 'port', 'posix', 'uring']
const FLAGS = ['-std=c++20', '-O1', '-g1', '-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-pthread']

export const NATIVE_TARGETS = [
  'frames',
  'copies',
  'codes',
  'held',
  'codings',
  'checksums',
  'templates',
  'submissions',
  'slot-lines',
] as const

function filesIn(folder: string, ending: RegExp): string[] {
  return readdirSync(join(root, folder))
    .filter((file) => ending.test(file))
    .map((file) => join(folder, file))
}

/** The program, built if need be. @throws with what the compiler said */
export async function nativeProgram(): Promise<string> {
  const own = 'test/fuzz/native'
  const sources = [own, ...FOLDERS.map((folder) => `native/${folder}`)].flatMap((folder) => filesIn(folder, /\.cc$/))
  const headers = [own, 'native/base', ...FOLDERS.map((folder) => `native/${folder}`)]
  const hash = createHash('sha256').update(`${compiler} ${FLAGS.join(' ')}`)
  for (const file of [...sources, ...headers.flatMap((folder) => filesIn(folder, /\.h$/))].sort()) {
    hash.update(file).update(readFileSync(join(root, file)))
  }
  const folder = join(root, 'build', 'fuzz')
  const program = join(folder, `parsers-${hash.digest('hex').slice(0, 16)}`)
  if (existsSync(program)) return program
  mkdirSync(folder, { recursive: true })
  const args = [...FLAGS, '-Inative', `-I${own}`, ...sources, '-o', `${program}.new`]
  const said = await compiled(args)
  if (said !== null) throw new Error(`${compiler} cannot build the native targets: ${said}`)
  renameSync(`${program}.new`, program)
  return program
}

/** Runs the compiler; what it said when it failed. */
function compiled(args: readonly string[]): Promise<string | null> {
  const child = spawn(compiler, args, { cwd: root, stdio: ['ignore', 'ignore', 'pipe'] })
  let text = ''
  child.stderr.on('data', (part) => {
    text += part
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve(code === 0 ? null : text))
  })
}

/** Why native targets cannot be built here, or null. */
export function nativeMissing(): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'orbitkv-fuzz-'))
  const program = join(folder, 'probe')
  const made = spawnSync(compiler, ['-x', 'c++', '-fsanitize=address,undefined', '-', '-o', program], {
    input: 'int main() { return 0; }',
  })
  const ran = made.status === 0 && spawnSync(program).status === 0
  rmSync(folder, { recursive: true })
  return ran ? null : `${compiler} has no working -fsanitize=address,undefined here`
}

export interface NativeRun {
  readonly seed: number
  readonly seconds: number
  /** 0: until the time is over. */
  readonly records: number
  readonly target: string
  readonly weak: boolean
}

/** Lines of the program: `name records hex breach…` or, from a sanitizer's end, `name crash hex breach…`. */
function progressIn(line: string): Progress {
  const [target = '', count = '', hex = '', ...what] = line.split(' ')
  const finding =
    hex === ''
      ? null
      : { target, hex: hex === '-' ? '' : hex, breach: { kind: 'crash' as const, what: what.join(' ') } }
  return { target, records: count === 'crash' ? 0 : Number(count), finding }
}

export function runNative(program: string, { seed, seconds, records, target, weak }: NativeRun): Promise<Progress[]> {
  const folder = mkdtempSync(join(tmpdir(), 'orbitkv-fuzz-'))
  const args = [folder, `${seed}`, `${seconds}`, `${records}`, target, ...(weak ? ['weak'] : [])]
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', (part) => {
    text += part
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => {
      rmSync(folder, { recursive: true, force: true })
      const progress = text.split('\n').filter(Boolean).map(progressIn)
      const said = progress.length > 0 && (code === 0 || progress.some(({ finding }) => finding !== null))
      if (said) resolve(progress)
      else reject(new Error(`The native targets ended with ${code ?? signal} and no input: ${text}`))
    })
  })
}

/** Runs one input again; resolves with what the program says of it. */
export function replayNative(program: string, target: string, hex: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'orbitkv-fuzz-'))
  const ran = spawnSync(program, [folder, 'replay', target, hex], { encoding: 'utf8' })
  rmSync(folder, { recursive: true, force: true })
  return `${ran.stdout}${ran.stderr}`
}
