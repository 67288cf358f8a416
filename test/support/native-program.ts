import { execFile, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { folderOf } from './folder.js'

/** Programs of claims over sources of native/, compiled by the test that runs them. */
const root = process.cwd()
const compiler = process.env['CXX'] ?? 'g++'

const trial = ['-x', 'c++', '-fsanitize=address,undefined', '-pthread', '-', '-o', '/dev/null']

/** Why no program can be compiled here, with the sanitizers that they ask for; empty when one can. */
export const noCompiler =
  spawnSync(compiler, trial, { input: 'int main() {}' }).status === 0
    ? ''
    : `${compiler} with ASan and UBSan is not here, and claims are compiled by the test`

export interface Ending {
  /** Exit code, or a signal, or that it did not end. */
  readonly end: number | string
  readonly said: string
}

/** Runs a program; nobody else is kept waiting. */
export function runProgram(program: string, args: readonly string[]): Promise<Ending> {
  return new Promise((resolve) => {
    const child = execFile(program, args, { cwd: root, timeout: 600_000 }, (_, stdout, stderr) =>
      resolve({
        end: child.killed ? 'never' : (child.exitCode ?? child.signalCode ?? 'not begun'),
        said: `${stdout}${stderr}`,
      }),
    )
  })
}

/** Compiles sources, under the sanitizers named, into a folder of the test; the program's path. */
export async function buildProgram(
  t: ExecutionContext,
  sources: readonly string[],
  { sanitize = 'undefined', flags = [] as readonly string[] } = {},
): Promise<string> {
  const program = join(folderOf(t), 'program')
  const usual = [
    '-std=c++20',
    '-O1',
    '-g1',
    `-fsanitize=${sanitize}`,
    '-fno-sanitize-recover=all',
    '-Inative',
    '-pthread',
  ]
  const { end, said } = await runProgram(compiler, [...usual, ...flags, ...sources, '-o', program])
  if (end !== 0) throw new Error(`${compiler} cannot build ${sources[0]}: ${said}`)
  return program
}
