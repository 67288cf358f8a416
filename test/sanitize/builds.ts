import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/**
 * Builds of the addon under a sanitizer, each in a tree of its own that is laid out like the package:
 *
 *   build/sanitize/NAME/build/native/Release/orbitkv.node
 *                      /dist, /test/golden, package.json, ava.config.js    copies
 *
 * The addon is found by walking up from the code that loads it, so everything that runs from such a tree, in whatever
 * process or thread, has the sanitized addon, and the product has no switch for it.
 */

/** A bug of test/sanitize/planted.cc and what its report is called. */
export interface Plant {
  readonly bug: string
  readonly what: string
}

export interface SanitizedBuild {
  readonly name: 'address' | 'thread'
  /** As for -fsanitize. */
  readonly sanitize: string
  readonly runtime: string
  readonly plants: readonly Plant[]
}

export const BUILDS: readonly SanitizedBuild[] = [
  {
    name: 'address',
    sanitize: 'address,undefined',
    runtime: 'libasan.so',
    plants: [
      { bug: 'overflow', what: 'heap-buffer-overflow' },
      { bug: 'use-after-free', what: 'heap-use-after-free' },
      { bug: 'leak', what: 'leak' },
      { bug: 'undefined', what: 'runtime error' },
    ],
  },
  { name: 'thread', sanitize: 'thread', runtime: 'libtsan.so', plants: [{ bug: 'race', what: 'data race' }] },
]

const root = process.cwd()
const compiler = process.env['CXX'] ?? 'g++'

export function treeOf({ name }: SanitizedBuild): string {
  return join(root, 'build', 'sanitize', name)
}

/** Compiles the addon; says what went wrong, or null. */
export function compile(build: SanitizedBuild): string | null {
  const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js')
  const folder = join(treeOf(build), 'build', 'native')
  const args = [cmakeJs, 'compile', '-O', folder, `--CDORBITKV_SANITIZE=${build.sanitize}`]
  const made = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 })
  return made.status === 0 ? null : `${made.error ?? ''}${made.stdout}${made.stderr}`
}

/** What tests look for beside the addon; stand-ins of test/shims are compiled with sources of native/. */
const PARTS = ['dist', 'package.json', 'ava.config.js', 'native', 'test/golden', 'test/shims', 'python/orbitkv']

/** Brings the compiled tests and what they read beside the addon. */
export function furnish(build: SanitizedBuild): void {
  const tree = treeOf(build)
  rmSync(join(tree, 'dist'), { recursive: true, force: true })
  for (const part of PARTS) {
    cpSync(join(root, part), join(tree, part), { recursive: true })
  }
  plainPrograms(tree)
}

/** Leaves the sanitizer behind and becomes another program. Static, so that nothing is preloaded into it. */
const PLAIN =
  '#include <stdlib.h>\n#include <unistd.h>\nint main(int n, char **v) { (void)n; unsetenv("LD_PRELOAD"); execv(PROGRAM, v); return 127; }\n'

/** Programs that tests start besides Node, each as it is without the sanitizer: their findings are not ours. */
function plainPrograms(tree: string): void {
  const folder = join(tree, 'plain')
  mkdirSync(folder, { recursive: true })
  for (const name of ['python3', 'mkfifo', 'unshare', 'sh']) {
    const found = spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' })
    if (found.status !== 0) continue
    const args = ['-x', 'c', '-static', `-DPROGRAM="${found.stdout.trim()}"`, '-', '-o', join(folder, name)]
    const made = spawnSync(compiler, args, { input: PLAIN, encoding: 'utf8' })
    if (made.status !== 0) throw new Error(`Cannot make a plain ${name}: ${made.error ?? made.stderr}`)
  }
}

/** Why the sanitizer cannot run under this Node here, or null. */
export function missing(build: SanitizedBuild): string | null {
  const runtime = runtimeOf(build)
  if (dirname(runtime) === '.') return `${compiler} has no ${build.runtime}`
  const ran = spawnSync(process.execPath, ['-e', ''], {
    env: { ...process.env, LD_PRELOAD: runtime },
    encoding: 'utf8',
  })
  return ran.status === 0 ? null : `Node does not run under ${build.runtime}: ${ran.stderr.trim().split('\n')[0]}`
}

function runtimeOf({ runtime }: SanitizedBuild): string {
  return spawnSync(compiler, [`-print-file-name=${runtime}`], { encoding: 'utf8' }).stdout?.trim() ?? ''
}

/** Environment of a run whose reports go to files that begin with `logPath`. */
export function environment(build: SanitizedBuild, logPath: string): NodeJS.ProcessEnv {
  const address = `log_path=${logPath}:exitcode=0:symbolize=0`
  return {
    ...process.env,
    PATH: `${join(treeOf(build), 'plain')}:${process.env['PATH'] ?? ''}`,
    LD_PRELOAD: runtimeOf(build),
    // Stands-in for vendors' libraries are compiled with it too, or what they order would look like races.
    ORBITKV_TEST_SANITIZE: build.sanitize,
    // Module names are enough to judge, and a worker that was terminated leaves hundreds of blocks of Node's behind.
    ASAN_OPTIONS: `${address}:detect_leaks=1`,
    UBSAN_OPTIONS: 'print_stacktrace=0',
    TSAN_OPTIONS: `log_path=${logPath}:exitcode=0:report_thread_leaks=0:history_size=4`,
  }
}

/** A text with the places of the addon's frames in its source. */
export function withLines(build: SanitizedBuild, text: string): string {
  const addon = join(treeOf(build), 'build/native/Release/orbitkv.node')
  return text.replace(/\(\S*orbitkv\.node\+(0x[0-9a-f]+)\)/g, (frame, offset: string) => {
    const found = spawnSync('addr2line', ['-f', '-C', '-e', addon, offset], { encoding: 'utf8' })
    return found.status === 0 ? `${found.stdout.trim().split('\n').join(' ')} ${frame}` : frame
  })
}
