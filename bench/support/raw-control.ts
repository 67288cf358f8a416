import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Refusal } from './options.js'

/** What a control shares with the product, so that only the road differs: checksums, copies, codecs. */
const SHARED = [
  'native/codec/crc32.cc',
  'native/codec/crc32_x86.cc',
  'native/codec/fp8.cc',
  'native/codec/fp8_x86.cc',
  'native/codec/turboquant.cc',
  'native/codec/turboquant_x86.cc',
  'native/host/streaming_copy.cc',
]
const COMPILER = process.env['CXX'] ?? 'g++'

/** Compiles bench/native/NAME.cc into build/bench and returns the program. @throws Refusal without a compiler. */
export function compileControl(name: string): string {
  if (spawnSync(COMPILER, ['--version']).status !== 0) {
    throw new Refusal(`Cannot compile the raw control: ${COMPILER} is not installed (Debian package g++)`)
  }
  const root = rootFolder()
  const folder = join(root, 'build', 'bench')
  mkdirSync(folder, { recursive: true })
  const program = join(folder, name)
  const sources = [`bench/native/${name}.cc`, ...SHARED].map((path) => join(root, path))
  const flags = ['-std=c++20', '-O3', '-DNDEBUG', '-Wall', '-Wextra', '-I', join(root, 'native')]
  execFileSync(COMPILER, [...flags, '-o', program, ...sources], { stdio: 'inherit' })
  return program
}

/**
 * Links bench/native/NAME.cc with the addon's own objects, which the build has left, and returns the program: what works on
 * a device shares everything with the product but the road to it. @throws Refusal without a compiler or the objects
 */
export function linkControl(name: string): string {
  const root = rootFolder()
  const objects = join(root, 'build/native/CMakeFiles/orbitkv_objects.dir/native')
  const folder = join(root, 'build', 'bench')
  const program = join(folder, name)
  // Where the build came ready from elsewhere, so did this.
  if (!existsSync(objects) && existsSync(program)) return program
  if (!existsSync(objects)) {
    throw new Refusal(`Cannot link the raw control: ${objects} is not here, the addon was built elsewhere`)
  }
  if (spawnSync(COMPILER, ['--version']).status !== 0) {
    throw new Refusal(`Cannot compile the raw control: ${COMPILER} is not installed (Debian package g++)`)
  }
  // A build folder keeps objects of sources that are no more.
  const parts = ['base', 'codec', 'cuda', 'device', 'memory', 'nvcomp', 'shim'].flatMap((folder) =>
    readdirSync(join(root, 'native', folder))
      .map((source) => join(objects, folder, `${source}.o`))
      .filter((object) => existsSync(object)),
  )
  mkdirSync(folder, { recursive: true })
  const flags = ['-std=c++20', '-O2', '-Wall', '-Wextra', '-pthread', '-I', join(root, 'native')]
  const sources = [join(root, `bench/native/${name}.cc`), ...parts, join(objects, 'port', 'completion_sink.cc.o')]
  execFileSync(COMPILER, [...flags, '-o', program, ...sources, '-ldl'], { stdio: 'inherit' })
  return program
}

/** A control that answers one line with one line. */
export class RawControl {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>

  constructor(program: string, words: readonly (string | number)[]) {
    this.#child = spawn(program, words.map(String), { stdio: ['pipe', 'pipe', 'inherit'] })
    if (this.#child.stdout === null) throw new Error('a control has no output')
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
  }

  async ask(line: string): Promise<number[]> {
    this.#child.stdin?.write(`${line}\n`)
    const { value, done } = await this.#lines.next()
    if (done) throw new Error(`the raw control ended with ${this.#child.exitCode}`)
    return String(value).split(' ').map(Number)
  }

  async close(): Promise<void> {
    const exited = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.stdin?.end()
    await exited
  }
}

/** The repository: bench runs from dist/. */
function rootFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'bench', 'native'))) {
    const parent = dirname(folder)
    if (parent === folder) throw new Refusal('Cannot find bench/native: benches run in a repository, not in a package')
    folder = parent
  }
  return folder
}
